"""The viewer's server: on the loopback alone, until it is told to end."""

from __future__ import annotations

import contextlib
import secrets
import socket
from collections.abc import Callable
from pathlib import Path

from benchmark.core.errors import UsageError
from benchmark.viewer.app import Viewer, make_app

HOST = "127.0.0.1"


def serve(root: Path, run: Path | None, *, port: int, ready: Callable[[str], None]) -> None:
    """Serve the runs of a folder until Ctrl-C; `ready` gets the address, which holds the key."""
    import uvicorn

    token = secrets.token_urlsafe(32)
    viewer = Viewer(root, run)
    with contextlib.closing(_listening(port)) as listening:
        port = listening.getsockname()[1]
        config = uvicorn.Config(
            make_app(viewer, port=port, token=token),
            log_config=None,
            access_log=False,
            lifespan="off",
            ws="none",
            server_header=False,
            timeout_graceful_shutdown=1,
        )
        server = uvicorn.Server(config)
        viewer.closing = lambda: server.should_exit
        ready(f"http://{HOST}:{port}{f'/run/{run.name}' if run else '/'}?token={token}")
        with contextlib.suppress(KeyboardInterrupt):
            server.run(sockets=[listening])


def _listening(port: int) -> socket.socket:
    made = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        made.bind((HOST, port))
        made.listen(128)
    except OSError as error:
        made.close()
        raise UsageError(f"cannot listen on port {port}: {error.strerror}; choose another with --port") from None
    return made
