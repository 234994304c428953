"""The one vocabulary of flags."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import click

Command = TypeVar("Command", bound=Callable[..., Any])
_SETTING = re.compile(r"[A-Za-z_]+=[^/@]*")


def split_models(text: str) -> list[str]:
    """Names in a comma-separated list; commas inside a variant (`name@a=1,b=2`) do not separate."""
    found: list[str] = []
    for piece in filter(None, (part.strip() for part in text.split(","))):
        if found and "@" in found[-1] and _SETTING.fullmatch(piece):
            found[-1] += f",{piece}"
        else:
            found.append(piece)
    return found


class Percent(click.ParamType[Any]):
    """A share, written as 1% or 0.01."""

    name = "share"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        """The share as a number from 0 to 1."""
        if isinstance(value, float):
            return value
        try:
            share = float(str(value).removesuffix("%")) / (100 if str(value).endswith("%") else 1)
        except ValueError:
            share = -1.0
        if not 0 <= share <= 1:
            self.fail(f"{value!r} is not a share such as 1% or 0.01", param, ctx)
        return share


def model_options(command: Command) -> Command:
    """Which models."""
    options = (
        click.option("--model", "model", multiple=True, metavar="NAME", help="A model; may be given several times."),
        click.option("--models", metavar="A,B,C", help="Several models, also of different providers."),
        click.option("--all-models", is_flag=True, help="Every model that can run here now."),
        click.option("--category", metavar="NAME", help="The models of a category of models_config.yaml."),
        click.option("--provider", metavar="NAME", help="Deprecated: that provider's default model."),
        click.option("--config", type=click.Path(path_type=Path), help="Another models_config.yaml."),
    )
    return _apply(command, options)


def setting_options(command: Command) -> Command:
    """How the models are asked."""
    options = (
        click.option("--temperature", type=click.FloatRange(min=0), help="Sampling temperature."),
        click.option("--max-tokens", type=click.IntRange(min=1), help="Most tokens of an answer."),
        click.option("--reasoning-effort", metavar="LEVEL", help="How hard a reasoning model thinks: low, medium, high, …"),
        click.option("--seed", type=int, help="Seed of choice order and, where the provider has one, of sampling."),
    )
    return _apply(command, options)


def pace_options(command: Command) -> Command:
    """How fast and how long."""
    options = (
        click.option("--parallel", is_flag=True, help="Up to 4 models at once."),
        click.option("--max-workers", type=click.IntRange(min=1), help="Models at once with --parallel (default 4)."),
        click.option(
            "--max-connections",
            type=click.IntRange(1, 4096),
            help="Requests in flight per model; else one to a local model, to others as many as they take.",
        ),
        click.option("--rpm", type=click.IntRange(min=1), metavar="N", help="Requests a minute each model may be sent."),
        click.option("--tpm", type=click.IntRange(min=1), metavar="N", help="Tokens a minute each model may use."),
        click.option("--timeout", type=click.FloatRange(min=0, min_open=True), metavar="S", help="Most seconds per model."),
        click.option(
            "--request-timeout",
            type=click.FloatRange(min=0, min_open=True),
            default=600.0,
            show_default=True,
            metavar="S",
            help="Most seconds for one answer.",
        ),
        click.option("--use-engine", is_flag=True, help="Accepted: there is one engine and it is always used."),
    )
    return _apply(command, options)


def run_options(command: Command) -> Command:
    """What is asked and what becomes of it."""
    options = (
        click.option("--dataset", metavar="NAME", help="A registered dataset, a file or folder of yours, or hf:owner/name."),
        click.option("--limit", type=click.IntRange(min=1), metavar="N", help="Only N samples, spread over categories."),
        click.option("--repeats", type=click.IntRange(min=1), default=None, metavar="K", help="Ask every sample K times."),
        click.option("--output", type=click.Path(path_type=Path), help="Folder for the results, or a .csv file."),
        click.option("--resume", metavar="ID_OR_PATH", help="Go on with a run; nothing finished is asked again."),
        click.option("--retry-failed", is_flag=True, help="With --resume: ask all failed samples again."),
        click.option(
            "--max-cost", type=click.FloatRange(min=0, min_open=True), metavar="USD", help="Most dollars of the whole run."
        ),
        click.option("--max-total-tokens", type=click.IntRange(min=1), metavar="N", help="Most tokens of the whole run."),
        click.option(
            "--max-time", type=click.FloatRange(min=0, min_open=True), metavar="S", help="Most seconds, for all models together."
        ),
        click.option("--allow-failures", type=Percent(), default=0.0, metavar="1%", help="Failed trials that are no fault."),
        click.option("--fail-under", type=click.FloatRange(0, 1), metavar="X", help="Exit 3 if a model scores below X."),
        click.option("--baseline", metavar="FILE|RUN", help="Exit 3 if a model is shown to be worse than it was there."),
        click.option("--stream", is_flag=True, help="Have answers streamed, to know the time to the first token."),
        click.option("--record", type=click.Path(path_type=Path), metavar="DIR", help="Write every exchange down."),
        click.option("--replay", type=click.Path(path_type=Path), metavar="DIR", help="Answer from a recording; send nothing."),
        click.option("--cache", type=click.Path(path_type=Path), metavar="DIR", help="Remember answers between runs."),
        click.option("--no-preflight", is_flag=True, help="Do not try each hosted model with a tiny call first."),
        click.option("--dry-run", is_flag=True, help="Show what would be asked, and ask nothing."),
        click.option("--yes", is_flag=True, help="Do not ask before spending."),
        click.option("--no-csv", is_flag=True, help="Write no CSV."),
        click.option("--json", "as_json", is_flag=True, help="Events as JSON lines on standard output."),
        click.option("--markdown", is_flag=True, help="The comparison as a Markdown table."),
        click.option("--quiet", is_flag=True, help="No progress, only the result."),
    )
    return _apply(command, options)


def asking_options(command: Command) -> Command:
    """How the questions are read, put and judged."""
    path = click.Path(path_type=Path)
    options = (
        click.option("--data", type=path, metavar="PATH", help="A local copy of a registered dataset: its file or folder."),
        click.option("--field", multiple=True, metavar="COLUMN=FIELD", help="A column of your file and what it is to us."),
        click.option("--map", type=path, metavar="FILE", help="The same for many columns, as YAML."),
        click.option("--sample-id", multiple=True, metavar="IDS", help="Only these samples: ids with commas, * and ?, or @FILE."),
        click.option("--sample-category", multiple=True, metavar="NAMES", help="Only samples of these categories."),
        click.option("--shots", type=click.IntRange(0, 100), metavar="N", help="Worked examples before each question."),
        click.option("--likelihood", is_flag=True, help="Compare choices by their likelihood; local models only."),
        click.option("--system", metavar="TEXT", help="A system prompt, or a file that holds one."),
        click.option("--template", metavar="TEXT", help="Words around {question} and {choices}, or a file of them."),
        click.option("--cot", is_flag=True, help="Have the models reason first, then state their answer."),
        click.option("--stop", multiple=True, metavar="TEXT", help="End answers here; may be given several times."),
        click.option("--scorer", multiple=True, metavar="NAME", help="Judge by this instead; the first given ranks."),
        click.option("--judge", metavar="MODEL", help="The model that judges, where the scorer is one that asks."),
        click.option("--force", is_flag=True, help="Let a contestant, or one of its kin, be the judge."),
    )
    return _apply(command, options)


def work_options(command: Command) -> Command:
    """Which coding tasks, and how they are worked on."""
    options = (
        click.option("--task", multiple=True, metavar="PATH", help="A task file, a folder of tasks, or a pattern."),
        click.option("--agent", multiple=True, metavar="NAME", help="Who puts the model to work; default builtin."),
        click.option("--follow-ups", type=click.IntRange(min=0), metavar="K", help="Send a failing check back K times (1)."),
        click.option("--max-model-calls", type=click.IntRange(min=1), metavar="N", help="Most model calls per attempt (50)."),
        click.option("--attended", is_flag=True, help="Have a person at this terminal help when an agent gets stuck."),
        click.option(
            "--ask-permissions",
            type=click.Choice(["allow", "deny", "person"]),
            help="Have agents ask for leave to act, where they can, and answer so, or have whoever attends answer; "
            "else all leave is given beforehand.",
        ),
        click.option("--allow-unsandboxed", is_flag=True, help="Run even where nothing keeps the work apart from the machine."),
        click.option("--verbose", is_flag=True, help="Say every step instead of showing a live view."),
    )
    return _apply(command, options)


def batch_options(command: Command) -> Command:
    """What becomes of a batch."""
    options = (
        click.option("--limit", type=click.IntRange(min=1), metavar="N", help="Only N tasks, spread over the levels."),
        click.option("--repeats", type=click.IntRange(min=1), default=None, metavar="K", help="Try every task K times."),
        click.option("--output", type=click.Path(path_type=Path), help="Folder for the results."),
        click.option("--resume", metavar="BATCH_ID", help="Go on with a batch, by id or path; nothing finished is done again."),
        click.option("--retry-failed", is_flag=True, help="With --resume: try again all that ended without a verdict."),
        click.option("--timeout", type=click.FloatRange(min=0, min_open=True), metavar="S", help="Most seconds per task (1800)."),
        click.option("--parallel", is_flag=True, help="Up to 4 models at once."),
        click.option("--max-workers", type=click.IntRange(min=1), help="Attempts at once with --parallel (default 4)."),
        click.option("--rpm", type=click.IntRange(min=1), metavar="N", help="Requests a minute each model may be sent."),
        click.option("--tpm", type=click.IntRange(min=1), metavar="N", help="Tokens a minute each model may use."),
        click.option("--max-cost", type=click.FloatRange(min=0, min_open=True), metavar="USD", help="Most dollars of the batch."),
        click.option("--max-total-tokens", type=click.IntRange(min=1), metavar="N", help="Most tokens of the batch."),
        click.option("--max-time", type=click.FloatRange(min=0, min_open=True), metavar="S", help="Most seconds of the batch."),
        click.option("--allow-failures", type=Percent(), default=0.0, metavar="1%", help="Failed attempts that are no fault."),
        click.option("--fail-under", type=click.FloatRange(0, 1), metavar="X", help="Exit 3 if a model solves less than X."),
        click.option("--no-preflight", is_flag=True, help="Do not try each hosted model with a tiny call first."),
        click.option("--dry-run", is_flag=True, help="Show what would be done, and do nothing."),
        click.option("--yes", is_flag=True, help="Do not ask before spending."),
        click.option("--json", "as_json", is_flag=True, help="Events as JSON lines on standard output."),
        click.option("--quiet", is_flag=True, help="No progress, only the result."),
    )
    return _apply(command, options)


def _apply(command: Command, options: tuple[Callable[[Command], Command], ...]) -> Command:
    for option in reversed(options):
        command = option(command)
    return command
