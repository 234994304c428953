"""Write slow_tests.txt from the measured times of a whole run: `python tests/update_slow_tests.py TIMES.xml`.

TIMES.xml is what `python -m pytest -n 2 --junitxml=TIMES.xml` writes.
"""

from __future__ import annotations

import sys
import xml.etree.ElementTree as ET
from collections import defaultdict
from pathlib import Path

LIST = Path(__file__).with_name("slow_tests.txt")
LONGEST_S = 2.0
"""A test function is slow when one of its cases takes longer than this..."""
LONGEST_IN_ALL_S = 12.0
"""... or all of them together longer than this."""
HEADER = """\
# Test functions that `make test` leaves to `make test-all`, by their measured times.
# Written by update_slow_tests.py. Tests that need more than Python are left to it by their `needs` mark.
"""


def times_by_function(report: Path) -> dict[str, list[float]]:
    """Seconds of every case of every test function, set-up included."""
    found: dict[str, list[float]] = defaultdict(list)
    for case in ET.parse(report).getroot().iter("testcase"):
        modules = [part for part in case.get("classname", "").split(".") if not part[:1].isupper()]
        function = case.get("name", "").partition("[")[0]
        found["/".join(modules[1:]) + f".py::{function}"].append(float(case.get("time", "0")))
    return found


def is_slow(times: list[float]) -> bool:
    return max(times) > LONGEST_S or sum(times) > LONGEST_IN_ALL_S


def main(report: str) -> None:
    found = times_by_function(Path(report))
    slow = sorted(name for name, times in found.items() if is_slow(times))
    LIST.write_text(HEADER + "".join(f"{name}\n" for name in slow), encoding="utf-8")
    rest = sum(sum(times) for name, times in found.items() if name not in set(slow))
    print(f"{len(slow)} of {len(found)} functions are slow; the others take {rest:.0f} s of one core")


if __name__ == "__main__":
    main(sys.argv[1])
