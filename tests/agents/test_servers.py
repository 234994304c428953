"""Servers of the Model Context Protocol that a task names: started in the sandbox, offered to agents, calls counted."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from support.agent_model import AgentModel
from support.command import ROOT, clean_environment

from tiebreak.datasets.task_markdown import read_markdown

SERVER = r"""
import json, os, sys

def said(message):
    method, given = message["method"], message.get("params") or {}
    if method == "initialize":
        about = {"name": "stock", "version": "1"}
        return {"protocolVersion": given["protocolVersion"], "capabilities": {"tools": {}}, "serverInfo": about}
    if method == "tools/list":
        schema = {"type": "object", "properties": {"item": {"type": "string"}}, "required": ["item"]}
        return {"tools": [{"name": "stock_level", "description": "How many are left.", "inputSchema": schema}]}
    if method == "tools/call":
        outside = os.path.exists("OUTSIDE")
        return {"content": [{"type": "text", "text": f"4711 {given['arguments']['item']} outside={outside}"}]}
    return {}

for line in sys.stdin:
    message = json.loads(line)
    if "id" in message:
        print(json.dumps({"jsonrpc": "2.0", "id": message["id"], "result": said(message)}), flush=True)
"""
TASK = """\
---
mcp: {stock: python3 tools/stock.py}
---
Ask how many nails are left.

## Workspace

```python file=tools/stock.py
SERVER
```

## Verify

```bash
test -f tools/stock.py
```
"""


@pytest.mark.needs("bubblewrap", "agents")
@pytest.mark.xdist_group("agents")
@pytest.mark.parametrize("agent", ["claude-code", "codex", "gemini-cli", "qwen-code", "opencode"])
def test_an_agent_calls_the_server_of_the_task(agent: str, tmp_path: Path) -> None:
    """The server runs in the sandbox, its answer reaches the model, and the call stands in the transcript."""
    (tmp_path / "stock.md").write_text(TASK.replace("SERVER", SERVER.replace("OUTSIDE", str(tmp_path))))
    (tmp_path / "models_config.yaml").write_text("models: []\n")
    with AgentModel() as server:
        done = subprocess.run(
            [
                *(sys.executable, str(ROOT / "run_benchmarks.py"), "batch", "--task", "stock.md", "--models", "openai/served"),
                *("--agent", agent, "--output", "out", "--no-preflight", "--follow-ups", "0", "--timeout", "90"),
            ],
            cwd=tmp_path,
            env=clean_environment(**server.environment(), PATH=os.environ["PATH"]),
            capture_output=True,
            text=True,
            timeout=200,
            check=False,
        )
        heard = [m.text for asked in server.ledger for m in asked.request.messages if m.role == "tool"]

    assert any("4711 nails outside=False" in text for text in heard), (done.stdout + done.stderr, heard)
    transcript = next((tmp_path / "out" / "attempts").rglob("transcript.md")).read_text()
    assert "stock stock_level: 1 call" in transcript
    row = json.loads((tmp_path / "out" / "comparison_report.json").read_text())["results"][0]
    assert row["tool_calls"] == 1


def test_a_server_needs_a_name_and_a_command() -> None:
    for wrong in ("{my-shop: python3 a.py}", '{shop: ""}'):
        with pytest.raises(ValueError, match=r"mcp: .* must be a name"):
            read_markdown(f"---\nmcp: {wrong}\n---\nDo it.\n")
