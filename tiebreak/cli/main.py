"""The commands and their flags. What a command does is imported when it is called, so help costs nothing."""

from __future__ import annotations

import contextlib
import errno
import io
import logging
import os
import re
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click

from tiebreak import __version__
from tiebreak.cli import exits
from tiebreak.cli.invocation import invoked_as, name_in_help, with_help
from tiebreak.cli.options import (
    Number,
    changed_option,
    cluster_options,
    contestant_options,
    list_models_option,
    model_options,
    pace_options,
    result_options,
    sample_options,
    setting_options,
    task_options,
)
from tiebreak.cli.terminal import HarmlessFormatter, echo
from tiebreak.core.errors import BenchmarkError, UsageError, exhausted

_COMPLETION_VARIABLE = "_TIEBREAK_COMPLETE"
"""What completion scripts set when they ask the program what could come next."""
_MAY_BE_EMPTY = frozenset({"system", "template", "prompt", "text"})
"""Parameters for which an empty text says something, or whose commands have words of their own for it."""


class SpelledCommand(click.Command):
    """A command whose help is spelled as it must be typed here, and which names the others where it is the default one."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Read the arguments. An empty one is a variable that was never set, and would silently mean something else."""
        if not ctx.resilient_parsing:
            given, _, _ = self.make_parser(ctx).parse_args(args=list(args))
            for parameter in self.params:
                value = given.get(parameter.name or "")
                if value == "" or (isinstance(value, list | tuple) and "" in value):
                    self._refuse_empty(parameter, ctx)
        return super().parse_args(ctx, args)

    @staticmethod
    def _refuse_empty(parameter: click.Parameter, ctx: click.Context) -> None:
        if parameter.name in _MAY_BE_EMPTY:
            return
        named = parameter.opts[0] if isinstance(parameter, click.Option) else parameter.make_metavar(ctx).strip("[].")
        raise click.UsageError(f"{named} is empty: give it a value, or leave it out (is a variable not set?)", ctx)

    def get_help(self, ctx: click.Context) -> str:
        """The help, its examples to be copied."""
        program = f"{ctx.find_root().info_name} "
        return re.sub(r"(?:(?<=\n    )|(?<=see ))tiebreak (?=\w)", lambda _: program, super().get_help(ctx))

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """The other commands, for who started a script that stands for this one."""
        super().format_epilog(ctx, formatter)
        if ctx.find_root().obj == self.name:
            others = [(name, command) for name, command in tiebreak.commands.items() if command is not self]
            with formatter.section(f"Other commands ({ctx.find_root().info_name} COMMAND --help)"):
                formatter.write_dl([(name, command.get_short_help_str(limit=76)) for name, command in others])


