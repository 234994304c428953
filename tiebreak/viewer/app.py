"""The viewer's pages: the runs, one run as it goes, its samples, and what happens, as it happens."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import msgspec
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import HTMLResponse, PlainTextResponse, Response, StreamingResponse
from starlette.routing import Route

from tiebreak.core.errors import BenchmarkError
from tiebreak.core.media import IMAGE_TYPES, media_part
from tiebreak.report.browse import FILTERS, SORTS
from tiebreak.report.html import asset, render
from tiebreak.store.folder import DATABASE
from tiebreak.viewer.guard import Guard
from tiebreak.viewer.run_list import comparison, list_row
from tiebreak.viewer.run_view import RunView
from tiebreak.viewer.voting import MOST_NAME, BadVote, SentVote, VotingDesk, voting_key

TEMPLATES = Path(__file__).parent / "templates"
_LOOK_EVERY_S = 0.4
_ALIVE_EVERY_S = 15.0
_MOST_PER_PAGE = 100
_ASSETS = {
    **dict.fromkeys(("page.css", "vote.css"), "text/css"),
    **dict.fromkeys(("page.js", "live.js", "vote.js"), "text/javascript"),
}
_OWN_ASSETS = ("live.js", "vote.js", "vote.css")
_LARGEST_VOTE_BYTES = 10_000


class Viewer:
    """The runs of a results folder, and perhaps one from elsewhere, as pages."""

    def __init__(self, root: Path, run: Path | None = None, *, stream_s: float = 600.0, person: str = "") -> None:
        self._root = root
        self._extra = run
        self._views: dict[Path, RunView] = {}
        self._desks: dict[Path, VotingDesk] = {}
        self._person = person
        """Who votes, unless they say otherwise."""
        self._stream_s = stream_s
        """How long a stream of events lasts before the page has to ask again."""
        self.closing: Callable[[], bool] = lambda: False
        """Whether the server is to end: streams end with it."""

    def runs(self) -> dict[str, Path]:
        """The folders of the runs by name, the newest first."""
        found = [path.parent for path in self._root.glob(f"*/{DATABASE}") if path.stat().st_size]
        extra = [] if self._extra is None else [self._extra]
        found = sorted({*found, *extra}, key=lambda folder: (folder / DATABASE).stat().st_mtime_ns, reverse=True)
        # Of two folders with one name the one that was asked for is meant.
        return {folder.name: folder for folder in found} | {folder.name: folder for folder in extra}

    def view(self, name: str) -> RunView | None:
        """A run by its name."""
        folder = self.runs().get(name)
        return None if folder is None else self._views.setdefault(folder, RunView(folder))

    # --- pages ---

    async def index(self, request: Request) -> Response:
        """The list of runs."""
        return _html("runs.html", runs=await asyncio.to_thread(self._listed))

    def _listed(self) -> list[dict[str, Any]]:
        rows = []
        for name in self.runs():
            run = self.view(name)
            assert run is not None
            try:
                rows.append({"name": name, **list_row(run.folder, *run.listed())})
            except BenchmarkError as error:
                rows.append({"name": name, "problem": str(error)})
        return rows

    async def compare(self, request: Request) -> Response:
        """Two finished runs, before and after."""
        found = [self.runs().get(request.query_params.get(name, "")) for name in ("before", "after")]
        if found[0] is None or found[1] is None:
            raise HTTPException(404, "There is no such run: two of them are compared, before and after.")
        return _html("compare.html", **await asyncio.to_thread(comparison, found[0], found[1]))

    async def page(self, request: Request) -> Response:
        """One run."""
        run, name = self._asked(request), request.path_params["name"]
        shown = await asyncio.to_thread(lambda: run.page.get(run.stamp()))
        url = str(request.url_for("samples", name=name).path)
        votes = f"/vote/{voting_key(name)}"
        return _html("run.html", **shown, name=name, url=url, votes=votes, events=str(request.url_for("events", name=name).path))

    async def overview(self, request: Request) -> Response:
        """The part of a run's page that changes while it goes."""
        run = self._asked(request)
        return _html("part.html", **await asyncio.to_thread(lambda: run.page.get(run.stamp())))

    async def samples(self, request: Request) -> Response:
        """A page of samples, as data."""
        run = self._asked(request)
        asked = _asked_samples(dict(request.query_params))
        if asked is None:
            raise HTTPException(400, "Not a question for samples.")
        found = await asyncio.to_thread(lambda: run.samples(**asked))
        return Response(msgspec.json.encode(found), media_type="application/json")

    async def media(self, request: Request) -> Response:
        """An image or document that was sent, by its digest; its type is what its bytes are."""
        run, digest = self._asked(request), request.path_params["digest"]
        data = await asyncio.to_thread(run.blob, digest)
        if data is None:
            raise HTTPException(404, "There is no such image.")
        try:
            kind = media_part(data, name=digest).media_type
        except ValueError:
            raise HTTPException(404, "There is no such image.") from None
        headers = {} if kind in IMAGE_TYPES else {"content-disposition": "attachment"}
        return Response(data, media_type=kind, headers=headers)

    async def events(self, request: Request) -> Response:
        """How far the run is, told whenever it changes."""
        run = self._asked(request)
        return StreamingResponse(self._happening(run), media_type="text/event-stream")

    # --- votes ---

    async def vote(self, request: Request) -> Response:
        """The page for votes on a run; nothing in it says which run, or whose answers they are."""
        self._desk(request)
        return _html("vote.html", key=request.path_params["key"], person=self._person, most_name=MOST_NAME)

    async def next_offer(self, request: Request) -> Response:
        """What to vote on next."""
        desk, asked = self._desk(request), request.query_params
        if asked.get("kind") not in ("pair", "answer"):
            raise HTTPException(400, "Not something to vote on.")
        try:
            found = await asyncio.to_thread(desk.next_offer, asked.get("person", ""), asked["kind"])
        except BadVote as error:
            raise HTTPException(400, str(error)) from None
        return Response(msgspec.json.encode(found), media_type="application/json")

    async def keep_vote(self, request: Request) -> Response:
        """Keep a vote: the one thing the viewer writes."""
        desk, body = self._desk(request), b""
        async for part in request.stream():
            body += part
            if len(body) > _LARGEST_VOTE_BYTES:
                raise HTTPException(413, "This is too long for a vote.")
        try:
            told = await asyncio.to_thread(desk.keep, msgspec.json.decode(body, type=SentVote))
        except (msgspec.DecodeError, UnicodeError):
            raise HTTPException(400, "This is not a vote.") from None
        except BadVote as error:
            raise HTTPException(400, str(error)) from None
        except OSError as error:
            raise HTTPException(503, f"The vote cannot be kept: {error.strerror}.") from None
        return Response(msgspec.json.encode(told), media_type="application/json")

    def _desk(self, request: Request) -> VotingDesk:
        key = request.path_params["key"]
        folder = next((folder for name, folder in self.runs().items() if voting_key(name) == key), None)
        if folder is None:
            raise HTTPException(404, "There is no such run.")
        return self._desks.setdefault(folder, VotingDesk(folder))

    async def asset(self, request: Request) -> Response:
        """A script or a style of ours."""
        name = request.path_params["name"]
        if name not in _ASSETS:
            raise HTTPException(404, "There is no such file.")
        text = (TEMPLATES / name).read_text(encoding="utf-8") if name in _OWN_ASSETS else asset(name)
        return Response(text, media_type=_ASSETS[name])

    async def no_picture(self, request: Request) -> Response:
        """Browsers ask for one unasked."""
        return Response(status_code=204)

    def _asked(self, request: Request) -> RunView:
        name = request.path_params["name"]
        if (run := self.view(name)) is None:
            raise HTTPException(404, f"There is no run {name}.")
        return run

    async def _happening(self, run: RunView) -> AsyncIterator[bytes]:
        yield b"retry: 1000\n\n"
        told, began, spoke = b"", time.monotonic(), time.monotonic()
        while not self.closing() and time.monotonic() - began < self._stream_s:
            try:
                state = await asyncio.to_thread(lambda: run.state.get(run.stamp()))
            except BenchmarkError as error:
                yield b"event: problem\ndata: " + msgspec.json.encode(str(error)) + b"\n\n"
                return
            said = msgspec.json.encode(state)
            now = time.monotonic()
            if said != told:
                yield b"event: progress\ndata: " + said + b"\n\n"
                told, spoke = said, now
            elif now - spoke > _ALIVE_EVERY_S:
                yield b": still here\n\n"
                spoke = now
            await asyncio.sleep(_LOOK_EVERY_S)


