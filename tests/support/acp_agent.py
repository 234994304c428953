"""An agent that speaks the Agent Client Protocol and asks for leave before its one edit."""

from __future__ import annotations

from tiebreak.agents.installed import Installed, Prepared

TITLE = "Write README.md \x1b[2J\x1b]0;mine\x07\u202e"
"""What it asks leave for; on a terminal that obeyed, nothing of it would be seen."""
OPTIONS = [
    {"optionId": "no", "name": "No, never", "kind": "reject_always"},
    {"optionId": "once", "name": "Yes, this time", "kind": "allow_once"},
    {"optionId": "always", "name": "Yes, always", "kind": "allow_always"},
    {"optionId": "not-now", "name": "Not this time", "kind": "reject_once"},
]
_SCRIPT = f"""
import json, sys

def send(**message):
    print(json.dumps({{"jsonrpc": "2.0", **message}}), flush=True)

def read():
    return json.loads(sys.stdin.readline())

for _ in range(2):
    request = read()
    send(id=request["id"], result={{"protocolVersion": 1, "sessionId": "s"}})
prompt = read()
tool = {{"toolCallId": "1", "title": {TITLE!r}, "kind": "edit", "rawInput": {{"path": "README.md", "text": "x" * 9000}}}}
send(id=7, method="session/request_permission", params={{"sessionId": "s", "toolCall": tool, "options": {OPTIONS!r}}})
answer = read()["result"]["outcome"]
chosen = answer.get("optionId", answer["outcome"])
if chosen in ("once", "always"):
    text = open("README.md").read().replace("teh", "the")
    open("README.md", "w").write(text)
said = {{"sessionUpdate": "agent_message_chunk", "content": {{"type": "text", "text": f"Answered: {{chosen}}."}}}}
send(method="session/update", params={{"sessionId": "s", "update": said}})
send(id=prompt["id"], result={{"stopReason": "end_turn"}})
"""


class AcpAgent(Installed):
    """Asks before it edits, and needs no model."""

    program = "sh"
    speaks_acp = True

    def over_acp(self, gateway, home):
        return Prepared(argv=("sh", "-c", f"exec python3 -I {home}/agent.py"), files={"agent.py": _SCRIPT})
