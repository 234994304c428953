"""A hub of datasets on this machine: as much of its interface as fetching a file takes."""

from __future__ import annotations

import hashlib
import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

COMMIT = "0123456789abcdef0123456789abcdef01234567"


class FakeHub:
    """Serves files of datasets by repository and path."""

    def __init__(self, repos: dict[str, dict[str, bytes]], *, wrong_checksums: bool = False) -> None:
        self.repos = repos
        self.asked: list[str] = []
        self.wrong_checksums = wrong_checksums
        hub = self

        class Handler(BaseHTTPRequestHandler):
            def log_message(self, *arguments: Any) -> None:
                """Say nothing."""

            def do_HEAD(self) -> None:
                self._answer(body=False)

            def do_GET(self) -> None:
                self._answer(body=True)

            def _answer(self, *, body: bool) -> None:
                status, headers, content = hub.answer(self.path.partition("?")[0])
                self.send_response(status)
                for name, value in {**headers, "Content-Length": str(len(content))}.items():
                    self.send_header(name, value)
                self.end_headers()
                if body:
                    self.wfile.write(content)

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._thread = threading.Thread(target=self._server.serve_forever, daemon=True)

    @property
    def url(self) -> str:
        """Where it is."""
        return f"http://127.0.0.1:{self._server.server_address[1]}"

    def __enter__(self) -> FakeHub:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()

    def answer(self, path: str) -> tuple[int, dict[str, str], bytes]:
        """Status, headers and body for a path."""
        self.asked.append(path)
        for repo, files in self.repos.items():
            if path.startswith(f"/api/datasets/{repo}/tree/"):
                return self._json([self._entry(name, content) for name, content in files.items()])
            if path.startswith(f"/api/datasets/{repo}/revision/") or path == f"/api/datasets/{repo}":
                return self._json({"id": repo, "sha": COMMIT, "siblings": []})
            prefix = f"/datasets/{repo}/resolve/{COMMIT}/"
            if path.startswith(prefix) and path.removeprefix(prefix) in files:
                content = files[path.removeprefix(prefix)]
                sha = hashlib.sha256(content).hexdigest()
                return 200, {"ETag": f'"{sha}"', "X-Repo-Commit": COMMIT, "X-Linked-Size": str(len(content))}, content
        return 404, {"X-Error-Code": "RepoNotFound"}, b"{}"

    def _entry(self, name: str, content: bytes) -> dict[str, Any]:
        sha = hashlib.sha256(content + (b"!" if self.wrong_checksums else b"")).hexdigest()
        size = len(content)
        return {"type": "file", "path": name, "size": size, "oid": "1" * 40, "lfs": {"oid": sha, "size": size, "pointerSize": 1}}

    @staticmethod
    def _json(data: Any) -> tuple[int, dict[str, str], bytes]:
        return 200, {"Content-Type": "application/json"}, json.dumps(data).encode()
