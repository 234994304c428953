"""Everything that can be asked of a run as one record, and what each group of its flags says."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any, TypeVar

from tiebreak.config import BatchSettings, read_mapping
from tiebreak.contestants import Entry, named_prompt, text_or_file, written_out
from tiebreak.core.contestant import AgentRef, Prompting
from tiebreak.core.errors import UsageError
from tiebreak.core.model import ModelRef
from tiebreak.core.run import Pace, Protocol, RetryPolicy, Source, TaskRules
from tiebreak.registry import agent_ref
from tiebreak.runfile import read_run_file

_PARALLEL = 4
_SETTING = re.compile(r"[A-Za-z_]+=[^/@]*")
_Record = TypeVar("_Record", TaskRules, Pace)
_FREE_OF_TARGETS, _PAIRWISE = "judge:", "judge:pairwise"
"""How the scorers begin that ask a model a question about an answer, and the one that compares it with the target."""


_CHEAPEST = "cheapest"
_ALL_POINTS = 100


@dataclass(frozen=True, kw_only=True)
class ModelFlags:
    """The flags that name models."""

    model: tuple[str, ...] = ()
    models: str | None = None
    refs: tuple[ModelRef, ...] = ()
    """Models that a program made itself: what their labels among the names stand for."""
    all_models: bool = False
    category: str | None = None
    provider: str | None = None
    config: Path | None = None
    temperature: float | None = None
    max_tokens: int | None = None
    reasoning_effort: str | None = None
    seed: int | None = None
    replay: Path | None = None
    """Answers come from a recording: no key is needed."""
    quiet: bool = False
    on: str | None = None
    """Who asks them: a cluster's machines, which may have keys of their own; None: this machine."""

    @property
    def names_models(self) -> bool:
        """Whether any model was named."""
        return bool(self.model or self.models or self.all_models or self.category or self.provider)

    @property
    def settings(self) -> dict[str, Any]:
        """The flags that are sent to models."""
        names = ("temperature", "max_tokens", "reasoning_effort", "seed")
        return {name: getattr(self, name) for name in names}


@dataclass(frozen=True, kw_only=True)
class SampleFlags:
    """The flags that say which samples are read, and how."""

    dataset: str | None = None
    task: tuple[str, ...] = ()
    workspace: Path | None = None
    sandbox: str | None = None
    data: Path | None = None
    field: tuple[str, ...] = ()
    map: Path | None = None
    encoding: str | None = None
    shots: int | None = None
    likelihood: bool = False
    sample_id: tuple[str, ...] = ()
    sample_category: tuple[str, ...] = ()

    @property
    def source(self) -> Source:
        """Where the rows are and how they are read."""
        return Source(
            path=_absolute(self.data),
            workspace=_absolute(self.workspace),
            sandbox=self.sandbox or "",
            fields=self._fields(),
            encoding=self.encoding or "",
            shots=self.shots,
            likelihood=self.likelihood,
            ids=tuple(_listed(self.sample_id, "--sample-id")),
            categories=tuple(_listed(self.sample_category, "--sample-category")),
        )

    def _fields(self) -> Mapping[str, str]:
        columns = dict(read_mapping(self.map)) if self.map else {}
        for pair in self.field:
            theirs, equals, ours = pair.partition("=")
            if not equals or not theirs.strip() or not ours.strip():
                raise UsageError(f"--field {pair}: write COLUMN=FIELD, as in --field question=input --field answer=target")
            columns[theirs.strip()] = ours.strip()
        return columns


