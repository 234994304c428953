"""Drives one prompt of an agent that speaks the Agent Client Protocol. Run inside the sandbox, by itself.

    python3 acp_driver.py ANSWERS AUTH PROMPT -- AGENT…

One JSON object per line over the agent's standard input and output. Permission requests are answered by ANSWERS:
a policy (allow or deny), or the address at which a person is asked, who may take their time. Everything else the agent
may do by itself. Prints one JSON object: what it said, which permissions it asked for, how it stopped. Standard library only:
nothing of ours can be imported here.
"""

from __future__ import annotations

import difflib
import itertools
import json
import subprocess
import sys
from http.client import HTTPConnection, HTTPException
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

_WANTED = {"allow": ("allow_once", "allow_always"), "deny": ("reject_once", "reject_always")}
_LONGEST_DETAILS = 4_000


class Driver:
    """The client's side of one conversation."""

    def __init__(self, answers: str, argv: list[str]) -> None:
        self.answers = answers
        self.summary: dict[str, Any] = {"permissions": [], "said": "", "stop": "", "error": ""}
        self._ids = itertools.count(1)
        self._agent = subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE)

    def run(self, auth: str, prompt: str) -> int:
        """Open a session, put the prompt, wait for its end."""
        abilities = {"fs": {"readTextFile": True, "writeTextFile": True}, "terminal": False}
        self.call("initialize", {"protocolVersion": 1, "clientCapabilities": abilities})
        session = self._session()
        if not session and auth and self.call("authenticate", {"methodId": auth}) is not None:
            session = self._session()
        if session:
            words = [{"type": "text", "text": prompt}]
            result = self.call("session/prompt", {"sessionId": session["sessionId"], "prompt": words}) or {}
            self.summary["stop"] = result.get("stopReason", "")
        self._end()
        sys.stdout.write(json.dumps(self.summary) + "\n")
        return 0 if self.summary["stop"] == "end_turn" else 1

    def _session(self) -> dict[str, Any] | None:
        return self.call("session/new", {"cwd": str(Path.cwd()), "mcpServers": []})

    def _end(self) -> None:
        assert self._agent.stdin is not None
        self._agent.stdin.close()
        try:
            self._agent.wait(5)
        except subprocess.TimeoutExpired:
            self._agent.kill()

    def send(self, **message: Any) -> None:
        """Write one message."""
        assert self._agent.stdin is not None
        self._agent.stdin.write(json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\n")
        self._agent.stdin.flush()

    def call(self, method: str, params: dict[str, Any]) -> dict[str, Any] | None:
        """Ask the agent for something, and serve it meanwhile; None when it refuses or is gone."""
        number = next(self._ids)
        self.send(id=number, method=method, params=params)
        assert self._agent.stdout is not None
        for line in self._agent.stdout:
            message = _object(line)
            if "method" in message:
                self.serve(message)
            elif message.get("id") == number:
                self.summary["error"] = str(message["error"]) if "error" in message else ""
                return None if "error" in message else message.get("result") or {}
        self.summary["error"] = f"the agent ended before it answered {method}"
        return None

    def serve(self, message: dict[str, Any]) -> None:
        """Do what the agent asks of its client."""
        method, params = message["method"], message.get("params") or {}
        if method == "session/update":
            update = params.get("update") or {}
            if update.get("sessionUpdate") == "agent_message_chunk":
                self.summary["said"] += (update.get("content") or {}).get("text", "")
        elif method == "session/request_permission":
            self._permit(message["id"], params)
        elif method == "fs/read_text_file":
            self._answer(message["id"], lambda: {"content": Path(params["path"]).read_text(encoding="utf-8")})
        elif method == "fs/write_text_file":
            self._answer(message["id"], lambda: _written(params))
        elif "id" in message:
            self.send(id=message["id"], error={"code": -32601, "message": f"no such method {method}"})

    def _permit(self, number: Any, params: dict[str, Any]) -> None:
        tool = params.get("toolCall") or {}
        wanted = {"title": str(tool.get("title") or ""), "kind": str(tool.get("kind") or "")}
        self.summary["permissions"].append(wanted)
        options = [option for option in params.get("options") or () if option.get("optionId")]
        if self.answers in _WANTED:
            kinds = {option.get("kind"): option["optionId"] for option in options}
            chosen = next((kinds[kind] for kind in _WANTED[self.answers] if kind in kinds), "")
        else:
            chosen = _asked(self.answers, {**wanted, "details": _details(tool), "options": [_named(o) for o in options]})
        outcome = {"outcome": "selected", "optionId": chosen} if chosen else {"outcome": "cancelled"}
        self.send(id=number, result={"outcome": outcome})

    def _answer(self, number: Any, action: Any) -> None:
        try:
            self.send(id=number, result=action())
        except (OSError, ValueError, KeyError) as error:
            self.send(id=number, error={"code": -32603, "message": str(error)})


def _asked(address: str, request: dict[str, Any]) -> str:
    """The option a person takes; none when nobody can be asked."""
    place = urlsplit(address)
    connection = HTTPConnection(place.netloc)
    try:
        connection.request("POST", f"{place.path}?{place.query}", json.dumps(request), {"Content-Type": "application/json"})
        return str(json.load(connection.getresponse())["option"])
    except (OSError, HTTPException, ValueError, KeyError):
        return ""
    finally:
        connection.close()


def _named(option: dict[str, Any]) -> dict[str, str]:
    return {"id": str(option["optionId"]), "name": str(option.get("name") or ""), "kind": str(option.get("kind") or "")}


def _details(tool: dict[str, Any]) -> str:
    """What the tool would do: its arguments, else the text or the change that the agent shows."""
    given = tool.get("rawInput")
    if isinstance(given, dict) and given:
        return "\n".join(f"{name}: {_plain(value)}" for name, value in given.items())[:_LONGEST_DETAILS]
    return "\n".join(_shown(piece) for piece in tool.get("content") or () if isinstance(piece, dict))[:_LONGEST_DETAILS]


def _plain(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _shown(piece: dict[str, Any]) -> str:
    if piece.get("type") != "diff":
        return str((piece.get("content") or {}).get("text") or "")
    before, after = (str(piece.get(name) or "").splitlines(keepends=True) for name in ("oldText", "newText"))
    return "".join(difflib.unified_diff(before, after, str(piece.get("path")), str(piece.get("path"))))


def _written(params: dict[str, Any]) -> None:
    Path(params["path"]).write_text(params["content"], encoding="utf-8")


def _object(line: bytes) -> dict[str, Any]:
    """A message; agents print other things as well."""
    try:
        message = json.loads(line)
    except ValueError:
        return {}
    return message if isinstance(message, dict) else {}


if __name__ == "__main__":
    place = sys.argv.index("--")
    sys.exit(Driver(sys.argv[1], sys.argv[place + 1 :]).run(*sys.argv[2:4]))
