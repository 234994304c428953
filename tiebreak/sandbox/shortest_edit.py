"""The shortest way from one list of lines to another, within a bounded amount of work.

Myers' algorithm, as git has it: the further two texts are apart, the longer it takes, whatever the lines are. difflib can
take minutes for texts of which every other line is empty.
"""

from __future__ import annotations

from collections.abc import Sequence

_MOST_STEPS = 2_000_000
_MOST_EDITS = 2_000
Edit = list[tuple[str, int, int, int, int]]


def shortest_edit(before: Sequence[str], after: Sequence[str]) -> Edit | None:
    """What was replaced, from where to where; None when the two are too far apart to find out."""
    head = _alike(before, after)
    tail = _alike(before[head:][::-1], after[head:][::-1])
    old, new = before[head : len(before) - tail], after[head : len(after) - tail]
    numbers = {line: number for number, line in enumerate({*old, *new})}
    kept = _matches([numbers[line] for line in old], [numbers[line] for line in new]) if old and new else []
    if kept is None:
        return None
    return _gaps([(a + head, b + head) for a, b in kept], (head, head), (len(before) - tail, len(after) - tail))


def _alike(one: Sequence[str], two: Sequence[str]) -> int:
    """How many lines at the beginning are the same."""
    return next((n for n, (a, b) in enumerate(zip(one, two, strict=False)) if a != b), min(len(one), len(two)))


def _matches(old: list[int], new: list[int]) -> list[tuple[int, int]] | None:
    """Pairs of places that stay. Round n goes as far as n edits lead, on each diagonal of the table of all pairs."""
    rounds, steps = list[list[int]](), 0
    for edits in range(min(len(old) + len(new), _MOST_EDITS) + 1):
        reached = []
        for place in range(edits + 1):
            x = start = _entered(rounds[-1], place, edits)[0] if edits else 0
            y = x - (2 * place - edits)
            while x < len(old) and y < len(new) and old[x] == new[y]:
                x, y = x + 1, y + 1
            reached.append(x)
            steps += 1 + x - start
            if x >= len(old) and y >= len(new):
                return _walked_back(rounds, len(old), len(new))
        rounds.append(reached)
        if steps > _MOST_STEPS:
            return None
    return None


def _entered(last: list[int], place: int, edits: int) -> tuple[int, bool]:
    """Where a diagonal is entered after one more edit, and whether that edit is an insertion."""
    if place == 0 or (place != edits and last[place - 1] < last[place]):
        return last[place], True
    return last[place - 1] + 1, False


def _walked_back(rounds: list[list[int]], x: int, y: int) -> list[tuple[int, int]]:
    pairs = []
    for edits in range(len(rounds), -1, -1):
        start, inserted = _entered(rounds[edits - 1], (x - y + edits) // 2, edits) if edits else (0, False)
        while x > start:
            x, y = x - 1, y - 1
            pairs.append((x, y))
        x, y = (x, y - 1) if inserted else (x - 1, y)
    return pairs[::-1]


def _gaps(kept: list[tuple[int, int]], begin: tuple[int, int], end: tuple[int, int]) -> Edit:
    """What lies between the places that stay."""
    edit, (old, new) = list[tuple[str, int, int, int, int]](), begin
    for a, b in (*kept, end):
        if a > old or b > new:
            tag = "replace" if a > old and b > new else "delete" if a > old else "insert"
            edit.append((tag, old, a, new, b))
        old, new = a + 1, b + 1
    return edit
