"""Tables that fit the screen: no word is broken, no number is cut, and what is worth least is left out first."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from tiebreak.cli.terminal import harmless

if TYPE_CHECKING:
    from rich.text import Text

_NOWHERE = re.compile(r"(?!)")
_GAP = 2
_INDENT = 2
_LEAST_PROSE = 24
"""Columns of a screen below which running text is not worth reading."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Column:
    """One column; the cells of all but prose are shown whole, on one line."""

    heading: str
    short: str = ""
    """A shorter heading, for when not everything fits."""
    right: bool = False
    """Numbers are aligned to the right."""
    prose: bool = False
    """Its words may go on in the next line."""
    cut: bool = False
    """Its last words may be left out: for what changes every moment."""
    lead: bool = False
    """It stands before the name, also where the name has a line of its own."""
    worth: int = 0
    """0 is never left out; of the others the lowest is left out first."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One row, a cell per column; a section ends below it where `rule` is set."""

    cells: Sequence[str | Text]
    short_name: str = ""
    """A shorter name that is as clear, for when there is no room for the whole one."""
    style: str = ""
    rule: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class _Grid:
    """Columns and rows of text with the room between them; the first column that leads nothing is the name."""

    columns: Sequence[Column]
    rows: Sequence[Sequence[Text]]
    gap: int = _GAP

    @property
    def name(self) -> int:
        return next(place for place, column in enumerate(self.columns) if not column.lead)

    def widths(self, width: int) -> list[int] | None:
        """The width of every column, or None where they do not fit."""
        natural = [self.natural(place) for place in range(len(self.columns))]
        room = width - self.gap * (len(self.columns) - 1)
        if sum(natural) <= room:
            return natural
        prose = [place for place, column in enumerate(self.columns) if column.prose or column.cut]
        left = room - sum(size for place, size in enumerate(natural) if place not in prose)
        least = {place: self._least(place, natural[place]) for place in prose}
        if not prose or left < sum(least.values()):
            return None
        for place, size in _shared(left, least, natural).items():
            natural[place] = size
        return natural

    def without(self, place: int) -> _Grid:
        rows = [[*row[:place], *row[place + 1 :]] for row in self.rows]
        return replace(self, columns=[*self.columns[:place], *self.columns[place + 1 :]], rows=rows)

    def natural(self, place: int) -> int:
        """The width of a column whose every cell is on one line."""
        return max(len(self.columns[place].heading), *(row[place].cell_len for row in self.rows), 0)

    def _least(self, place: int, natural: int) -> int:
        from rich.cells import cell_len

        whole = [] if self.columns[place].cut else self.rows
        words = [cell_len(word) for row in whole for word in row[place].plain.split()]
        return min(natural, max(_LEAST_PROSE, len(self.columns[place].heading), *words, 0))


