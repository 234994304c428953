"""What the tests reach, room by room: `python tests/covered_rooms.py coverage.json`.

Exit code 1: a room is below the least.
"""

from __future__ import annotations

import json
import sys
from collections import defaultdict
from collections.abc import Mapping
from pathlib import Path
from typing import Any

LEAST = 85
"""Percent of the lines of every room that the fast tests must reach."""


def by_room(report: Mapping[str, Any]) -> dict[str, tuple[int, int]]:
    """Of every room, how many lines were run, and how many there are; a module is a room of its own."""
    rooms: dict[str, list[int]] = defaultdict(lambda: [0, 0])
    for name, file in report["files"].items():
        parts = Path(name).with_suffix("").parts
        room = rooms[parts[parts.index("tiebreak") + 1]]
        room[0] += file["summary"]["covered_lines"]
        room[1] += file["summary"]["num_statements"]
    return {room: (run, there) for room, (run, there) in rooms.items() if there}


def main(path: str) -> int:
    """Print a line per room, the least covered first."""
    rooms = by_room(json.loads(Path(path).read_text(encoding="utf-8")))
    shares = {room: 100 * run / there for room, (run, there) in rooms.items()}
    for room, share in sorted(shares.items(), key=lambda one: one[1]):
        run, there = rooms[room]
        print(f"{share:5.1f} %  {room} ({there - run} of {there} lines are not run){'' if share >= LEAST else '  <- too few'}")
    return int(any(share < LEAST for share in shares.values()))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
