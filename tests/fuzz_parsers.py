"""Feed every parser garbage for FUZZ_SECONDS; each input is read, or refused by one of our own errors.

    make fuzz                                   all of them in turn, for ten minutes; CI takes one
    make fuzz ARGS=NAME                         one of them
    make fuzz ARGS="NAME FILE"                  once more what was found

What makes a parser raise anything else is made as small as it gets, and written to a file of FUZZ_FOUND (`fuzz_found`).
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import sys
import tempfile
import time
import traceback
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import yaml
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from support import garbage
from wire.making import FORMATS, survive

from tiebreak.checked_yaml import read_yaml
from tiebreak.config import load_config, read_mapping
from tiebreak.core.errors import BenchmarkError
from tiebreak.core.message import user
from tiebreak.core.plain_yaml import load_plain
from tiebreak.core.sample import Sample
from tiebreak.core.trial import Output
from tiebreak.datasets.files import load
from tiebreak.datasets.task_markdown import read_markdown
from tiebreak.registry import make_scorer, names
from tiebreak.runfile import read_run_file
from tiebreak.wire.sse import Events

ROUND = 100
SCORERS = sorted({"gsm8k:flexible", "gsm8k:cot", *names("scorers")} - {"judge", "code", "check", "tests", "ifeval", "likelihood"})
"""Those that judge by the text alone."""


@dataclass(frozen=True)
class Target:
    """A parser, and what it is fed."""

    inputs: st.SearchStrategy[bytes]
    attempt: Callable[[bytes], object]
    refusals: tuple[type[Exception], ...] = (BenchmarkError,)
    """How it says no."""

    def try_out(self, data: bytes) -> None:
        """Raise what is neither an answer nor a refusal."""
        with contextlib.suppress(*self.refusals):
            self.attempt(data)


def from_file(name: str, read: Callable[[Path], object], data: bytes) -> None:
    """Read the bytes as a file of that name."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / name
        path.write_bytes(data)
        read(path)


def _chunk(data: bytes) -> int:
    """Told by the data itself, so that a file of it says all."""
    return 1 + sum(data[:4]) % 100


def _events(data: bytes) -> None:
    """Whatever the chunks, the events are the same."""
    whole, cut = Events(), Events()
    at_once = [*whole.feed(data), *whole.rest()]
    pieces = [data[start : start + _chunk(data)] for start in range(0, len(data), _chunk(data))]
    assert at_once == [*(event for piece in pieces for event in cut.feed(piece)), *cut.rest()]


def _rows(path: Path) -> None:
    dataset = load(str(path), known=tuple)
    for position in range(len(dataset)):
        dataset[position]


def _score(scorer: str, data: bytes) -> None:
    text, _, target = data.decode("utf-8", "replace").partition("\x1e")
    choices = ("Paris", "London", "7")
    sample = Sample(id="s", messages=(user("?"),), targets=(target or "Paris",), choices=choices, scorers=(scorer,))
    asyncio.run(make_scorer(scorer).score(sample, Output(text=text), None))  # type: ignore[arg-type]


def _text(read: Callable[[str], object], data: bytes) -> None:
    read(data.decode("utf-8", "replace"))


TARGETS = {
    **{form.name: Target(garbage.wire(form), lambda data, form=form: survive(form, data, _chunk(data))) for form in FORMATS},
    "events": Target(garbage.events, _events),
    "yaml": Target(garbage.yaml_text, partial(from_file, "f.yaml", read_yaml)),
    "plain_yaml": Target(garbage.yaml_text, partial(_text, load_plain), (yaml.YAMLError,)),
    "config": Target(garbage.config, partial(from_file, "models_config.yaml", load_config)),
    "mapping": Target(garbage.config, partial(from_file, "map.yaml", read_mapping)),
    "run_file": Target(garbage.run_file, partial(from_file, "run.yaml", read_run_file)),
    "task": Target(garbage.task, partial(_text, read_markdown), (ValueError,)),
    "jsonl": Target(garbage.jsonl, partial(from_file, "q.jsonl", _rows)),
    "json": Target(garbage.json_file, partial(from_file, "q.json", _rows)),
    "csv": Target(garbage.csv, partial(from_file, "q.csv", _rows)),
    "tsv": Target(garbage.csv, partial(from_file, "q.tsv", _rows)),
    "gzip": Target(garbage.packed, partial(from_file, "q.jsonl.gz", _rows)),
    "excel": Target(garbage.excel, partial(from_file, "q.xlsx", _rows)),
    **{f"scorer_{name}": Target(garbage.answer, partial(_score, name)) for name in SCORERS},
}


def feed(name: str, inputs: int) -> None:
    """So many inputs for one parser; what it cannot stand is written down, and raised."""
    target = TARGETS[name]
    smallest = b""

    @settings(
        max_examples=inputs,
        deadline=None,
        database=None,
        suppress_health_check=list(HealthCheck),
        phases=[Phase.generate, Phase.shrink],
    )
    @given(data=target.inputs)
    def attempt(data: bytes) -> None:
        nonlocal smallest
        try:
            target.try_out(data)
        except BaseException:
            smallest = data
            raise

    try:
        attempt()
    except BaseException:
        path = Path(os.environ.get("FUZZ_FOUND", "fuzz_found")) / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(smallest)
        print(f"\n{name} raises an error of its own on {smallest[:300]!r}.")
        print(f'Once more: make fuzz ARGS="{name} {path}"')
        raise


def main(chosen: list[str]) -> int:
    """Take the parsers in turn until the time is up, each at least once."""
    end = time.monotonic() + float(os.environ.get("FUZZ_SECONDS", "600"))
    turns, failed = 0, set[str]()
    while turns < len(chosen) or (time.monotonic() < end and len(failed) < len(chosen)):
        name = chosen[turns % len(chosen)]
        turns += 1
        try:
            if name not in failed:
                feed(name, ROUND)
        except Exception:
            failed.add(name)
            traceback.print_exc()
    ending = f"{', '.join(sorted(failed))} failed" if failed else "each was read or refused"
    print(f"{turns * ROUND:,} inputs over {len(chosen)} parsers: {ending}")
    return 1 if failed else 0


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    if len(sys.argv) > 2:
        TARGETS[sys.argv[1]].try_out(Path(sys.argv[2]).read_bytes())
        sys.exit(0)
    sys.exit(main(sys.argv[1:] or list(TARGETS)))
