"""The viewer's server: on the loopback alone, until it is told to end."""

from __future__ import annotations

import contextlib
import os
import secrets
import socket
from collections.abc import Callable
from pathlib import Path

from tiebreak.core.errors import UsageError
from tiebreak.viewer.app import Viewer, make_app

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
    try:
        return socket.create_server((HOST, port), backlog=128)
    except OSError as error:
        reason = os.strerror(error.errno or 0)
        raise UsageError(f"cannot listen on port {port}: {reason}; choose another with --port") from None
