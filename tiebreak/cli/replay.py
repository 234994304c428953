"""`tiebreak replay`: an attempt at a coding task, gone on with from one of its steps by another model."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from tiebreak.cli.console import Console, counted
from tiebreak.cli.run import run_with
from tiebreak.config import results_root
from tiebreak.core.errors import UsageError
from tiebreak.core.run import RunSpec
from tiebreak.core.trial import make_trial
from tiebreak.pipeline import make_plan
from tiebreak.replaying import KeptAttempt, chosen_steps, contestant_from, deciding, find_attempt, going_on, write_record
from tiebreak.report.work import read_attempts
from tiebreak.spec.flags import Flags
from tiebreak.store.folder import empty_folder, has_database, new_run_folder
from tiebreak.store.reader import StoreReader


def replay_attempt(name: str, typed: str, given: Mapping[str, Any]) -> int:
    """Have the models go on from the steps, and say which of them decided."""
    attempt = find_attempt(name, results_root())
    steps = chosen_steps(typed, attempt)
    _refuse_changed_task(attempt)
    console = Console(to_stderr=bool(given["as_json"]))
    flags = Flags(door="batch", dataset=attempt.info.protocol.dataset, **given)
    folder = empty_folder(flags.output) if flags.output else new_run_folder(results_root(), _now(), "replay")
    record = write_record(attempt, steps, folder)

    def adjusted(spec: RunSpec) -> RunSpec:
        return going_on(attempt, spec, steps, record, attempt.info.protocol.tasks)

    try:
        code = run_with(Flags(**{**_fields(flags), "output": folder}), adjusted)
    finally:
        if not has_database(folder):
            record.unlink(missing_ok=True)
            folder.rmdir()
    if has_database(folder):
        _say_what_decided(attempt, steps, folder, console)
    return code


def _fields(flags: Flags) -> dict[str, Any]:
    return {name: getattr(flags, name) for name in type(flags).__dataclass_fields__}


def _now() -> datetime:
    return datetime.now(UTC).astimezone()


def _refuse_changed_task(attempt: KeptAttempt) -> None:
    """Steps that were taken on other files, or judged otherwise, say nothing of the task as it is."""
    contestant = next(each for each in attempt.info.contestants if each.label == attempt.label)
    spec = RunSpec(protocol=attempt.info.protocol, contestants=(contestant,), results_dir=Path())
    samples = [sample for sample in make_plan(spec).samples if sample.id == attempt.sample]
    trials = {make_trial(sample, contestant, repeat).id for sample in samples for repeat in range(attempt.info.protocol.repeats)}
    if attempt.trial not in trials:
        raise UsageError(f"the task {attempt.sample} has changed since, or is gone: its steps cannot be taken again")


def _say_what_decided(attempt: KeptAttempt, steps: list[int], folder: Path, console: Console) -> None:
    """A sentence for each model."""
    with StoreReader(folder) as reader:
        by_number, numbers, models = read_attempts(reader), reader.numbers, reader.info.contestants
        repeats = reader.info.protocol.repeats
        differing = _differing(reader)
    for model in {contestant.model.digest: contestant.model for contestant in models}.values():
        rates: dict[int, float] = {}
        for step in steps:
            tried = by_number.get(numbers.get(contestant_from(model, step, folder).label, -1), [])
            judged = [attempt.solved for attempt in tried if attempt.work.checked]
            if judged:
                rates[step] = sum(judged) / len(judged)
        console.line(deciding(attempt, steps, rates, model.label), style="bold")
    if repeats == 1:
        console.line("One attempt from each step is an anecdote: --repeats 5 tells more.", style="dim")
    if differing:
        told = f"Of what was done again, {counted(differing, 'action')} brought another result than the first time"
        console.line(f"{told}: see the transcripts.", style="yellow")


def _differing(reader: StoreReader) -> int:
    """How many actions that were done again brought something else."""
    query = (
        "SELECT count(*) FROM trials t JOIN work w ON w.id = t.id AND w.finished_at = t.finished_at,"
        " json_each(w.transcript) step WHERE t.superseded = 0 AND json_extract(step.value, '$.data.differs')"
    )
    return int(next(iter(reader.rows(query)))[0])
