"""How the questions are read, put and judged: from flags to what a run is told."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from pathlib import Path

from benchmark.config import Config, read_mapping
from benchmark.core.errors import UsageError
from benchmark.core.model import ModelRef
from benchmark.core.run import Prompting, Protocol, RunSpec, Source
from benchmark.prices import with_price
from benchmark.registry import check_key, provider_class


@dataclass(frozen=True, slots=True, kw_only=True)
class Asking:
    """The flags about the questions."""

    data: Path | None = None
    field: tuple[str, ...] = ()
    map: Path | None = None
    shots: int | None = None
    likelihood: bool = False
    sample_id: tuple[str, ...] = ()
    sample_category: tuple[str, ...] = ()
    system: str | None = None
    template: str | None = None
    cot: bool = False
    stop: tuple[str, ...] = ()
    scorer: tuple[str, ...] = ()
    judge: str | None = None
    force: bool = False

    @property
    def source(self) -> Source:
        """Where the rows are and how they are read."""
        return Source(
            path=str(self.data.expanduser().resolve()) if self.data else "",
            fields=self._fields(),
            shots=self.shots,
            likelihood=self.likelihood,
            ids=tuple(_listed(self.sample_id, "--sample-id")),
            categories=tuple(_listed(self.sample_category, "--sample-category")),
        )

    def _fields(self) -> Mapping[str, str]:
        fields = dict(read_mapping(self.map)) if self.map else {}
        for pair in self.field:
            theirs, equals, ours = pair.partition("=")
            if not equals or not theirs.strip() or not ours.strip():
                raise UsageError(f"--field {pair}: write COLUMN=FIELD, as in --field question=input --field answer=target")
            fields[theirs.strip()] = ours.strip()
        return fields

    @property
    def prompting(self) -> Prompting:
        """The words around a question."""
        stops = tuple(stop.encode().decode("unicode_escape") if "\\" in stop else stop for stop in self.stop)
        return Prompting(system=_text(self.system), template=_text(self.template), cot=self.cot, stop=stops)

    def refuse_other_than(self, protocol: Protocol) -> None:
        """Raise when a run that goes on is told to ask, or to judge, otherwise than it did; saying the same again is fine."""
        told = {"source": self.source, "prompting": self.prompting, "scorer": self.scorer, "judge": self.judge}
        plain = {"source": Source(), "prompting": Prompting(), "scorer": (), "judge": None}
        judge = protocol.judge.label if protocol.judge else None
        made = {"source": protocol.source, "prompting": protocol.prompting, "scorer": protocol.chosen_scorers, "judge": judge}
        if any(told[name] not in (plain[name], made[name]) for name in told):
            given = [f"--{f.name.replace('_', '-')}" for f in fields(Asking) if getattr(self, f.name) != f.default]
            raise UsageError(f"a run goes on as it was begun: leave out {', '.join(given)}, or start a new run")


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


def _text(given: str | None) -> str:
    """What was typed, or what the file of that name holds."""
    if not given:
        return ""
    path = Path(given).expanduser()
    try:
        # Of a text that could be no file's name, Path.is_file() would raise.
        return path.read_text(encoding="utf-8").rstrip("\n") if os.path.isfile(path) else given  # noqa: PTH113
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"{given}: cannot be read: {error}") from None


def check_likelihood(models: Sequence[ModelRef]) -> None:
    """Raise when a model cannot say how likely a text is."""
    unable = [model.label for model in models if not hasattr(provider_class(model.provider), "likelihood")]
    if unable:
        raise UsageError(
            f"--likelihood: {', '.join(unable)} cannot tell how likely a text is; without it the letter is asked for"
        )


def with_judge(spec: RunSpec, asking: Asking, config: Config) -> RunSpec:
    """The run with the model that judges it; a judge with a stake in the result is refused."""
    if asking.judge is None:
        return spec
    judge = with_price(config.catalog(detect=False).resolve(asking.judge))
    check_key(judge)
    for model in spec.models:
        if asking.force or model.reference:
            continue
        if model.digest == judge.digest or (model.name, model.house) == (judge.name, judge.house):
            raise UsageError(f"{judge.label} would judge itself; name another judge, or say --force")
        if model.house == judge.house and not model.local and judge.provider not in ("openai-api", "scripted"):
            raise UsageError(
                f"{judge.label} would judge {model.label}, a model of the same provider; judges favour their own. "
                "Name a judge of another provider, or say --force"
            )
    return replace(spec, judge=judge)