@dataclass(frozen=True, kw_only=True)
class Flags(ModelFlags, SampleFlags):
    """Everything `tiebreak run` and `tiebreak batch` take; they differ in defaults and words only."""

    door: str = "run"
    """run or batch."""
    # how questions are put, who works, who judges
    prompt: tuple[str, ...] = ()
    contestant: tuple[str, ...] = ()
    system: str | None = None
    template: str | None = None
    cot: bool = False
    stop: tuple[str, ...] = ()
    agent: tuple[str, ...] = ()
    scorer: tuple[str, ...] = ()
    judge: tuple[str, ...] = ()
    force: bool = False
    limit: int | None = None
    repeats: int | None = None
    shard: str | None = None
    until: str | None = None
    margin: float | None = None
    choose_on: str | None = None
    # what only a run file says
    file: Path | None = None
    prompts: tuple[Prompting, ...] = ()
    entries: tuple[Entry, ...] = ()
    variants: tuple[Mapping[str, Any], ...] = ({},)
    exclude: tuple[Mapping[str, str], ...] = ()
    task_timeout: float | None = None
    # coding tasks
    follow_ups: int | None = None
    max_model_calls: int | None = None
    attended: bool = False
    ask_permissions: str | None = None
    allow_unsandboxed: bool = False
    # pace
    parallel: bool = False
    max_workers: int | None = None
    max_connections: int | None = None
    rpm: int | None = None
    tpm: int | None = None
    timeout: float | None = None
    request_timeout: float | None = None
    max_cost: float | None = None
    max_total_tokens: int | None = None
    max_time: float | None = None
    stream: bool = False
    batch: bool = False
    detach: bool = False
    poll: float | None = None
    timing: int | None = None
    record: Path | None = None
    cache: Path | None = None
    use_engine: bool = False
    # on which machines
    nodes_need: tuple[str, ...] = ()
    per_node: int | None = None
    send_keys: bool = False
    # what becomes of it
    output: Path | None = None
    resume: str | None = None
    retry_failed: bool = False
    allow_failures: float = 0.0
    fail_under: float | None = None
    baseline: str | None = None
    changed: tuple[str, ...] = ()
    save: Path | None = None
    no_preflight: bool = False
    strict: bool = False
    dry_run: bool = False
    yes: bool = False
    no_csv: bool = False
    as_json: bool = False
    markdown: bool = False
    verbose: bool = False

    @property
    def prompting(self) -> Prompting:
        """The words around a question."""
        stops = tuple(stop.encode().decode("unicode_escape") if "\\" in stop else stop for stop in self.stop)
        return Prompting(system=text_or_file(self.system), template=text_or_file(self.template), cot=self.cot, stop=stops)

    @property
    def competing_prompts(self) -> tuple[Prompting, ...]:
        """The prompts that compete, each with what --system, --template, --cot and --stop add to all of them."""
        named = [*self.prompts, *(named_prompt(text) for text in self.prompt)]
        names = [prompt.name for prompt in named]
        twice = next((name for name in names if names.count(name) > 1), None)
        if twice is not None:
            raise UsageError(f"two prompts are called {twice!r}; give each a name of its own")
        return tuple(_combined(self.prompting, prompt) for prompt in named) or (self.prompting,)

    @property
    def written_out(self) -> tuple[Entry, ...]:
        """The contestants that are written out, in a run file or on the command line."""
        return (*self.entries, *(written_out(text) for text in self.contestant))

    @property
    def source(self) -> Source:
        """Where the rows are and how they are read; what is judged by questions alone needs no target."""
        free = bool(self.scorer) and all(name.startswith(_FREE_OF_TARGETS) for name in self.scorer)
        return replace(super().source, without_target=free and _PAIRWISE not in self.scorer)

    @property
    def names_contestants(self) -> bool:
        """Whether anything was said about who competes."""
        return self.names_models or bool(self.agent or self.prompt or self.contestant or self.file)

    def with_file(self) -> Flags:
        """The flags with what the run file says; what the command line says comes first."""
        if self.file is None:
            return self
        said = read_run_file(self.file)
        folder = self.file.parent
        for name, value in self.settings.items():
            if value is not None and any(name in settings for settings in said.settings):
                flag = f"--{name.replace('_', '-')}"
                raise UsageError(f"{flag} and the settings of {self.file} both say the {name}: leave one of them out")
        defaults = {field.name: field.default for field in fields(self)}
        plain = {name: value for name, value in said.flags(folder).items() if getattr(self, name) == defaults[name]}
        return replace(
            self,
            **{name: value for name, value in plain.items() if value is not None},
            prompts=tuple(said.named_prompts(folder)),
            entries=tuple(said.entries(self.file)),
            variants=said.settings or ({},),
            exclude=said.exclude,
        )

    @property
    def agents(self) -> tuple[AgentRef, ...]:
        """The agents that were named, each once; else the one this command is about."""
        if self.likelihood:
            return (AgentRef(name="likelihood"),)
        named = [name for text in self.agent for name in split_models(text)]
        return tuple(agent_ref(name) for name in dict.fromkeys(named or ["builtin" if self.door == "batch" else "direct"]))

    def completed(self, settings: BatchSettings) -> Flags:
        """The flags with what was left out: for a batch all models, and the configuration's defaults."""
        everything = self.models is not None and self.models.strip().lower() == "all"
        if self.attended and self.parallel:
            raise UsageError("--attended and --parallel exclude each other: a person answers one model at a time")
        self._refuse_without_cluster()
        if self.ask_permissions == "person" and not self.attended:
            raise UsageError("--ask-permissions person needs --attended: somebody must be at this terminal to answer")
        idle = "--detach" if self.detach else "--poll" if self.poll is not None else ""
        if idle and not (self.batch or self.resume):
            raise UsageError(f"{idle} goes with --batch")
        if self.door != "batch":
            return replace(self, all_models=True, models=None) if everything else self
        named = (self.names_models and not everything) or self.written_out or self.resume
        return replace(
            self,
            all_models=self.all_models or not named,
            models=None if everything else self.models,
            timeout=self.timeout or (None if self.resume else settings.default_timeout),
            max_workers=self.max_workers or (settings.max_parallel if self.parallel else None),
            verbose=self.verbose or settings.verbose,
            quiet=self.quiet or not settings.show_progress,
        )

    def _refuse_without_cluster(self) -> None:
        """Flags that say something about a cluster where none is used, or that need a person at this machine."""
        given = {"--nodes-need": self.nodes_need, "--per-node": self.per_node, "--send-keys": self.send_keys}
        idle = next((flag for flag, value in given.items() if value), None)
        if idle and self.on is None:
            raise UsageError(f"{idle} goes with --on ray: it says how a cluster is used")
        if self.on is not None and self.attended:
            raise UsageError("--attended and --on exclude each other: a person can help on this machine only")

    def task_rules(self, before: TaskRules) -> TaskRules:
        """The rules for coding tasks, where the flags change them."""
        seconds = self.task_timeout or (self.timeout if self.door == "batch" else None)
        return _changed(
            before,
            timeout_s=seconds,
            timeout_asked=seconds is not None or None,
            max_model_calls=self.max_model_calls,
            calls_asked=self.max_model_calls is not None or None,
            follow_ups=self.follow_ups,
            ask_permissions=self.ask_permissions,
            allow_unsandboxed=self.allow_unsandboxed or None,
        )

    @property
    def race(self) -> str | None:
        """What `--until` and `--margin` say together; None where they say nothing."""
        if self.margin is not None and self.until != _CHEAPEST:
            raise UsageError(f"--margin {self.margin:g} goes with --until {_CHEAPEST}")
        if self.margin is not None and not 0 < self.margin < _ALL_POINTS:
            raise UsageError(f"--margin {self.margin:g}: it is a number of points, above 0 and below {_ALL_POINTS}")
        return self.until if self.margin is None else f"{_CHEAPEST}:{self.margin:g}"

    def pace(self, before: Pace, settings: BatchSettings) -> Pace:
        """The pace and the limits, where the flags change them: what is not said stays as it was."""
        retry = None
        if self.door == "batch":
            retry = RetryPolicy(max_attempts=1 + settings.max_retries if settings.retry_on_failure else 1)
        return _changed(
            before,
            max_workers=self.max_workers or (_PARALLEL if self.parallel else None),
            max_connections=self.max_connections,
            timeout_s=self.timeout if self.door == "run" else None,
            request_timeout_s=self.request_timeout,
            max_cost_usd=self.max_cost,
            max_total_tokens=self.max_total_tokens,
            max_time_s=self.max_time,
            stream=self.stream or None,
            batch=self.batch or None,
            poll_s=self.poll,
            timed_samples=self.timing,
            record_dir=_absolute(self.record) or None,
            replay_dir=_absolute(self.replay) or None,
            cache_dir=_absolute(self.cache) or None,
            retry=retry,
        )

    def refuse_other_than(self, protocol: Protocol, prompting: Sequence[Prompting]) -> None:
        """Raise when a run that goes on is told to ask, or to judge, otherwise than it did; the same again is fine."""
        judges = tuple(judge.label for judge in protocol.judges)
        given = {
            "source": (super().source, (Source(), replace(protocol.source, without_target=False))),
            "prompting": (self.prompting, (Prompting(), *(replace(known, name="") for known in prompting))),
            "scorer": (self.scorer, ((), protocol.chosen_scorers)),
            "judge": (self.judge, ((), judges)),
            "seed": (self.seed, (None, protocol.seed)),
            "repeats": (self.repeats, (None, protocol.repeats)),
        }
        other = any(value not in allowed for value, allowed in given.values())
        if other or (not self.names_contestants and any(value is not None for value in self._sent())) or self._other_folder:
            raise UsageError(f"a run goes on as it was begun: leave out {', '.join(self._asking())}, or start a new run")

    def _sent(self) -> list[Any]:
        """Settings that were given; the seed also seeds the order of choices, and is looked at by itself."""
        return [value for name, value in self.settings.items() if name != "seed"]

    @property
    def _other_folder(self) -> bool:
        """Whether results are to go elsewhere than they did; a CSV file may be anywhere."""
        return self.output is not None and self.output.suffix.lower() != ".csv"

    def _asking(self) -> list[str]:
        """The flags that were given and change what is asked or how it is judged."""
        names = [field.name for field in fields(SampleFlags)]
        names += ["system", "template", "cot", "stop", "scorer", "judge", "seed", "repeats"]
        names += ["temperature", "max_tokens", "reasoning_effort", *(["output"] if self._other_folder else [])]
        defaults = {field.name: field.default for field in fields(self)}
        return [f"--{name.replace('_', '-')}" for name in names if getattr(self, name) != defaults[name]]


