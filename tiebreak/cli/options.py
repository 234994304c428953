"""The one vocabulary of flags."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import click

Command = TypeVar("Command", bound=Callable[..., Any])


LARGEST = 1e9
"""Of seconds and of dollars: more means nothing, and clocks do not take it."""


class Number(click.FloatRange):
    """A number in its range; `nan` compares with nothing and `inf` is no limit, so neither is one."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        """The number."""
        number = super().convert(value, param, ctx)
        if not abs(number) <= LARGEST:
            self.fail(f"{value!r} is not a number up to a billion; leave the option out for no limit", param, ctx)
        return number


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


def list_models_option(command: Command) -> Command:
    """A list instead of a run."""
    return click.option("--list-models", is_flag=True, help="List the models, and whether each can run here; nothing is run.")(
        command
    )


def setting_options(command: Command) -> Command:
    """How the models are asked."""
    options = (
        click.option("--temperature", type=Number(min=0), help="Sampling temperature."),
        click.option("--max-tokens", type=click.IntRange(min=1), help="Most tokens of an answer."),
        click.option("--reasoning-effort", metavar="LEVEL", help="How hard a reasoning model thinks: low, medium, high, …"),
        click.option("--seed", type=int, help="Seed of choice order and, where the provider has one, of sampling."),
    )
    return _apply(command, options)


_SECONDS = Number(min=0, min_open=True)
_COUNT = click.IntRange(min=1)
_POINTS = Number(0, 100, min_open=True, max_open=True)
_PATH = click.Path(path_type=Path)


def sample_options(command: Command) -> Command:
    """What is asked, and how it is read."""
    options = (
        click.option("--dataset", metavar="NAME", help="A registered dataset, your own file or folder, or hf:owner/name."),
        click.option(
            "--task", multiple=True, metavar="PATH", help="A task file, a folder, a pattern, or polyglot, quixbugs, swebench."
        ),
        click.option("--workspace", type=_PATH, metavar="DIR", help="Have tasks without files done on a copy of DIR."),
        click.option("--sandbox", type=click.Choice(["podman", "docker"]), help="Make the images of tasks by this engine."),
        click.option("--limit", type=_COUNT, metavar="N", help="Only N samples, spread over categories."),
        click.option("--repeats", type=_COUNT, default=None, metavar="K", help="Ask every sample K times."),
        click.option(
            "--until", metavar="WHAT", help="Stop asking whoever is decided: leader, tiers, 50%, cheapest, ./file.py:Name."
        ),
        click.option("--margin", type=_POINTS, metavar="POINTS", help="With --until cheapest: so much worse is good enough (2)."),
        click.option("--shard", metavar="I/N", help="Only the I-th of N parts, to be merged later; auto/N asks the scheduler."),
        click.option("--data", type=_PATH, metavar="PATH", help="A local copy of a registered dataset: its file or folder."),
        click.option("--field", multiple=True, metavar="COLUMN=FIELD", help="A column of your file and the field it holds."),
        click.option("--encoding", metavar="NAME", help="How your file's characters are encoded, as in cp1252; else UTF-8."),
        click.option("--map", type=_PATH, metavar="FILE", help="The same for many columns, as YAML."),
        click.option("--sample-id", multiple=True, metavar="IDS", help="Only these samples: ids with commas, * and ?, or @FILE."),
        click.option("--sample-category", multiple=True, metavar="NAMES", help="Only samples of these categories."),
        click.option("--shots", type=click.IntRange(0, 100), metavar="N", help="Worked examples before each question."),
        click.option("--likelihood", is_flag=True, help="Compare choices by their likelihood; local models only."),
        click.option("--scorer", multiple=True, metavar="NAME", help="Score by this instead; the first given ranks."),
        click.option("--judge", multiple=True, metavar="MODEL", help="The model that judges; several judges may be named."),
        click.option("--force", is_flag=True, help="Let a contestant, or another model of its provider, be the judge."),
    )
    return _apply(command, options)


def contestant_options(command: Command) -> Command:
    """How the models are asked and put to work."""
    options = (
        click.option("--prompt", multiple=True, metavar="NAME=TEXT", help="A prompt that competes, as text or file; repeatable."),
        click.option("--contestant", multiple=True, metavar='"LABEL: MODEL, key=value, …"', help="One contestant, written out."),
        click.option("--system", metavar="TEXT", help="A system prompt, or a file that holds one."),
        click.option("--template", metavar="TEXT", help="Words around {question} and {choices}, or a file of them."),
        click.option("--cot", is_flag=True, help="Have the models reason first, then state their answer."),
        click.option("--stop", multiple=True, metavar="TEXT", help="End answers here; may be given several times."),
        click.option("--agent", multiple=True, metavar="NAME", help="Who puts the model to work; see tiebreak list agents."),
    )
    return _apply(command, options)


def task_options(command: Command) -> Command:
    """How coding tasks are worked on."""
    options = (
        click.option("--follow-ups", type=click.IntRange(min=0), metavar="K", help="Send a failing check back K times (1)."),
        click.option("--max-model-calls", type=_COUNT, metavar="N", help="Most model calls per attempt at a task (50)."),
        click.option("--attended", is_flag=True, help="Have a person at this terminal help when an agent gets stuck."),
        click.option(
            "--ask-permissions",
            type=click.Choice(["allow", "deny", "person"]),
            help="Have agents ask for permission to act, where they can, and answer so, or have whoever attends answer; "
            "else everything is permitted beforehand.",
        ),
        click.option("--allow-unsandboxed", is_flag=True, help="Run coding tasks even where there is no sandbox."),
        click.option("--verbose", is_flag=True, help="Print every step instead of showing a live view."),
    )
    return _apply(command, options)


def pace_options(timeout: str) -> Callable[[Command], Command]:
    """How fast and how much; `timeout` says what its flag limits."""
    options = (
        click.option("--parallel", is_flag=True, help="Up to 4 models at once."),
        click.option("--max-workers", type=_COUNT, help="Models at once with --parallel (default 4)."),
        click.option(
            "--max-connections",
            type=click.IntRange(1, 4096),
            help="Requests in flight per model; else one to a local model, to others as many as they take.",
        ),
        click.option("--rpm", type=_COUNT, metavar="N", help="Requests a minute each model may be sent."),
        click.option("--tpm", type=_COUNT, metavar="N", help="Tokens a minute each model may use."),
        click.option("--timeout", type=_SECONDS, metavar="S", help=timeout),
        click.option("--request-timeout", type=_SECONDS, metavar="S", help="Most seconds for one answer (600)."),
        click.option("--max-cost", type=_SECONDS, metavar="USD", help="Most dollars of the whole run."),
        click.option("--max-total-tokens", type=_COUNT, metavar="N", help="Most tokens of the whole run."),
        click.option("--max-time", type=_SECONDS, metavar="S", help="Most seconds, for all models together."),
        click.option("--stream", is_flag=True, help="Have answers streamed, to know the time to the first token."),
        click.option("--batch", is_flag=True, help="Ask in batches where providers have them: half the price, within a day."),
        click.option("--detach", is_flag=True, help="With --batch: end once all is sent; --resume collects the answers."),
        click.option("--poll", type=_SECONDS, metavar="S", help="With --batch: look for answers every S seconds (30)."),
        click.option("--timing", type=_COUNT, metavar="N", help="Ask N samples again, one at a time, to compare speeds."),
        click.option("--record", type=_PATH, metavar="DIR", help="Write every exchange down."),
        click.option("--replay", type=_PATH, metavar="DIR", help="Answer from a recording; send nothing."),
        click.option("--cache", type=_PATH, metavar="DIR", help="Remember answers between runs."),
        click.option("--use-engine", is_flag=True, help="Accepted: there is one engine and it is always used."),
    )
    return lambda command: _apply(command, options)


def cluster_options(command: Command) -> Command:
    """On which machines."""
    options = (
        click.option("--on", type=click.Choice(["ray"]), help="Run on a Ray cluster: RAY_ADDRESS, or else this machine's."),
        click.option(
            "--nodes-need",
            multiple=True,
            metavar="[WHO=]RES:N",
            help="Only on nodes with so much free, as in GPU:1, ollama/llama3=GPU:1 or tasks=CPU:2.",
        ),
        click.option("--per-node", type=_COUNT, metavar="N", help="Trials at once on each node of the cluster."),
        click.option("--send-keys", is_flag=True, help="Hand the keys to nodes that have none, in memory."),
    )
    return _apply(command, options)


changed_option = click.option(
    "--changed",
    multiple=True,
    type=click.Choice(["model", "settings", "prompt", "agent"]),
    help="The change under test: compare contestants that are alike in everything else.",
)


def result_options(command: Command) -> Command:
    """What becomes of the run."""
    options = (
        click.option("--output", type=_PATH, help="Folder for the results, or a .csv file."),
        click.option("--resume", metavar="ID_OR_PATH", help="Go on with a run; nothing finished is done again."),
        click.option("--retry-failed", is_flag=True, help="With --resume: try again everything that failed."),
        click.option(
            "--allow-failures", type=Percent(), default=0.0, metavar="1%", help="Accept up to this share of failed trials."
        ),
        click.option("--fail-under", type=Number(0, 1), metavar="X", help="Exit 3 if a model scores below X."),
        click.option("--baseline", metavar="FILE|RUN", help="Exit 3 if a model is shown to be worse than it was there."),
        changed_option,
        click.option("--choose-on", type=click.Choice(["half"]), help="Choose the best on one half, and test it on the other."),
        click.option("--strict", is_flag=True, help="Ask nothing if any model's key is refused."),
        click.option("--no-preflight", is_flag=True, help="Do not try each hosted model with a tiny call first."),
        click.option("--dry-run", is_flag=True, help="Show what would be asked, and ask nothing."),
        click.option("--save", type=_PATH, metavar="FILE", help="With --dry-run: write the run down as a run file."),
        click.option("--yes", is_flag=True, help="Do not ask before spending."),
        click.option("--no-csv", is_flag=True, help="Write no CSV."),
        click.option("--json", "as_json", is_flag=True, help="Events as JSON lines on standard output."),
        click.option("--markdown", is_flag=True, help="The result as Markdown on standard output."),
        click.option("--quiet", is_flag=True, help="No progress, only the result."),
    )
    return _apply(command, options)


def _apply(command: Command, options: tuple[Callable[[Command], Command], ...]) -> Command:
    for option in reversed(options):
        command = option(command)
    return command