class Commands(click.Group):
    """The commands in the order they are declared; a close name is suggested for an unknown one."""

    command_class = SpelledCommand

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Their names, the important ones first."""
        return list(self.commands)

    def resolve_command(self, ctx: click.Context, args: list[str]) -> tuple[str | None, click.Command | None, list[str]]:
        """Find the command that was named."""
        if args and args[0] not in self.commands and not args[0].startswith("-"):
            from tiebreak.registry import did_you_mean

            raise click.UsageError(f"there is no command {args[0]!r}{did_you_mean(args[0], self.commands)}", ctx)
        return super().resolve_command(ctx, args)


@click.group(cls=Commands, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.version_option(__version__, prog_name="tiebreak")
def tiebreak() -> None:
    """Run the same questions or coding tasks on many models and learn which is really better, or that it is a tie."""


_RESULTS = click.option(
    "--results", type=click.Path(path_type=Path, exists=True, file_okay=False), help="The folder that holds the runs."
)


@tiebreak.command()
@click.argument("file", required=False, type=click.Path(path_type=Path), metavar="[RUN_FILE]")
@model_options
@list_models_option
@sample_options
@contestant_options
@setting_options
@pace_options("Most seconds per model.")
@task_options
@cluster_options
@result_options
def run(**flags: Any) -> int:
    """Ask a dataset's questions of one or many models and compare them.

    \b
    Examples:
      tiebreak run --model gemini-1.5-flash --dataset truthfulness
      tiebreak run --models gpt-4,claude-3-opus-20240229 --dataset truthfulness --parallel
      tiebreak run --all-models --dataset my_questions.jsonl --limit 50
      tiebreak run --model gpt-4o-mini --prompt plain= --prompt terse="Answer in one word." --dataset my.csv
      tiebreak run compare.yaml
      tiebreak run --resume run_20261115_203300

    Exit codes: 0 all models finished, 1 nothing usable, 2 partial, 3 a gate missed, 130 interrupted, 143 terminated.
    """  # noqa: D301 -- click needs the character, not the two letters
    if flags.pop("list_models"):
        from tiebreak.cli.listing import show_list

        return show_list("models", flags["config"])
    from tiebreak.cli.run import run_with
    from tiebreak.spec.flags import Flags

    return run_with(Flags(**flags))


@tiebreak.command(short_help="Have many models do the same coding tasks, and compare them.")
@click.argument("file", required=False, type=click.Path(path_type=Path), metavar="[RUN_FILE]")
@model_options
@list_models_option
@sample_options
@contestant_options
@setting_options
@pace_options("Most seconds per task (1800).")
@task_options
@cluster_options
@result_options
def batch(**flags: Any) -> int:
    """Have one or many models do the same coding tasks, each in a sandboxed workspace of its own, and compare them.

    \b
    Examples:
      tiebreak batch --task benchmark/tasks/easy/fix_typo.md
      tiebreak batch --task benchmark/tasks/easy --models "llama3,mistral" --timeout 600
      tiebreak batch --task "tasks/**/*.md" --models gpt-4,claude-3-opus --parallel --repeats 3
      tiebreak batch --resume batch_20261115_203300

    Exit codes: 0 every attempt ended, 1 nothing usable, 2 partial, 3 a gate missed, 130 interrupted, 143 terminated.
    """  # noqa: D301 -- click needs the character, not the two letters
    if flags.pop("list_models"):
        from tiebreak.cli.listing import show_list

        return show_list("models", flags["config"])
    from tiebreak.cli.run import run_with
    from tiebreak.spec.flags import Flags

    return run_with(Flags(door="batch", **flags))


@tiebreak.command(short_help="Go on from a step of an attempt with another model.")
@click.argument("attempt")
@click.option("--from", "steps", required=True, metavar="STEP[,STEP…]|all", help="Steps of its transcript to go on from.")
@click.option("--model", "model", multiple=True, required=True, metavar="NAME", help="Who goes on; may be given several times.")
@click.option("--repeats", type=click.IntRange(min=1), default=1, metavar="K", help="Attempts from each step (1).")
@click.option("--max-workers", type=click.IntRange(min=1), metavar="N", help="Contestants at once (1).")
@click.option("--max-cost", type=Number(min=0), metavar="USD", help="Most dollars.")
@click.option("--output", type=click.Path(path_type=Path), metavar="DIR", help="A new folder for the results.")
@click.option("--config", type=click.Path(path_type=Path), help="Another models_config.yaml.")
@click.option("--yes", is_flag=True, help="Do not ask before spending more than $1.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON lines.")
def replay(attempt: str, steps: str, **flags: Any) -> int:
    """Take an attempt at a coding task again up to a step, then have another model go on, and say which step decided.

    ATTEMPT is an attempt's folder below a run's `attempts`, or a run with one attempt. What the model said before the step
    is taken from the record, at no cost; its actions are done again in a new sandbox. Attempts of the agent `builtin` only.

    \b
    Examples:
      tiebreak replay batch_20261115_203300 --from 12 --model gpt-4o
      tiebreak replay results/batch_20261115_203300/attempts/gpt-4o-mini/fix_typo --from all --model gpt-4o

    Exit codes: those of `tiebreak batch`.
    """  # noqa: D301 -- click needs the character, not the two letters
    from tiebreak.cli.replay import replay_attempt

    return replay_attempt(attempt, steps, flags)


@tiebreak.command("check-tasks", short_help="Prove tasks: doing nothing and cheating fail, the solution passes.")
@click.argument("paths", nargs=-1, metavar="[PATH]...")
@click.option("--data", type=click.Path(path_type=Path), metavar="PATH", help="The copy of a public set named as PATH.")
@click.option("--max-workers", type=click.IntRange(min=1), metavar="N", help="So many attempts at once (one per processor).")
@click.option("--json", "as_json", is_flag=True, help="Print the result as JSON.")
@click.option("--allow-unsandboxed", is_flag=True, help="Run coding tasks even where there is no sandbox.")
def check_tasks(paths: tuple[str, ...], **flags: Any) -> int:
    """Prove coding tasks: doing nothing must fail, the solution must pass, and no cheat may.

    Without PATH, all tasks that come with the tool are proven.
    """
    from tiebreak.cli.check_tasks import How, prove

    return prove(paths, How(**flags))


@tiebreak.command("new-task", short_help="Make coding tasks from commits of your repository, and prove them.")
@click.option("--from-commit", multiple=True, metavar="SHA", help="Make a task of this commit; may be given several times.")
@click.option("--from-pr", multiple=True, metavar="BASE..HEAD", help="Make one task of all that a range of commits changed.")
@click.option(
    "--from-history",
    is_flag=False,
    flag_value="HEAD",
    default="",
    metavar="[REVISIONS]",
    help="Try commits from the newest on, until there are --limit tasks.",
)
@click.option("--repo", type=click.Path(path_type=Path, exists=True), default=".", metavar="DIR", help="The repository (.).")
@click.option("--output", type=click.Path(path_type=Path), default="tasks", metavar="DIR", help="Where tasks go (tasks).")
@click.option("--limit", type=click.IntRange(min=1), default=20, metavar="N", help="Most tasks of a history (20).")
@click.option("--python", default="", metavar="PATH", help="The interpreter of the environment that the tests need.")
@click.option("--pip", multiple=True, metavar="FILE|NAME==VERSION", help="Lock files or packages to be installed instead.")
@click.option("--timeout", type=Number(min=1), metavar="S", help="Most seconds for one run of the tests (while tried 300).")
@click.option("--memory", type=click.IntRange(min=64), default=2048, metavar="MB", help="Most memory of an attempt (2048).")
@click.option("--no-cheats", is_flag=True, help="Leave out the attacks on each task's check.")
def new_task(**flags: Any) -> int:
    """Make coding tasks from commits: the tests of a commit are the hidden check, its code is the solution.

    Each is proven: the tests fail before the commit, pass three times after it, and no cheat passes.

    \b
    Examples:
      tiebreak new-task --from-commit HEAD
      tiebreak new-task --from-pr main..feature --python .venv/bin/python
      tiebreak new-task --from-history --limit 20 --output mytasks

    Exit codes: 0 every task is proven, 1 no task was made, 2 a task was made that a cheat passes.
    """  # noqa: D301 -- click needs the character, not the two letters
    from tiebreak.cli.new_task import make

    return make(**flags)


@tiebreak.command("check-plugin", short_help="Prove a provider, scorer, dataset or agent of your own.")
@click.argument("kind", type=click.Choice(["provider", "scorer", "dataset", "agent"]))
@click.argument("name")
@click.option("--model", default="", metavar="NAME", help="For a provider: the model to call; else the first that it lists.")
@click.option("--dataset", default="", metavar="NAME", help="For a scorer: judge answers to samples of this dataset.")
def check_plugin(kind: str, name: str, model: str, dataset: str) -> int:
    """Prove that a plugin is what the engine expects, and print one line per finding.

    NAME is a registered name, module:name or ./file.py:name. A provider whose key is set, or that needs none, is
    called twice with a prompt of six words; its errors are provoked by a server on this machine.

    Exit codes: 0 nothing is wrong, 1 something is.
    """
    from tiebreak.cli.check_plugin import check_plugin as check

    return check(kind, name, model=model, dataset=dataset)


@tiebreak.command(short_help="See it work, with no key and no set-up.")
@click.option("--limit", type=click.IntRange(min=1), metavar="N", help="Ask fewer than the fifty questions.")
def demo(limit: int | None) -> int:
    """See it work: two ways of asking the embedded model fifty easy questions, beside chance. No key needed."""
    from tiebreak.cli.demo import show_demo

    return show_demo(limit)


@tiebreak.command(short_help="Put one prompt to several models, answers side by side.")
@click.argument("prompt")
@model_options
@setting_options
@click.option("--timeout", type=Number(min=0, min_open=True), default=120.0, show_default=True, metavar="S")
def ask(prompt: str, timeout: float, **flags: Any) -> int:
    """Put PROMPT to several models at once and show the answers side by side."""
    from tiebreak.cli.ask import ask_side_by_side

    return ask_side_by_side(prompt, timeout, flags)


@tiebreak.command("list", short_help="List models, datasets, scorers, providers, agents or runs.")
@click.argument("what", type=click.Choice(["models", "datasets", "scorers", "providers", "agents", "exporters", "runs"]))
@click.option("--config", type=click.Path(path_type=Path), help="Another models_config.yaml.")
@_RESULTS
def listing(what: str, config: Path | None, results: Path | None) -> int:
    """List what can be named: models, datasets, scorers, providers, agents, exporters or runs."""
    from tiebreak.cli.listing import show_list

    if results is not None and what != "runs":
        raise click.UsageError(f"--results says where runs are: it goes with `list runs`, not with {what}")
    return show_list(what, config, results)


@tiebreak.command("import", short_help="Import results of Inspect or lm-eval.")
@click.argument("paths", nargs=-1, required=True, type=click.Path(path_type=Path))
@click.option("--output", type=click.Path(path_type=Path), help="Folder for the run.")
def importing(paths: tuple[Path, ...], output: Path | None) -> int:
    """Read Inspect logs (.eval) and lm-eval samples (samples_*.jsonl), or folders of them, as runs.

    Scores are kept as they were recorded. Logs of one task become one run, its models side by side.
    """
    from tiebreak.cli.importing import import_logs

    return import_logs(paths, output)


@tiebreak.command(short_help="Make one run of its shards, or of runs that asked the same.")
@click.argument("into", metavar="OUT", type=click.Path(path_type=Path))
@click.argument("parts", nargs=-1, required=True, metavar="PART...")
def merge(into: Path, parts: tuple[str, ...]) -> int:
    """Make one run, in the new folder OUT, of shards (`run --shard I/N`), or of whole runs with other contestants.

    What a missing shard leaves out is named, and `run --resume OUT` asks it.
    Exit codes: 0 all is there, 1 the parts do not belong together, 2 something is missing.
    """
    from tiebreak.cli.merge import merge_runs

    return merge_runs(into, parts)


@tiebreak.command(short_help="Look a dataset over before it is asked, or a run's samples after.")
@click.argument("dataset", metavar="DATASET|RUN")
@click.option("--data", type=click.Path(path_type=Path), metavar="PATH", help="A local copy of a registered dataset.")
@click.option("--field", multiple=True, metavar="COLUMN=FIELD", help="A column of your file and the field it holds.")
def audit(dataset: str, data: Path | None, field: tuple[str, ...]) -> int:
    """Look DATASET over: duplicates, answers that give themselves away, and what guessing would score.

    Of a finished RUN: samples that everyone or nobody has right, and those that only weaker contestants have right.

    Exit codes: 0 nothing was found, 1 it cannot be read, 3 something was found.
    """
    from tiebreak.cli.audit import show_audit
    from tiebreak.spec.flags import SampleFlags

    return show_audit(dataset, SampleFlags(data=data, field=field).source)


without_answers = click.option(
    "--without-answers", is_flag=True, help="Leave out what was asked and answered: scores, times and costs alone."
)


@tiebreak.command(short_help="Rewrite a run's files from its store, and show the result.")
@click.argument("runs", nargs=-1, metavar="[RUN]...")
@click.option("--no-csv", is_flag=True, help="Write no CSV.")
@click.option("--markdown", is_flag=True, help="The result as Markdown on standard output.")
@click.option("--json", "as_json", is_flag=True, help="The summary as JSON on standard output.")
@click.option("--output", type=click.Path(path_type=Path), metavar="FOLDER", help="Write the files into a new folder instead.")
@without_answers
def report(
    runs: tuple[str, ...], *, no_csv: bool, markdown: bool, as_json: bool, output: Path | None, without_answers: bool
) -> int:
    """Rewrite every file of RUN from its store, and show the result; without RUN, of the last one."""
    from tiebreak.cli.report import report_runs

    return report_runs(runs, csv=not no_csv, markdown=markdown, as_json=as_json, output=output, answers=not without_answers)


@tiebreak.command(short_help="Say what changed between two runs, sample by sample.")
@click.argument("before")
@click.argument("after")
@changed_option
@click.option("--force", is_flag=True, help="Also when they were not made alike; the result is marked.")
@click.option("--as-one", is_flag=True, help="Both runs as one comparison of everyone they asked, by the same protocol.")
@click.option("--json", "as_json", is_flag=True, help="The changes as JSON on standard output.")
def compare(before: str, after: str, *, changed: tuple[str, ...], force: bool, as_one: bool, as_json: bool) -> int:
    """Say what was fixed and what was broken between BEFORE and AFTER, and whether that is more than luck.

    Each is a run, by id or path, or a baseline file. --as-one compares the contestants of both with each other instead.
    """
    if as_one:
        if changed or force:
            raise click.UsageError("--as-one compares what was asked alike: leave out --changed and --force")
        from tiebreak.cli.merge import compare_as_one

        return compare_as_one((before, after), as_json=as_json)
    from tiebreak.cli.compare import compare_runs

    return compare_runs(before, after, changed=changed, force=force, as_json=as_json)


@tiebreak.command(short_help="Show a contestant's scores over its runs, and whether it has changed.")
@click.argument("name", metavar="MODEL|CONTESTANT")
@_RESULTS
@click.option("--json", "as_json", is_flag=True, help="The history as JSON on standard output.")
def history(name: str, results: Path | None, as_json: bool) -> int:
    """Show how MODEL or CONTESTANT scored in every run of the same questions, and from which run on it answers differently.

    The test may be repeated after every run: the chance that a history ever gives a first false alarm is at most 5 %.
    Exit codes: 0 no change is shown by the last run, 1 there is no such run, 3 the last run shows a change.
    """
    from tiebreak.cli.history import show_history

    return show_history(name, results, as_json=as_json)


@tiebreak.command(short_help="Score a run's answers again; contestants are asked nothing.")
@click.argument("run")
@click.option("--scorer", metavar="NAME", help="The scorer that judges from now on; else the dataset's own.")
@click.option("--judge", multiple=True, metavar="MODEL", help="Have this model judge the answers; several judges may be named.")
@click.option(
    "--human",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="People's verdicts, as CSV or JSON lines, to correct the judge by.",
)
@click.option("--force", is_flag=True, help="Let a contestant, or another model of its provider, be the judge.")
@click.option(
    "--max-cost",
    type=Number(min=0, min_open=True),
    metavar="USD",
    help="Most dollars of the whole run, what it has spent included.",
)
@click.option("--yes", is_flag=True, help="Judge even if that is expected to cost more than $1.")
def score(run: str, scorer: str | None, **wanted: Any) -> int:
    """Score the answers of RUN again and rewrite its files. Contestants are asked nothing; earlier scores are kept.

    With a judge, the answers that it has not judged yet are judged; another judge than before judges all of them.
    --scorer pairwise has the judge compare the answers of contestants two at a time; the ranking by scores stays.
    """
    from tiebreak.cli.score import score_run

    return score_run(run, scorer, **wanted)


@tiebreak.command(short_help="Write a run as JUnit XML, Markdown, Parquet or a baseline.")
@click.argument("run")
@click.option("--to", "form", metavar="FORM", required=True, help="junit, markdown, parquet, baseline, or your own exporter.")
@click.option(
    "--output", type=click.Path(path_type=Path), metavar="FILE", help="Where to, - for standard output; else in the run's folder."
)
@without_answers
def export(run: str, form: str, output: Path | None, *, without_answers: bool) -> int:
    """Write RUN in a form other programs read.

    junit: a test case per trial, for CI. markdown: for a pull request or GITHUB_STEP_SUMMARY.
    parquet: every trial, for data frames. baseline: a small file to commit, for --baseline.
    ./file.py:name: your own function of the run's folder and the file to write.
    """
    from tiebreak.cli.report import export_run

    return export_run(run, form, output, answers=not without_answers)


@tiebreak.command(short_help="Give a run a label, shown in lists.")
@click.argument("run")
@click.argument("text")
@_RESULTS
def label(run: str, text: str, results: Path | None) -> int:
    """Call RUN by TEXT in the viewer and in `list runs`; an empty TEXT takes the label away. Nothing else changes."""
    from tiebreak.cli.listing import label_run

    return label_run(run, text, results)


@tiebreak.command(short_help="Show what all runs together cost, by month and model.")
@_RESULTS
@click.option("--json", "as_json", is_flag=True, help="The ledger as JSON on standard output.")
def spent(results: Path | None, as_json: bool) -> int:
    """Show what the runs spent, by month and model, judges included. An answer that is in several runs counts once."""
    from tiebreak.cli.spent import show_spending

    return show_spending(results, as_json=as_json)


@tiebreak.command(short_help="Remove old runs, after a look at the list.")
@_RESULTS
@click.option("--keep", type=click.IntRange(0), metavar="N", help="The last N runs stay.")
@click.option("--older-than", metavar="AGE", help="Only what is older: 12h, 30d, 8w.")
@click.option("--dry-run", is_flag=True, help="List what would be removed, and remove nothing.")
@click.option("--yes", is_flag=True, help="Remove without asking.")
def prune(results: Path | None, keep: int | None, older_than: str | None, dry_run: bool, yes: bool) -> int:
    """Remove old runs. What is running, has a label, waits for batches or shares its folder with other files stays.

    Exit codes: 0 all of them are removed or there are none, 1 nothing was removed, 2 some could not be.
    """
    from tiebreak.cli.prune import prune_runs

    return prune_runs(results, keep=keep, older_than=older_than, dry_run=dry_run, agreed=yes)


@tiebreak.command("open", short_help="Open the last report in a browser.")
@click.argument("run", required=False)
def open_(run: str | None) -> int:
    """Open the report of RUN, or of the last run, in a browser; say where it is where there is none."""
    from tiebreak.cli.report import open_report

    return open_report(run)


@tiebreak.command(short_help="Watch runs in a browser, also while they go.")
@click.argument("run", required=False)
@click.option("--port", type=click.IntRange(0, 65535), default=0, metavar="N", help="Listen here; else on any free port.")
@click.option("--no-browser", is_flag=True, help="Only print the address.")
def view(run: str | None, port: int, no_browser: bool) -> int:
    """Show RUN, or all runs, in a browser: progress, tiers and charts as they change, and every sample.

    For this machine alone: the printed address holds a key. It changes no result. Ctrl-C ends it.
    """
    from tiebreak.cli.report import view_runs

    return view_runs(run, port=port, browser=not no_browser)


@tiebreak.command(short_help="Vote on a run's answers in a browser, without knowing whose they are.")
@click.argument("run")
@click.option("--person", metavar="NAME", help="Who votes; else the name of your account.")
@click.option("--port", type=click.IntRange(0, 65535), default=0, metavar="N", help="Listen here; else on any free port.")
@click.option("--no-browser", is_flag=True, help="Only print the address.")
def vote(run: str, person: str | None, port: int, no_browser: bool) -> int:
    """Show answers of RUN side by side, without names, and keep which are better; or one at a time, whether it is right.

    For this machine alone: the printed address holds a key. Every vote is on disk before it is confirmed. Ctrl-C ends it.
    """
    from tiebreak.cli.report import view_runs, voter_name

    return view_runs(run, port=port, browser=not no_browser, voter=voter_name(person))


@tiebreak.command(short_help="Say what is installed, what is missing and how to fix it.")
@click.option("--on", type=click.Choice(["ray"]), help="Of every node of the Ray cluster instead of this machine.")
def doctor(on: str | None) -> int:
    """Say what is installed, which keys are set, whether Ollama is up, what is missing and how to fix it."""
    if on:
        from tiebreak.cli.cluster import show_machines

        return show_machines()
    from tiebreak.cli.doctor import show_findings

    return show_findings()


@tiebreak.command(short_help="Print a script that completes commands and flags in your shell.")
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
def completion(shell: str) -> int:
    """Print the completion script of SHELL. Write it to where the shell looks for such scripts.

    \b
    Examples:
      tiebreak completion bash > ~/.local/share/bash-completion/completions/tiebreak
      tiebreak completion zsh > ~/.zfunc/_tiebreak
      tiebreak completion fish > ~/.config/fish/completions/tiebreak.fish
    """  # noqa: D301 -- click needs the character, not the two letters
    from click.shell_completion import get_completion_class

    script = get_completion_class(shell)
    assert script is not None, "one of the three that click knows"
    echo(script(tiebreak, {}, "tiebreak", _COMPLETION_VARIABLE).source())
    return 0


def _refuse_other_encodings(given: Sequence[str]) -> None:
    """Bytes that are no UTF-8 arrive as halves of characters, which no file of ours can hold."""
    try:
        here = str(Path.cwd())
    except OSError:
        here = ""
    for word in (*given, here):
        if any("\ud800" <= letter <= "\udfff" for letter in word):
            raise UsageError(f"{os.fsencode(word)!r:.80} is not UTF-8: no result could tell of it; rename it")


def run_command_line(arguments: Sequence[str] | None = None, *, default_command: str | None = None) -> int:
    """Run a command line. Bad input ends in a sentence and exit code 1, never in a traceback."""
    given = list(sys.argv[1:] if arguments is None else arguments)
    named = bool(given) and (given[0] in tiebreak.commands or given[0] == "--version")
    implied = None if named else default_command
    if implied:
        given.insert(0, implied)
    if Path(".env").is_file():
        from tiebreak.config import read_env_file

        read_env_file()
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")  # A terminal without a character shows another one.
    if logging.lastResort is not None:
        logging.lastResort.setFormatter(HarmlessFormatter())
    program = name_in_help()
    try:
        _refuse_other_encodings(given)
        result = tiebreak.main(given, prog_name=program, complete_var=_COMPLETION_VARIABLE, standalone_mode=False, obj=implied)
    except click.UsageError as error:
        command = error.ctx.command_path.removeprefix(program) if error.ctx else ""
        _complain(f"{' '.join(error.format_message().split())}\nsee: {invoked_as()}{command} --help")
        return exits.FAILED
    except (click.Abort, KeyboardInterrupt):
        _complain("interrupted")
        return exits.INTERRUPTED
    except BenchmarkError as error:
        _complain(with_help(error, given[0] if given else ""))
        return exits.FAILED
    except BrokenPipeError:
        # Whoever read our output has left (as `| head` does): nobody is there to be told.
        _silence()
        return exits.FAILED
    except OSError as error:
        _complain(_in_words(error))
        _silence()
        return exits.FAILED
    except (RuntimeError, MemoryError) as error:
        if not (reason := exhausted(error)):
            raise
        _complain(f"{reason}. {_kept()}")
        return exits.FAILED
    return _flushed(result if isinstance(result, int) else 0)


def _flushed(code: int) -> int:
    """The exit code, once everything we said is out; what cannot be said is an error too."""
    try:
        for stream in (sys.stdout, sys.stderr):
            if stream is not None:
                stream.flush()
    except BrokenPipeError:
        _silence()
    except OSError as error:
        _complain(f"standard output cannot be written: {error.strerror}")
        _silence()
        return code or exits.FAILED
    return code


def _silence() -> None:
    """Send what is left of our output nowhere: the interpreter would complain of it once more at its end."""
    with contextlib.suppress(OSError, ValueError, AttributeError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _in_words(error: OSError) -> str:
    """An error of the system's for a person: what happened, to which file, and that nothing is lost."""
    where = f" ({error.filename})" if error.filename else ""
    told, kept = f"{exhausted(error) or error.strerror or error}{where}", _kept()
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        return f"{told}; free some space. {kept}"
    if error.errno in (errno.EACCES, errno.EPERM, errno.EROFS):
        return f"{told}; choose another folder with --output"
    return f"{told}. {kept}"


def _kept() -> str:
    return f"What was reported is kept; go on with: {invoked_as()} run --resume RUN"


def _complain(message: str) -> None:
    with contextlib.suppress(OSError):
        echo(f"error: {message}", err=True)
