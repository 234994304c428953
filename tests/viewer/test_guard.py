"""Who gets an answer from the viewer: asked over raw sockets, as a browser under somebody else's command would."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from itertools import product
from pathlib import Path

import pytest
from support.made import Planted, write_run
from support.viewing import TOKEN, Serving, serving

PATHS = ["/", "/run/r", "/run/r/overview", "/run/r/samples", "/run/r/events", "/assets/page.js", "/nothing"]
METHODS = ["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE"]


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Serving]:
    """A viewer with one run."""
    root = tmp_path_factory.mktemp("results")
    write_run(root / "r", [Planted(label="a", planted=[1.0, 0.0])], 2)
    with serving(root) as running:
        yield running


def ask(server: Serving, *lines: str, method: str = "GET", path: str = "/", host: str | None = "") -> tuple[int, str]:
    """The status and the head of the reply to a request with just these headers."""
    named = f"127.0.0.1:{server.port}" if host == "" else host
    head = [f"{method} {path} HTTP/1.1", *([] if named is None else [f"Host: {named}"]), *lines, "Connection: close", "", ""]
    with socket.create_connection(("127.0.0.1", server.port), timeout=10) as connection:
        connection.sendall("\r\n".join(head).encode("latin-1"))
        reply = b""
        while b"\r\n\r\n" not in reply and (some := connection.recv(65536)):
            reply += some
    text = reply.decode("latin-1")
    return int(text.split(" ", 2)[1]), text.partition("\r\n\r\n")[0].lower()


def test_only_the_intended_combinations_get_in(server: Serving) -> None:
    """Every host × origin × site × method × key × path: two names, our own origin or none, to read, with the key."""
    own = f"127.0.0.1:{server.port}"
    hosts = [own, f"localhost:{server.port}", "127.0.0.1", f"evil.example:{server.port}", f"127.0.0.1.evil.example:{server.port}",
             f"[::1]:{server.port}", f"{own}.", f"evil@{own}", None]  # fmt: skip
    origins = [None, f"http://{own}", "http://evil.example", "null", f"https://{own}", f"http://127.0.0.1:{server.port + 1}"]
    sites = [None, "same-origin", "none", "cross-site", "same-site"]
    keys = [f"Cookie: tiebreak_{server.port}={TOKEN}", f"Authorization: Bearer {TOKEN}", "Authorization: Bearer wrong", None]
    let_in = asked = 0
    for host, origin, site, method, key in product(hosts, origins, sites, METHODS, keys):
        lines = [
            *([f"Origin: {origin}"] if origin else []),
            *([f"Sec-Fetch-Site: {site}"] if site else []),
            *([key] if key else []),
        ]
        if not _worth_asking(host, origin, site, method, key):
            continue
        status, head = ask(server, *lines, method=method, path="/assets/page.js", host=host)
        meant = (
            host in hosts[:2]
            and (origin is None or origin == f"http://{host}")
            and site in (None, "same-origin", "none")
            and method in ("GET", "HEAD")
            and key in keys[:2]
        )
        assert (status == 200) == meant, (host, origin, site, method, key, status)
        assert not meant or "access-control-allow" not in head
        let_in += meant
        asked += 1
    assert asked > 2000
    assert let_in == 32


def _worth_asking(host: str | None, origin: str | None, site: str | None, method: str, key: str | None) -> bool:
    """Combinations with at most three things out of the ordinary: what two wrong things do not stop, no fourth will."""
    return sum((host is None or not host.startswith("127.0.0.1:"), origin is not None, site is not None, method != "GET",
                key is None or "Cookie" not in key)) <= 3  # fmt: skip


@pytest.mark.parametrize("path", PATHS)
def test_no_page_answers_without_the_key_and_all_have_the_same_headers(server: Serving, path: str) -> None:
    """The stream of events and the data behind the pages are guarded like the pages."""
    for line in (
        [],
        ["Cookie: tiebreak_1=x"],
        [f"Cookie: tiebreak_{server.port}="],
        ["Authorization: Basic eDp5"],
        ['Cookie: a=;==;"'],
    ):
        assert ask(server, *line, path=path)[0] == 403
    status, head = ask(server, f"Cookie: tiebreak_{server.port}={TOKEN}", path=path)
    assert status == (404 if path == "/nothing" else 200)
    for header in (
        "content-security-policy: default-src 'none'",
        "frame-ancestors 'none'",
        "x-content-type-options: nosniff",
        "referrer-policy: no-referrer",
        "cross-origin-resource-policy: same-origin",
        "cache-control: no-store",
    ):
        assert header in head


def test_the_key_in_the_address_moves_into_a_cookie(server: Serving) -> None:
    """Once, by a redirect to the same page without it; the cookie goes to no other site's request and no script."""
    status, head = ask(server, path=f"/run/r?token={TOKEN}")
    assert status == 303
    assert "location: /run/r\r\n" in head
    assert f"set-cookie: tiebreak_{server.port}={TOKEN}; path=/; httponly; samesite=strict" in head
    assert ask(server, path="/run/r?token=wrong")[0] == 403
    assert ask(server, path=f"/run/r?token={TOKEN}", host="evil.example")[0] == 421
    assert ask(server, f"Cookie: tiebreak_{server.port + 1}={TOKEN}", path="/")[0] == 403


