"""The server that the example provider `acme` speaks to."""

from __future__ import annotations

import json
from typing import Any

from aiohttp import web

from support.compatible import Call, CompatibleServer

KEY = "acme-key-77c1"


class AcmeServer(CompatibleServer):
    """Answers `/answers` and `/models` in Acme's own format; refuses any other key."""

    def environment(self) -> dict[str, str]:
        return {"ACME_BASE_URL": f"{self.url}/v2", "ACME_API_KEY": KEY}

    async def _any(self, request: web.Request) -> web.StreamResponse:
        body = await request.json() if request.can_read_body else {}
        call = Call(request.method, request.path, dict(request.headers), body)
        self.calls.append(call)
        fault = self.fault(call, len(self.asked))
        if call.headers.get("X-Acme-Key") != KEY:
            return web.json_response({"error": {"message": f"no key {call.headers.get('X-Acme-Key')}"}}, status=401)
        if fault is not None:
            return web.json_response(fault.body, status=fault.status, headers=fault.headers)
        if (call.method, call.path) == ("GET", "/v2/models"):
            return web.json_response({"data": [{"id": name} for name in self.models]})
        if (call.method, call.path) != ("POST", "/v2/answers"):
            return web.json_response({"error": {"message": "no such path"}}, status=404)
        end: dict[str, Any] = {"ended": "stop", "tokens": [7, 2], "dollars": 0.25}
        if not body["stream"]:
            return web.json_response({"text": "ready", **end})
        response = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
        await response.prepare(request)
        for piece in ({"text": "rea"}, {"text": "dy"}, end):
            await response.write(f"data: {json.dumps(piece)}\n\n".encode())
        return response
