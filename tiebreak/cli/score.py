"""`tiebreak score`: a run's answers judged again, by a rule, by models or by people."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Callable, Coroutine, Sequence
from pathlib import Path
from typing import Any, TypeVar

from tiebreak.cli import exits
from tiebreak.cli.console import Console, counted
from tiebreak.cli.progress import Live, Plain, View
from tiebreak.cli.run import show
from tiebreak.config import Config, load_config, read_env_file, results_root
from tiebreak.core.events import Event, PairJudged
from tiebreak.core.model import ModelRef
from tiebreak.pairing import compare_answers, compares_answers, plan_comparing
from tiebreak.pipeline import Stop, loop_factory, preflight, read_summary, rebuild, rescore
from tiebreak.readiness import ASK_ABOVE_USD, expected_cost
from tiebreak.rejudging import Judging, asks_judges, expected_judging, judge_answers, keep_people_votes, plan_judging
from tiebreak.spec.build import chosen_judges
from tiebreak.store.folder import find_run
from tiebreak.store.reader import StoreReader

_TOLD_EVERY = 100
"""Comparisons between two lines of progress."""

Result = TypeVar("Result")


def score_run(
    run: str, scorer: str | None, *, judge: Sequence[str], human: Path | None, force: bool, max_cost: float | None, yes: bool
) -> int:
    """Score a run's answers again, rewrite its files and show what they now say."""
    console = Console()
    folder = find_run(run, results_root())
    code = 0
    if human is not None:
        for person, count in keep_people_votes(folder, human).items():
            console.line(f"{counted(count, 'vote')} of {person} kept.")
    if scorer and compares_answers(scorer):
        code = _compare(folder, scorer, judge, force=force, max_cost=max_cost, console=console)
    # Votes alone change no score: nothing else is judged unless that was asked for.
    elif judge or scorer or human is None:
        wanted = _planned(folder, scorer, judge, force=force, max_cost=max_cost) if judge or asks_judges(folder, scorer) else None
        if wanted is not None and not _may_judge(wanted, console, agreed=yes or max_cost is not None):
            return exits.FAILED
        code = _judge(wanted, console) if wanted is not None else _score(folder, scorer, console)
    summary = read_summary(folder)
    written = rebuild(folder, summary=summary)
    show(summary, folder, console)
    console.written(written)
    return code


def _score(folder: Path, scorer: str | None, console: Console) -> int:
    """Score by a rule, or by the dataset's own."""
    judged = asyncio.run(rescore(folder, scorer))
    by = f"the scorer {scorer}" if scorer else "the dataset's own scorers"
    console.line(f"{counted(judged, 'answer')} judged by {by}; nothing was asked.")
    return 0


def _planned(folder: Path, scorer: str | None, names: Sequence[str], *, force: bool, max_cost: float | None) -> Judging:
    read_env_file()
    models = _judges(folder, names, load_config(None), force=force) if names else ()
    return plan_judging(folder, models, scorer, max_cost_usd=max_cost)


def _may_judge(judging: Judging, console: Console, *, agreed: bool) -> bool:
    """Say what judging will cost, and try the judges: before anything is changed, and above a dollar only with consent."""
    expected = expected_judging(judging)
    if expected.dollars:
        console.line(expected_cost(expected))
    if expected.total.likely > ASK_ABOVE_USD and not agreed:
        console.line("Nothing was asked: above $1, say --yes, or set a limit with --max-cost.", style="bold")
        return False
    with asyncio.Runner(loop_factory=loop_factory()) as runner:
        refused = runner.run(preflight(judging.protocol.judges))
    for label, failure in refused.items():
        console.line(f"✗ {label}  {failure.kind.replace('_', ' ')}: {failure.message}", style="red")
    if refused:
        console.line("Nothing was changed: these judges would judge nothing.", style="bold")
    return not refused


def _judge(judging: Judging, console: Console) -> int:
    """Have models judge what they have not judged yet; 2 when something is left unjudged."""
    code, judged = _judge_watched(judging, console)
    by = ", ".join(judge.label for judge in judging.protocol.judges)
    console.line(f"{counted(judged, 'answer')} judged by {by}; contestants were asked nothing.")
    with StoreReader(judging.folder) as reader:
        left = next(reader.rows("SELECT count(*) FROM trials WHERE superseded = 0 AND unjudged IS NOT NULL"))[0]
    if left:
        console.line(f"{counted(left, 'answer')} not judged yet; the same command goes on.", style="yellow")
    return code or (exits.PARTIAL if left else 0)


def _compare(folder: Path, scorer: str, names: Sequence[str], *, force: bool, max_cost: float | None, console: Console) -> int:
    """Have models compare what they have not compared yet; 2 when something is left."""
    read_env_file()
    models = _judges(folder, names, load_config(None), force=force) if names else ()
    comparing = plan_comparing(folder, models, scorer, max_cost_usd=max_cost)
    judged = 0

    def watch(event: Event) -> None:
        nonlocal judged
        judged += isinstance(event, PairJudged)
        if isinstance(event, PairJudged) and judged % _TOLD_EVERY == 0:
            console.line(f"  {judged:,} comparisons")

    code, done = _until_signal(lambda stop: compare_answers(comparing, watch=watch, stop=stop))
    by = ", ".join(judge.label for judge in comparing.judges)
    console.line(f"{counted(done.asked, 'comparison')} by {by}; contestants were asked nothing.")
    if done.pairs < done.all_pairs:
        console.line(f"The schedule has {done.pairs:,} of {done.all_pairs:,} pairs of answers: on each sample, a circle.")
    if done.missing:
        console.line(f"{counted(done.missing, 'comparison')} missing; the same command goes on.", style="yellow")
    return code or (exits.PARTIAL if done.missing else 0)


def _judges(folder: Path, names: Sequence[str], config: Config, *, force: bool) -> tuple[ModelRef, ...]:
    with StoreReader(folder) as reader:
        judged = [contestant.model for contestant in reader.info.contestants]
    return chosen_judges(names, config, () if force else judged)


def _judge_watched(judging: Judging, console: Console) -> tuple[int, int]:
    """Judge under a view until done or stopped: the code of the signal that stopped it, if any, and how many were judged."""
    view: View = Live(console.rich) if console.is_terminal else Plain(console.line)
    with view:
        return _until_signal(lambda stop: judge_answers(judging, watch=view.watch, stop=stop))


def _until_signal(work: Callable[[Stop], Coroutine[Any, Any, Result]]) -> tuple[int, Result]:
    """Work until done or stopped: the code of the signal that stopped it, if any, and what came of it."""
    stop, codes = Stop(), list[int]()

    def on_signal(code: int) -> None:
        codes.append(code)
        stop.ask()

    async def watched() -> Result:
        loop = asyncio.get_running_loop()
        loop.add_signal_handler(signal.SIGINT, on_signal, exits.INTERRUPTED)
        loop.add_signal_handler(signal.SIGTERM, on_signal, exits.TERMINATED)
        return await work(stop)

    with asyncio.Runner(loop_factory=loop_factory()) as runner:
        found = runner.run(watched())
    return (codes[0] if codes else 0), found