def make_app(viewer: Viewer, *, port: int, token: str) -> Guard:
    """The pages behind their guard."""
    pages = Starlette(
        routes=[
            Route("/", viewer.index),
            Route("/compare", viewer.compare),
            Route("/assets/{name}", viewer.asset),
            Route("/favicon.ico", viewer.no_picture),
            Route("/vote/{key}", viewer.vote),
            Route("/vote/{key}/next", viewer.next_offer),
            Route("/vote/{key}/votes", viewer.keep_vote, methods=["POST"]),
            Route("/run/{name}", viewer.page, name="page"),
            Route("/run/{name}/overview", viewer.overview),
            Route("/run/{name}/samples", viewer.samples, name="samples"),
            Route("/run/{name}/media/{digest}", viewer.media),
            Route("/run/{name}/events", viewer.events, name="events"),
        ],
        exception_handlers={BenchmarkError: _explain},
    )
    return Guard(pages, port=port, token=token)


async def _explain(request: Request, error: Exception) -> Response:
    return PlainTextResponse(str(error), 503)


def _asked_samples(given: dict[str, str]) -> dict[str, Any] | None:
    """The question in its parts; None where it is none."""
    page, per_page = given.get("page", "0"), given.get("per_page", "25")
    only, sort = given.get("only", ""), given.get("sort", "sample")
    whole = page.isascii() and page.isdigit() and per_page.isascii() and per_page.isdigit() and len(page + per_page) < 12
    if not whole or not 0 < int(per_page) <= _MOST_PER_PAGE or sort not in SORTS or (only and only not in FILTERS):
        return None
    q, category = given.get("q", "")[:200], given.get("category", "")
    return {"q": q, "only": only, "category": category, "sort": sort, "page": int(page), "per_page": int(per_page)}


def _html(template: str, **values: Any) -> Response:
    return HTMLResponse(render(template, TEMPLATES, **values))
