"""The viewer's real server, in a thread of this process."""

from __future__ import annotations

import contextlib
import socket
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import uvicorn

from tiebreak.viewer.app import Viewer, make_app

TOKEN = "token-for-tests-only"


@dataclass(frozen=True)
class Serving:
    """Where it listens."""

    port: int

    def address(self, path: str = "/", *, key: bool = True) -> str:
        """The address of a page, with the key in it."""
        return f"http://127.0.0.1:{self.port}{path}{f'?token={TOKEN}' if key else ''}"


@contextlib.contextmanager
def serving(root: Path, *, stream_s: float = 600.0) -> Iterator[Serving]:
    """Serve the runs of a folder."""
    with contextlib.closing(socket.create_server(("127.0.0.1", 0))) as listening:
        port = listening.getsockname()[1]
        viewer = Viewer(root, stream_s=stream_s)
        config = uvicorn.Config(
            make_app(viewer, port=port, token=TOKEN), log_config=None, lifespan="off", ws="none", timeout_graceful_shutdown=1
        )
        server = uvicorn.Server(config)
        viewer.closing = lambda: server.should_exit
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listening]}, daemon=True)
        thread.start()
        try:
            yield Serving(port)
        finally:
            server.should_exit = True
            thread.join(10)
