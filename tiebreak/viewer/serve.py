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
from tiebreak.viewer.voting import voting_key

HOST = "127.0.0.1"


def serve(root: Path, run: Path | None, *, port: int, ready: Callable[[str], None], voter: str | None = None) -> None:
    """Serve the runs of a folder until Ctrl-C; `ready` gets the address, which holds the key.

    With a voter it is the address of the page for votes on the run.
    """
    import uvicorn

    token = secrets.token_urlsafe(32)
    viewer = Viewer(root, run, person=voter or "")
    start = "/" if run is None else f"/run/{run.name}" if voter is None else f"/vote/{voting_key(run.name)}"
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
        ready(f"http://{HOST}:{port}{start}?token={token}")
        with contextlib.suppress(KeyboardInterrupt):
            server.run(sockets=[listening])


def _listening(port: int) -> socket.socket:
    try:
        return socket.create_server((HOST, port), backlog=128)
    except OSError as error:
        reason = os.strerror(error.errno or 0)
        raise UsageError(f"cannot listen on port {port}: {reason}; choose another with --port") from None
