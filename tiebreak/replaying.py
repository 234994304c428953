"""An attempt at a coding task, taken again up to a step: from there somebody else goes on."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import msgspec

from tiebreak.core.contestant import AgentRef, Contestant
from tiebreak.core.errors import UsageError
from tiebreak.core.files import atomic_writer
from tiebreak.core.model import ModelRef
from tiebreak.core.run import RunInfo, RunSpec, TaskRules
from tiebreak.core.steps import call_in_words
from tiebreak.core.work import Step, Work, WorkOutcome
from tiebreak.report.transcript import TRAJECTORY
from tiebreak.store.folder import find_run
from tiebreak.store.reader import StoreReader

RECORD = "replayed.json"
ALL = "all"
_AGENT = "tiebreak.agents.builtin:Replayed"
_LONGEST_STEP = 20_000
_HALF = 0.5
_SHOWN = 160
_ATTEMPTS = (
    "SELECT t.id, c.label, c.agent, t.sample, w.work, w.transcript FROM trials t"
    " JOIN contestants c ON c.contestant = t.contestant"
    " JOIN work w ON w.id = t.id AND w.finished_at = t.finished_at WHERE t.superseded = 0"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class KeptAttempt:
    """One attempt as its run keeps it."""

    folder: Path
    info: RunInfo
    trial: str
    label: str
    """Whose attempt it was."""
    sample: str
    work: Work
    steps: tuple[Step, ...]

    @property
    def calls(self) -> list[int]:
        """The steps in which the model spoke, by their numbers."""
        return [number for number, step in enumerate(self.steps, start=1) if step.kind == "call"]

    @property
    def solved(self) -> bool:
        """Whether its check passed."""
        return self.work.outcome is WorkOutcome.PASSED


# --- which attempt, and from where ----------------------------------------------------------------------


def find_attempt(name: str, root: Path) -> KeptAttempt:
    """The attempt of a folder below a run's `attempts`, or the only one of a run."""
    place = Path(name).expanduser()
    trajectory = (place if place.is_dir() else place.parent) / TRAJECTORY
    if trajectory.is_file():
        trial = json.loads(trajectory.read_text(encoding="utf-8"))["session_id"]
        return _kept(trajectory.parents[3], trial, name)
    return _kept(find_run(name, root), "", name)


def _kept(folder: Path, trial: str, name: str) -> KeptAttempt:
    with StoreReader(folder) as reader:
        rows = [row for row in reader.records(_ATTEMPTS) if trial in ("", row["id"])]
        info = reader.info
    if len(rows) != 1:
        found = f"there are {len(rows)} attempts" if rows else "there is no attempt at a coding task"
        raise UsageError(f"{found} in {folder}: name the folder of one, below {folder / 'attempts'}")
    row = rows[0]
    if row["agent"] != "builtin":
        raise UsageError(
            f"{name} is an attempt of the agent {row['agent']!r}: only those of builtin can be taken again, "
            "since others keep a conversation of their own"
        )
    steps = msgspec.json.decode(row["transcript"], type=tuple[Step, ...])
    work = msgspec.json.decode(row["work"], type=Work)
    return KeptAttempt(
        folder=folder, info=info, trial=row["id"], label=row["label"], sample=row["sample"], work=work, steps=steps
    )


def chosen_steps(typed: str, attempt: KeptAttempt) -> list[int]:
    """The steps that `--from` names."""
    if not attempt.calls:
        raise UsageError(f"no model spoke in this attempt of {attempt.label}: there is nothing to go on from")
    if typed == ALL:
        return attempt.calls
    words = [word.strip() for word in typed.split(",")]
    if not all(word.isdecimal() for word in words):
        raise UsageError(f"--from {typed}: name steps of the transcript by their numbers, as in --from 4,8, or say --from all")
    last = attempt.calls[-1]
    if outside := [word for word in words if not 1 <= int(word) <= last]:
        raise UsageError(
            f"--from {outside[0]}: the attempt's last call of its model is step {last}; name a step from 1 to {last}"
        )
    return sorted({int(word) for word in words})


# --- what is taken again --------------------------------------------------------------------------------


