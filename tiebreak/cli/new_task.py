"""`tiebreak new-task`: coding tasks from the commits of a repository, each proven before it is written."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tiebreak.cli import exits
from tiebreak.cli.check_tasks import prove
from tiebreak.cli.console import Console, counted
from tiebreak.commit_tasks import MadeTask, Wishes, divided, make_tasks, why_no_candidate, write_task
from tiebreak.core.errors import UsageError
from tiebreak.datasets.repository import Commit, Repository, RepositoryError
from tiebreak.pipeline import loop_factory
from tiebreak.sandbox.isolation import detect_isolation

_AT_ONCE = 2


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
        """The commits, one after the other."""
        for name in self.commits:
            found = next(repository.commits(f"{repository.resolve(name)}"), None)
            if found is None or found.id != repository.resolve(name):
                raise UsageError(f"{name} is a merge, or the first commit; --from-pr BASE..HEAD takes a range")
            yield found
        yield from (repository.range(name) for name in self.pull_requests)
        if self.history:
            yield from filter(lambda commit: _may_be_task(repository, commit), repository.commits(self.history))


def _may_be_task(repository: Repository, commit: Commit) -> bool:
    return not why_no_candidate(*divided(repository.changed(commit.parent, commit.id)))


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
    written: list[Path] = []
    results = make_tasks(repository, sources.chosen(repository), wishes, isolation, at_once=_AT_ONCE)
    async for commit, found in results:
        subject = commit.message.partition("\n")[0][:60]
        if isinstance(found, MadeTask):
            written.append(await asyncio.to_thread(write_task, found, output, repository, wishes))
            console.line(f"✓ {commit.id[:8]} {subject}: {_in_words(found)}")
        else:
            console.line(f"– {commit.id[:8]} {subject}: {found}", style="dim")
        if sources.history and len(written) >= sources.limit:
            await results.aclose()  # type: ignore[attr-defined]
            break
    return written


def _in_words(made: MadeTask) -> str:
    flaky = f", {len(made.flaky)} left out as flaky" if made.flaky else ""
    return f"{counted(len(made.fail_to_pass), 'test')} to mend, {len(made.pass_to_pass)} to keep{flaky}"