def test_the_redirect_never_leaves_this_server(server: Serving) -> None:
    """An address that begins with two slashes is another host to a browser."""
    status, head = ask(server, path=f"//evil.example/?token={TOKEN}")
    assert status == 303
    assert "location: /evil.example/\r\n" in head + "\r\n"


def test_two_hosts_or_two_origins_are_refused(server: Serving) -> None:
    """What one part of a program reads and another does not is how guards are got round."""
    key = f"Cookie: tiebreak_{server.port}={TOKEN}"
    assert ask(server, key, f"Host: 127.0.0.1:{server.port}")[0] in (400, 421)
    assert ask(server, key, f"Origin: http://127.0.0.1:{server.port}", "Origin: http://evil.example")[0] == 403


def test_it_listens_on_this_machine_alone(tmp_path: Path, server: Serving) -> None:
    """Nobody else on the network can even connect."""
    others = {info[4][0] for info in socket.getaddrinfo(socket.gethostname(), None, socket.AF_INET)} - {"127.0.0.1"}
    for address in others:
        if not str(address).startswith("127."):
            with pytest.raises(OSError):
                socket.create_connection((str(address), server.port), timeout=1).close()


@pytest.mark.parametrize(
    "query",
    ["page=-1", "page=x", "page=9" * 9, "per_page=0", "per_page=101", "sort=evil", "only=evil", "page=\u0661", "per_page=1e3"],
)
def test_a_question_that_is_none_is_refused(server: Serving, query: str) -> None:
    from urllib.parse import quote

    key = f"Cookie: tiebreak_{server.port}={TOKEN}"
    assert ask(server, key, path=f"/run/r/samples?{quote(query, safe='=&')}")[0] == 400


@pytest.mark.parametrize("name", ["..", "%2e%2e", "..%2fr", "r%2f..%2fr", "%00", "r%00", "x" * 5000])
def test_no_name_leads_out_of_the_results(server: Serving, name: str) -> None:
    key = f"Cookie: tiebreak_{server.port}={TOKEN}"
    assert ask(server, key, path=f"/run/{name}")[0] in (400, 404)


def test_a_question_with_very_many_fields_is_answered_like_any_other(server: Serving) -> None:
    fields = "&".join(f"f{n}=1" for n in range(100))
    assert ask(server, path=f"/?{fields}")[0] == 403
    assert ask(server, f"Authorization: Bearer {TOKEN}", path=f"/?{fields}")[0] == 200