def write_record(attempt: KeptAttempt, steps: Sequence[int], folder: Path) -> Path:
    """Write down what the model said in the attempt before the last of the steps."""
    calls = [_call(attempt, number) for number in attempt.calls if number < steps[-1]]
    place = folder / RECORD
    with atomic_writer(place) as file:
        file.write(json.dumps({"attempt": attempt.trial, "run": attempt.info.run_id, "calls": calls}).encode())
    return place.resolve()


def _call(attempt: KeptAttempt, number: int) -> dict[str, Any]:
    step = attempt.steps[number - 1]
    tools = [{"name": tool["name"], "arguments": tool["arguments"]} for tool in step.data.get("tools") or ()]
    if len(step.text) >= _LONGEST_STEP or any(len(tool["arguments"]) >= _LONGEST_STEP for tool in tools):
        raise UsageError(f"step {number} was too long to be kept whole, and cannot be taken again; name a step up to {number}")
    words = "\n".join(call_in_words(tool["name"], tool["arguments"]) for tool in tools)
    text = step.text.removesuffix(words).removesuffix("\n") if words else step.text
    return {"step": number, "text": text, "tools": tools, "results": _results(attempt.steps, number)}


def _results(steps: Sequence[Step], number: int) -> list[str]:
    found: list[str] = []
    for step in steps[number:]:
        if step.kind != "tool":
            break
        found.append(step.text)
    return found


def going_on(attempt: KeptAttempt, spec: RunSpec, steps: Sequence[int], record: Path, rules: TaskRules) -> RunSpec:
    """The run in which each model goes on from each of the steps, on the attempt's own task."""
    before = attempt.info.protocol
    protocol = replace(
        before,
        dataset_digest="",
        scorers=(),
        limit=None,
        until="",
        choose_on="",
        repeats=spec.protocol.repeats,
        source=replace(before.source, ids=(_literally(attempt.sample),), categories=()),
        tasks=rules,
    )
    contestants = tuple(contestant_from(model, step, record) for model in spec.models for step in steps)
    return replace(spec, protocol=protocol, contestants=contestants)


def contestant_from(model: ModelRef, step: int, record: Path) -> Contestant:
    """A model that goes on from a step."""
    agent = AgentRef(name=_AGENT, options={"record": str(record), "step": step})
    return Contestant(label=f"{model.label} from step {step}", model=model, agent=agent)


def _literally(sample: str) -> str:
    """A pattern that fits one id alone."""
    return "".join(f"[{letter}]" if letter in "*?[" else letter for letter in sample)


# --- which step decided ---------------------------------------------------------------------------------


def deciding(attempt: KeptAttempt, steps: Sequence[int], rates: Mapping[int, float], model: str) -> str:
    """What the share that a model solved from each step says of the attempt; the attempt's own end comes last."""
    named = [*(step for step in steps if step in rates), len(attempt.steps) + 1]
    good = [*(rates[step] >= _HALF for step in named[:-1]), attempt.solved]
    turns = [place for place in range(1, len(good)) if good[place] != good[place - 1]]
    if not turns:
        every = (
            "solves it from every step that was tried, as the attempt itself did"
            if good[0]
            else ("solves it from none of the steps that were tried; neither did the attempt itself")
        )
        return f"{model} {every}: no step decided."
    if len(turns) > 1:
        solved = ", ".join(str(step) for step, right in zip(named[:-1], good, strict=False) if right) or "none"
        return f"No single step decided: {model} solves it from {solved} of the steps that were tried."
    first, last = named[turns[0] - 1], named[turns[0]] - 1
    return _between(attempt, first, last, lost=good[0])


def _between(attempt: KeptAttempt, first: int, last: int, *, lost: bool) -> str:
    """Where it was decided: in one step of the model's, or somewhere between two."""
    calls = [number for number in attempt.calls if first <= number <= last]
    fate = (
        "Until then the task could still be solved, afterwards no more" if lost else "From then on the task was as good as solved"
    )
    if len(calls) != 1:
        return f"It was decided in steps {first} to {last}. {fate}. --from {','.join(map(str, calls))} says it more exactly."
    said = " ".join(attempt.steps[calls[0] - 1].text.split())
    return f"Step {calls[0]} decided: {said[:_SHOWN]}{'…' if len(said) > _SHOWN else ''}\n{fate}."