def _shared(room: int, least: dict[int, int], natural: Sequence[int]) -> dict[int, int]:
    """Room for columns of prose: each gets what it needs at least, the rest goes to those that want more."""
    sizes = dict(least)
    spare = room - sum(sizes.values())
    for place in sorted(sizes, key=lambda place: natural[place] - sizes[place]):
        waiting = sum(sizes[other] < natural[other] for other in sizes) or 1
        more = min(natural[place] - sizes[place], spare // waiting)
        sizes[place] += more
        spare -= more
    return sizes


def lay_out(columns: Sequence[Column], rows: Sequence[Row], width: int, *, ruled: bool = False) -> list[Text]:
    """The table as lines, none wider than the screen unless a single word is.

    One line per row if that can be had by leaving out what may be left out; else the name gets a line of its own above the
    numbers; on a very narrow screen each number is written behind its heading.
    """
    grid = _Grid(columns=columns, rows=[[_text(cell) for cell in row.cells] for row in rows])
    tight = replace(grid, columns=[replace(column, heading=column.short or column.heading) for column in columns])
    for candidate in (grid, *_thinned(tight), *_with_short_names(tight, rows)):
        if (widths := candidate.widths(width)) is not None:
            return _flat(candidate, rows, widths, ruled=ruled)
    return _below_names(tight, rows, width, ruled=ruled) or list(_written_out(grid, rows, width))


def _thinned(grid: _Grid) -> Iterator[_Grid]:
    """The grid, then with ever fewer of the columns that may be left out."""
    yield grid
    while any(column.worth for column in grid.columns):
        least = min((column.worth, -place) for place, column in enumerate(grid.columns) if column.worth)
        grid = grid.without(-least[1])
        yield grid


def _with_short_names(grid: _Grid, rows: Sequence[Row]) -> Iterator[_Grid]:
    """What must be shown, closer together, and with the names shortened where they stay different."""
    *_, thin = _thinned(grid)
    short = [row.short_name or own[grid.name].plain for row, own in zip(rows, grid.rows, strict=True)]
    clear = len(set(short)) == len(short)
    named = [[*own[: grid.name], _text(name), *own[grid.name + 1 :]] for own, name in zip(thin.rows, short, strict=True) if clear]
    for gap in (_GAP, 1):
        yield replace(thin, gap=gap)
        if clear:
            yield replace(thin, gap=gap, rows=named)


def _flat(grid: _Grid, rows: Sequence[Row], widths: Sequence[int], *, ruled: bool) -> list[Text]:
    headings = [_text(column.heading, "bold") for column in grid.columns]
    lines = _cells(grid.columns, headings, widths, grid.gap)
    total = sum(widths) + grid.gap * (len(widths) - 1)
    lines += [_text("─" * total, "dim")] if ruled else []
    for row, own in zip(rows, grid.rows, strict=True):
        lines += [_styled(line, row.style) for line in _cells(grid.columns, own, widths, grid.gap)]
        lines += [_text("─" * total, "dim")] if row.rule else []
    return lines


def _below_names(grid: _Grid, rows: Sequence[Row], width: int, *, ruled: bool) -> list[Text] | None:
    """Names on lines of their own, everything else indented below them; None where even that is too wide."""
    place = grid.name
    indent = _INDENT + sum(grid.natural(lead) + grid.gap for lead in range(place))
    fitted = _fitted(
        replace(grid, columns=grid.columns[place + 1 :], rows=[own[place + 1 :] for own in grid.rows]), width - indent
    )
    if fitted is None:
        return None
    lower, widths = fitted
    rule = _text("─" * (indent + sum(widths) + lower.gap * (len(widths) - 1)), "dim")
    headings = [_text(column.heading, "bold") for column in grid.columns]
    below = _cells(lower.columns, [_text(column.heading, "bold") for column in lower.columns], widths, lower.gap)
    lines = [*_name_line(grid, headings, width), *_indented(below, indent), *([rule] if ruled else [])]
    for row, own, numbers in zip(rows, grid.rows, lower.rows, strict=True):
        below = _indented(_cells(lower.columns, numbers, widths, lower.gap), indent)
        lines += [_styled(line, row.style) for line in (*_name_line(grid, own, width), *below)]
        lines += [rule] if row.rule else []
    return lines


def _fitted(grid: _Grid, width: int) -> tuple[_Grid, list[int]] | None:
    """The grid with as many columns as fit, and their widths."""
    *others, least = _thinned(grid)
    for candidate in (*others, least, replace(least, gap=1)) if grid.columns else ():
        if (widths := candidate.widths(width)) is not None:
            return candidate, widths
    return None


def _name_line(grid: _Grid, cells: Sequence[Text], width: int) -> list[Text]:
    """What stands before the name, and the name, which goes on in the next line where it is longer than the screen."""
    place = grid.name
    widths = [grid.natural(lead) for lead in range(place)]
    room = width - sum(size + grid.gap for size in widths)
    columns = [*grid.columns[:place], replace(grid.columns[place], prose=True)]
    return _cells(columns, cells[: place + 1], [*widths, room], grid.gap)


def _written_out(grid: _Grid, rows: Sequence[Row], width: int) -> Iterator[Text]:
    """Every cell behind its heading, below the name."""
    for row, own in zip(rows, grid.rows, strict=True):
        yield from (_styled(line, row.style) for line in wrapped(own[grid.name], width))
        for place, (column, cell) in enumerate(zip(grid.columns, own, strict=True)):
            if place != grid.name and cell.plain and not column.worth:
                line = _text(f"{column.heading} ", "bold")
                line.append_text(cell)
                yield from (_styled(part, row.style) for part in _indented(wrapped(line, width - _INDENT), _INDENT))


def _cells(columns: Sequence[Column], cells: Sequence[Text], widths: Sequence[int], gap: int) -> list[Text]:
    """A row's cells side by side, on as many lines as its longest prose needs."""
    from rich.text import Text

    split = [_fitting(column, cell, size) for column, cell, size in zip(columns, cells, widths, strict=True)]
    lines = []
    for number in range(max(map(len, split))):
        line = Text()
        for column, parts, size in zip(columns, split, widths, strict=True):
            part = parts[number] if number < len(parts) else Text()
            pad = " " * (size - part.cell_len)
            line.append_text(Text.assemble(pad, part) if column.right else Text.assemble(part, pad)).append(" " * gap)
        line.rstrip()
        lines.append(line)
    return lines


def _fitting(column: Column, cell: Text, size: int) -> list[Text]:
    from rich.text import Text

    if column.cut and cell.cell_len > size:
        return [Text(shortened(cell.plain, size), style=cell.style)]
    return wrapped(cell, size) if column.prose else [cell]


def wrapped(text: Text, width: int, *, keep: re.Pattern[str] = _NOWHERE) -> list[Text]:
    """The text on lines of this width, broken at spaces, but not at those to `keep`; a longer word is not broken."""
    from rich.cells import cell_len

    ends, used, start = [], 0, 0
    for word in keep.sub("\N{NO-BREAK SPACE}", text.plain).split(" "):
        size = cell_len(word)
        if start and used + 1 + size > width:
            ends.append(start)
            used = size
        else:
            used += size + (1 if start else 0)
        start += len(word) + 1
    return [_trimmed(line) for line in (text.divide(ends) if ends else [text])]


def shortened(text: str, width: int) -> str:
    """The text's first words, as many as fit, and an ellipsis where some are left out; one word that is too long is cut."""
    from rich.cells import cell_len, set_cell_size

    line = " ".join(harmless(text).split())
    if cell_len(line) <= width:
        return line
    kept = ""
    for word in line.split():
        longer = f"{kept} {word}".strip()
        if cell_len(longer) + 2 > width:
            break
        kept = longer
    return f"{kept.rstrip(',;:')} …" if kept else f"{set_cell_size(line, max(0, width - 1))}…"


def _trimmed(line: Text) -> Text:
    line = line.copy()
    line.rstrip()
    return line


def _indented(lines: Sequence[Text], indent: int) -> list[Text]:
    from rich.text import Text

    return [Text.assemble(" " * indent, line) for line in lines]


def _styled(line: Text, style: str) -> Text:
    if style:
        line.stylize(style)
    return line


def _text(cell: str | Text, style: str = "") -> Text:
    """A cell on one line, with nothing in it that acts on a terminal: its width is then what is shown."""
    from rich.text import Text

    return Text(" ".join(harmless(cell).splitlines()).expandtabs(1), style=style) if isinstance(cell, str) else cell
