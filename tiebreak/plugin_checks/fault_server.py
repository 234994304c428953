"""A server on this machine that answers everything with one and the same fault."""

from __future__ import annotations

import threading
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType

KEY = "check-plugin-key"
"""The key that providers are given for it; the faults repeat it, as some servers do."""
_BODY = f'{{"error": {{"message": "scripted fault, key {KEY}", "type": "scripted"}}}}'.encode()


@dataclass(frozen=True, slots=True)
class Fault:
    """A status and a body; status 0 closes the connection without a word."""

    status: int
    body: bytes = _BODY


class FaultServer:
    """Listens on a free port while the context is open, and counts what it was asked.

    In a thread of its own: it answers a provider that blocks the event loop, too.
    """

    def __init__(self, fault: Fault) -> None:
        self._fault = fault
        self.asked = 0

    def __enter__(self) -> FaultServer:
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), self._handler())
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}"
        threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True).start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._server.shutdown()
        self._server.server_close()

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        server = self

        class Handler(BaseHTTPRequestHandler):
            def handle_one_request(self) -> None:
                """Read the request, whatever its method, and send the fault."""
                self.raw_requestline = self.rfile.readline(65536)
                self.close_connection = True
                if self.raw_requestline and self.parse_request():
                    self.rfile.read(int(self.headers.get("Content-Length") or 0))
                    server.asked += 1
                    self.close_connection = True
                    _send(self, server._fault)

            def log_message(self, format: str, *args: object) -> None:
                """Nothing is printed."""

        return Handler


def _send(handler: BaseHTTPRequestHandler, fault: Fault) -> None:
    if fault.status:
        handler.send_response(fault.status)
        handler.send_header("Content-Type", "application/json")
        handler.send_header("Content-Length", str(len(fault.body)))
        handler.send_header("Connection", "close")
        handler.end_headers()
        handler.wfile.write(fault.body)
