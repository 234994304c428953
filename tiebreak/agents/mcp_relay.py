"""Stands between an agent and a server of the Model Context Protocol, and writes down which tools were called.

python3 -I mcp_relay.py NAME RECORD COMMAND      in the sandbox; the agent speaks to it as it would to the server
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path


def main() -> int:
    """Hand every line on; return what the server ends with."""
    name, record, command = sys.argv[1:]
    with subprocess.Popen(["/bin/bash", "-c", command], stdin=subprocess.PIPE) as server:
        assert server.stdin is not None
        try:
            for line in sys.stdin.buffer:
                write_down(name, line, Path(record))
                server.stdin.write(line)
                server.stdin.flush()
            server.stdin.close()
        except BrokenPipeError:
            pass
        return server.wait()


def write_down(name: str, line: bytes, record: Path) -> None:
    """Note the call, if the line is one."""
    try:
        message = json.loads(line)
        tool = message["params"]["name"] if message.get("method") == "tools/call" else None
    except (ValueError, KeyError, TypeError, AttributeError):
        return
    if tool is not None:
        with record.open("a", encoding="utf-8") as file:
            file.write(json.dumps([name, str(tool)[:200]]) + "\n")


if __name__ == "__main__":
    sys.exit(main())
