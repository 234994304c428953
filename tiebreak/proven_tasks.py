"""Sets of coding tasks by name: every task is tried on this machine before it is used, and what cannot pass is left out."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import sys
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path

from msgspec import structs

from tiebreak import __version__
from tiebreak.core.digest import digest_of
from tiebreak.core.errors import DatasetError, SandboxError
from tiebreak.core.files import atomic_writer
from tiebreak.core.run import Source
from tiebreak.core.sample import Sample
from tiebreak.core.task import Check, Solution, Task
from tiebreak.core.work import Isolation
from tiebreak.datasets import task_sets
from tiebreak.datasets.tasks import Tasks
from tiebreak.sandbox.isolation import detect_isolation
from tiebreak.sandbox.layers import cache_folder
from tiebreak.sandbox.workspace import Workspace

TIMES = 3
"""So often a solution must pass, unless that takes longer than is worth it."""
_ENOUGH_S = 20.0
_MOST_AT_ONCE = 8
_SHOWN = 200
_STRICTEST, _BY_PYTEST = "$RUN_TESTS", "$RUN_PYTEST"

SETS: Mapping[str, Callable[[Source], Tasks]] = {
    "polyglot": task_sets.polyglot,
    "quixbugs": task_sets.quixbugs,
    "swebench": task_sets.swebench,
}


@dataclass(frozen=True, slots=True)
class Proof:
    """What came of trying a task."""

    problem: str = ""
    """Why it cannot be used here; empty when doing nothing fails and the solution passes."""
    script: str = ""
    """The check's script that this was found with."""
    lasting: bool = True
    """False for what may have been bad luck: it is tried again next time."""


Tell = Callable[[str, int, int], None]
"""Is told the task that was tried last, or nothing at the start; how many have been, and how many there are."""


def polyglot(source: Source) -> Tasks:
    """Exercises in six languages, aider's polyglot set: proven here on first use."""
    return proven("polyglot", source)


def quixbugs(source: Source) -> Tasks:
    """Forty small Python programs with a defect on one line, QuixBugs: proven here on first use."""
    return proven("quixbugs", source)


def swebench(source: Source) -> Tasks:
    """Issues of real projects, SWE-bench's rows: proven here on first use."""
    return proven("swebench", source)


def proven(name: str, source: Source, tell: Tell = lambda *_: None) -> Tasks:
    """The tasks of a set that can be passed here; the others are skipped, each with its reason."""
    converted = SETS[name](source)
    samples = [converted[position] for position in range(len(converted))]
    proofs = _from_anywhere(samples, tell) if samples else []
    good = [_checked_by(sample, proof) for sample, proof in zip(samples, proofs, strict=True) if not proof.problem]
    bad = [(sample.id, proof.problem) for sample, proof in zip(samples, proofs, strict=True) if proof.problem]
    skipped = [*converted.skipped, *bad]
    if not good:
        raise DatasetError(f"no task of {name} can run here: {'; '.join(f'{task}: {why}' for task, why in skipped[:5])}")
    return Tasks(name, good, skipped)


def _checked_by(sample: Sample, proof: Proof) -> Sample:
    """The task with the script that its solution passes."""
    task = sample.task
    assert task is not None and task.check is not None
    return structs.replace(sample, task=structs.replace(task, check=structs.replace(task.check, script=proof.script)))