def split_models(text: str) -> list[str]:
    """Names in a comma-separated list; commas inside a variant (`name@a=1,b=2`) do not separate."""
    found: list[str] = []
    for piece in filter(None, (part.strip() for part in text.split(","))):
        if found and "@" in found[-1] and _SETTING.fullmatch(piece):
            found[-1] += f",{piece}"
        else:
            found.append(piece)
    return found


def _combined(base: Prompting, prompt: Prompting) -> Prompting:
    """A named prompt with what is said to all of them; nothing is silently said twice."""
    for part in ("system", "template"):
        if getattr(base, part) and getattr(prompt, part):
            raise UsageError(f"--{part} and the prompt {prompt.name!r} both set the {part}: leave one of them out")
    return replace(
        prompt,
        system=prompt.system or base.system,
        template=prompt.template or base.template,
        cot=prompt.cot or base.cot,
        stop=(*prompt.stop, *base.stop),
    )


def _changed(record: _Record, **changes: Any) -> _Record:
    """A record with the changes that were asked for."""
    return replace(record, **{name: value for name, value in changes.items() if value is not None})


def _absolute(path: Path | None) -> str:
    """A path that means the same from any folder; empty for none."""
    return str(path.expanduser().resolve()) if path else ""


def _listed(given: Sequence[str], flag: str) -> Iterator[str]:
    """What was named: separated by commas, or on the lines of a file behind an @."""
    for text in given:
        if not text.startswith("@"):
            yield from filter(None, (part.strip() for part in text.split(",")))
            continue
        try:
            lines = Path(text[1:]).expanduser().read_text(encoding="utf-8").splitlines()
        except (OSError, UnicodeDecodeError) as error:
            raise UsageError(f"{flag} {text}: cannot be read: {getattr(error, 'strerror', None) or error}") from None
        yield from filter(None, map(str.strip, lines))
