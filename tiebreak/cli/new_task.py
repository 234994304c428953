"""`tiebreak new-task`: coding tasks from the commits of a repository, each proven before it is written."""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tiebreak.cli import exits
from tiebreak.cli.check_tasks import prove
from tiebreak.cli.console import Console, counted
from tiebreak.commit_tasks import MadeTask, Tried, Wishes, divided, make_tasks, why_no_candidate, write_task
from tiebreak.core.errors import UsageError
from tiebreak.datasets.repository import Commit, Repository, RepositoryError
from tiebreak.pipeline import loop_factory
from tiebreak.sandbox.isolation import detect_isolation

_LEAST_AT_ONCE = 2
_LONGEST_SUBJECT = 60


@dataclass(frozen=True, slots=True)
class Sources:
    """Which commits are made into tasks."""

    commits: Sequence[str] = ()
    pull_requests: Sequence[str] = ()
    """Ranges, as BASE..HEAD: one task each."""
    history: str = ""
    """A revision or range whose commits are candidates, the newest first."""
    limit: int = 20

    def chosen(self, repository: Repository) -> Iterator[Commit]:
        """The commits that are named, one after the other."""
        for name in self.commits:
            found = next(repository.commits(f"{repository.resolve(name)}"), None)
            if found is None or found.id != repository.resolve(name):
                raise UsageError(f"{name} is a merge, or the first commit; --from-pr BASE..HEAD takes a range")
            yield found
        yield from (repository.range(name) for name in self.pull_requests)

    def candidates(self, repository: Repository) -> tuple[list[Commit], Counter[str]]:
        """The commits of a history that may make tasks, and how many may not, by reason."""
        may, refused = list[Commit](), Counter[str]()
        for commit in repository.commits(self.history) if self.history else ():
            reason = why_no_candidate(*divided(repository.changed(commit.parent, commit.id)))
            refused.update([reason] if reason else ())
            may += [] if reason else [commit]
        return may, refused


class Progress:
    """Says what is done while it is done: a line when a commit's tests begin, and one when it is known what came of it."""

    def __init__(self, console: Console, count: int) -> None:
        self._console, self._count, self._begun = console, count, 0

    def begins(self, commit: Commit) -> None:
        """A commit is tried."""
        self._begun += 1
        self._console.line(f"· {_named(commit)}: trying its tests, {self._begun} of {self._count}", style="dim")

    def ended(self, tried: Tried) -> None:
        """It made a task, or it made none, for this reason."""
        made = isinstance(tried.outcome, MadeTask)
        words = _in_words(tried.outcome) if isinstance(tried.outcome, MadeTask) else str(tried.outcome)
        mark, style = ("✓", "") if made else ("–", "dim")
        self._console.line(f"{mark} {_named(tried.commit)}: {words} ({tried.seconds:.0f} s)", style=style)


def _named(commit: Commit) -> str:
    return f"{commit.id[:8]} {commit.message.partition(chr(10))[0][:_LONGEST_SUBJECT]}"


def make(*, repo: Path, output: Path, no_cheats: bool, **flags: Any) -> int:
    """Make the tasks, prove them, and say of each commit what became of it."""
    console = Console()
    sources = Sources(*(flags[name] for name in ("from_commit", "from_pr", "from_history", "limit")))
    if not (sources.commits or sources.pull_requests or sources.history):
        raise UsageError("name commits: --from-commit SHA, --from-pr BASE..HEAD or --from-history")
    python = str(Path(flags["python"]).expanduser().absolute()) if flags["python"] else ""
    wishes = Wishes(python=python, pip=flags["pip"], timeout_s=flags["timeout"], memory_mb=flags["memory"])
    try:
        with asyncio.Runner(loop_factory=loop_factory()) as runner:
            made = runner.run(_made(sources, Repository(_absolute(repo)), output, wishes, console))
    except RepositoryError as error:
        raise UsageError(f"{repo}: {error}") from None
    if not made:
        console.line("No task was made.", style="red")
        return exits.FAILED
    console.line(f"{counted(len(made), 'task')} written below {output}.")
    return exits.DONE if no_cheats else prove([str(path) for path in made])


def _absolute(folder: Path) -> Path:
    return folder.expanduser().resolve()


async def _made(sources: Sources, repository: Repository, output: Path, wishes: Wishes, console: Console) -> list[Path]:
    isolation = await detect_isolation()
    named = list(sources.chosen(repository))
    candidates, refused = sources.candidates(repository)
    if sources.history:
        console.line(_about_history(len(candidates), refused, sources.limit))
    progress, written = Progress(console, len(named) + len(candidates)), list[Path]()
    at_once = max(_LEAST_AT_ONCE, len(os.sched_getaffinity(0)))
    commits = [*named, *candidates]
    results = make_tasks(repository, commits, wishes, isolation, at_once=at_once, tell=progress.begins)
    async with contextlib.aclosing(results):  # type: ignore[type-var]
        async for tried in results:
            progress.ended(tried)
            if isinstance(tried.outcome, MadeTask):
                written.append(await asyncio.to_thread(write_task, tried.outcome, output, repository, wishes))
            if sources.history and len(written) >= sources.limit:
                break
    return written


def _about_history(candidates: int, refused: Counter[str], limit: int) -> str:
    """How many commits of a history are tried, and why the others are not."""
    others = "; ".join(f"{count} others: {reason}" for reason, count in refused.most_common())
    first = f"{counted(candidates, 'commit')} to be tried, the newest first, until {counted(limit, 'task')} are made."
    return f"{first} {others}".rstrip()


def _in_words(made: MadeTask) -> str:
    flaky = f", {len(made.flaky)} left out as flaky" if made.flaky else ""
    return f"{counted(len(made.fail_to_pass), 'test')} to mend, {len(made.pass_to_pass)} to keep{flaky}"