def _from_anywhere(samples: Sequence[Sample], tell: Tell) -> list[Proof]:
    """Prove them, also for a caller whose own event loop is running."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return asyncio.run(_prove(samples, tell))
    with ThreadPoolExecutor(1) as thread:
        return thread.submit(asyncio.run, _prove(samples, tell)).result()


async def _prove(samples: Sequence[Sample], tell: Tell) -> list[Proof]:
    """What came of each task, a few at once; kept as soon as it is known, so that an interrupted proof goes on."""
    isolation = await detect_isolation()
    places = [_place(sample.task, isolation) for sample in samples if sample.task]
    known = {place: proof for place in places if (proof := _read(place))}
    turns = asyncio.Semaphore(min(_MOST_AT_ONCE, max(2, len(os.sched_getaffinity(0)))))
    remaining = [pair for pair in zip(samples, places, strict=True) if pair[1] not in known]
    done = len(samples) - len(remaining)
    if remaining:
        tell("", done, len(samples))

    async def prove_one(sample: Sample, place: Path) -> None:
        nonlocal done
        assert sample.task is not None
        async with turns:
            known[place] = await try_task(sample.task, isolation)
        await asyncio.to_thread(_keep, place, known[place])
        done += 1
        tell(sample.id, done, len(samples))

    async with asyncio.TaskGroup() as group:
        for sample, place in remaining:
            group.create_task(prove_one(sample, place))
    return [known[place] for place in places]


async def try_task(task: Task, isolation: Isolation) -> Proof:
    """Try each way its tests can be run, the strictest first, until one proves the task; the first one's words stand else."""
    if task.check is None or task.solution is None:
        return Proof("it has no solution to prove it by" if task.check else "it has no check")
    first = await _try_check(task, task.check, task.solution, isolation)
    if first.problem and _STRICTEST in task.check.script:
        # Some tests look into objects of the work, which the strictest runner keeps from them.
        by_pytest = structs.replace(task.check, script=task.check.script.replace(_STRICTEST, _BY_PYTEST))
        second = await _try_check(task, by_pytest, task.solution, isolation)
        return replace(first, lasting=first.lasting and second.lasting) if second.problem else second
    return first


async def _try_check(task: Task, check: Check, solution: Solution, isolation: Isolation) -> Proof:
    """Do nothing, which must fail, then what the solution does, which must pass each time."""
    try:
        async with Workspace.open(task, isolation=isolation) as workspace:
            before = await workspace.verify(check)
            if before.passed or before.problem:
                return Proof(before.problem or "doing nothing passes its check")
            applied = await workspace.apply(solution)
            if applied.code != 0:
                return Proof(f"its own solution cannot be made: {_end_of(applied.output)}")
            spent_s, passes = 0.0, 0
            while passes < TIMES and (passes == 0 or spent_s < _ENOUGH_S):
                verdict = await workspace.verify(check)
                if not verdict.passed:
                    in_time = verdict.seconds < check.timeout_s
                    return Proof(_why_failed(verdict.problem or verdict.output, passes), lasting=in_time and not verdict.problem)
                spent_s, passes = spent_s + verdict.seconds, passes + 1
    except SandboxError as error:
        return Proof(f"it cannot be tried here: {error}", lasting=False)
    return Proof(script=check.script)


def _why_failed(said: str, passes: int) -> str:
    if passes:
        return f"its check is flaky: its own solution passed {passes} times, then failed: {_end_of(said)}"
    return f"its own solution does not pass here: {_end_of(said)}"


def _end_of(text: str) -> str:
    return " ".join(text.split())[-_SHOWN:]


# --- what is kept ------------------------------------------------------------------------------------


def _place(task: Task, isolation: Isolation) -> Path:
    """Where the proof of a task is kept. It holds for this task, its solution, and the programs as they are here now."""
    solution = task.solution
    files = [[file.path, file.content.hex()] for file in solution.files] if solution else []
    made = [solution.script if solution else "", files]
    tools = [_tool(name) for name in task.needs]
    identity = [task.digest, made, tools, isolation.level, sys.version, sys.executable, __version__]
    return cache_folder() / "proofs" / f"{digest_of(identity)}.json"


def _tool(name: str) -> list[str | int]:
    """A program as it is now: one that is installed or replaced later is tried anew."""
    found = shutil.which(name)
    if found is None:
        return [name]
    about = Path(found).stat()
    return [found, about.st_mtime_ns, about.st_size]


_KEPT = ("problem", "script")


def _read(place: Path) -> Proof | None:
    """A proof that was kept; None when there is none, or none that can be read."""
    try:
        kept = json.loads(place.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    problem, script = (kept.get(name) for name in _KEPT) if isinstance(kept, dict) else (None, None)
    if not (isinstance(problem, str) and isinstance(script, str) and (problem or script)):
        return None
    return Proof(problem=problem, script=script)


def _keep(place: Path, proof: Proof) -> None:
    """Keep what came of a trial. Where nothing can be kept, the next use takes as long as this one."""
    if not proof.lasting:
        return
    try:
        with atomic_writer(place) as file:
            file.write(json.dumps({"problem": proof.problem, "script": proof.script}).encode())
    except OSError:
        return
