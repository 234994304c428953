"""Who may ask the viewer anything: this machine's user, from the viewer's own pages; and only to read, except for votes.

A page of any web site can make the user's browser send requests to 127.0.0.1, and a name that is made to point there
(DNS rebinding) makes them look like the viewer's own. So every request, whatever its method, must name this server
exactly, must not come from elsewhere, and must carry a secret that only the printed address holds.
"""

from __future__ import annotations

import hmac
import re
from http.cookies import CookieError, SimpleCookie
from urllib.parse import parse_qs

from starlette.types import ASGIApp, Message, Receive, Scope, Send

POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self';"
    " base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
HEADERS = (
    (b"content-security-policy", POLICY.encode()),
    (b"x-content-type-options", b"nosniff"),
    (b"x-frame-options", b"DENY"),
    (b"referrer-policy", b"no-referrer"),
    (b"cross-origin-opener-policy", b"same-origin"),
    (b"cross-origin-resource-policy", b"same-origin"),
    (b"cache-control", b"no-store"),
)
_OWN_SITES = ("", "same-origin", "none")
_MOST_FIELDS = 20
_VOTES = re.compile(r"/vote/[0-9a-f]{16}/votes")
"""The one address that is written to."""


class Guard:
    """Lets only the intended requests through, and puts the same headers on every reply."""

    def __init__(self, app: ASGIApp, *, port: int, token: str) -> None:
        self._app = app
        self._token = token.encode()
        self._hosts = (f"127.0.0.1:{port}", f"localhost:{port}")
        # Cookies know no ports: two viewers at once must not overwrite each other's.
        self._cookie = f"tiebreak_{port}"

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request, or refuse it."""
        if scope["type"] != "http":
            return
        refusal = self._refusal(scope)
        if refusal is not None:
            await _reply(send, *refusal)
        elif self._knows(scope):
            await self._app(scope, receive, _with_headers(send))
        elif self._in_address(scope):
            await self._move_to_cookie(scope, send)
        else:
            await _reply(send, 403, "Open the address that tiebreak view printed: it holds the key to this page.")

    def _refusal(self, scope: Scope) -> tuple[int, str] | None:
        hosts, origins = _headers(scope, "host"), _headers(scope, "origin")
        if len(hosts) != 1 or hosts[0].lower() not in self._hosts:
            return 421, "This server has another name."
        if any(origin.lower() != f"http://{hosts[0].lower()}" for origin in origins):
            return 403, "Only the viewer's own pages may ask."
        if any(site not in _OWN_SITES for site in _headers(scope, "sec-fetch-site")):
            return 403, "Only the viewer's own pages may ask."
        if scope["method"] in ("GET", "HEAD"):
            return None
        if scope["method"] != "POST" or not _VOTES.fullmatch(scope["path"]):
            return 405, "The viewer only shows."
        # Whoever writes must say where from, and send what no form of another site can.
        if len(origins) != 1 or _headers(scope, "content-type") != ["application/json"]:
            return 403, "Only the viewer's own pages may vote."
        return None

    def _knows(self, scope: Scope) -> bool:
        given = [value.removeprefix("Bearer ") for value in _headers(scope, "authorization")]
        for header in _headers(scope, "cookie"):
            try:
                found = SimpleCookie(header).get(self._cookie)
            except CookieError:
                continue
            given += [found.value] if found else []
        return any(self._same(value) for value in given)

    def _in_address(self, scope: Scope) -> bool:
        try:
            query = parse_qs(scope["query_string"].decode("latin-1"), max_num_fields=_MOST_FIELDS)
        except ValueError:
            return False
        return any(self._same(value) for value in query.get("token", []))

    def _same(self, given: str) -> bool:
        return hmac.compare_digest(given.encode("utf-8", "replace"), self._token)

    async def _move_to_cookie(self, scope: Scope, send: Send) -> None:
        """From here on the secret travels in a cookie that no other site's request carries, and not in the address."""
        path: bytes = scope.get("raw_path") or scope["path"].encode()
        cookie = f"{self._cookie}={self._token.decode()}; Path=/; HttpOnly; SameSite=Strict"
        # A second slash at the start would make it the address of another host.
        location = b"/" + path.lstrip(b"/")
        await _reply(send, 303, "", (b"location", location), (b"set-cookie", cookie.encode()))


def _headers(scope: Scope, name: str) -> list[str]:
    """Every value of a header, which may be there more than once."""
    return [value.decode("latin-1") for key, value in scope["headers"] if key.lower() == name.encode()]


def _with_headers(send: Send) -> Send:
    async def sending(message: Message) -> None:
        if message["type"] == "http.response.start":
            message["headers"] = [*message.get("headers", ()), *HEADERS]
        await send(message)

    return sending


async def _reply(send: Send, status: int, text: str, *more: tuple[bytes, bytes]) -> None:
    body = text.encode()
    headers = [(b"content-type", b"text/plain; charset=utf-8"), (b"content-length", str(len(body)).encode()), *more, *HEADERS]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})
