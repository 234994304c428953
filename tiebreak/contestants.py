"""Who competes: models × prompts × settings × agents, with combinations left out and others added."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import product
from pathlib import Path
from typing import Any

from tiebreak.core.contestant import DIRECT, FACTORS, PLAIN, AgentRef, Contestant, Prompting, listed_settings
from tiebreak.core.errors import UsageError
from tiebreak.core.model import ModelRef
from tiebreak.registry import SETTINGS, agent_ref, did_you_mean, parse_settings

_PARTS = re.compile(r'\s*(?P<key>[A-Za-z_]+)\s*=\s*(?:"(?P<quoted>[^"]*)"|(?P<plain>[^,]*))\s*(?:,|$)')
_PROMPT_KEYS = ("system", "template", "cot", "stop")
_YES_OR_NO = {"true": True, "yes": True, "false": False, "no": False}
_LONGEST_NAME = 80
_LIKE_A_FILE = re.compile(r"\S+\.(?:txt|md|prompt|tmpl|jinja2?|j2|ya?ml|json)|\.{0,2}/\S*|\S+/\S*\.\S+")
"""What nobody would say to a model: a file's name."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """One contestant that was written out: a model, and what else is to be said of it."""

    model: str
    label: str = ""
    prompt: str = ""
    """The name of a prompt that is defined elsewhere."""
    prompting: Prompting = PLAIN
    agent: str = ""
    settings: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class LineUp:
    """What contestants are made of: every combination, less those excluded, and those written out."""

    models: Sequence[ModelRef] = ()
    prompts: Sequence[Prompting] = (PLAIN,)
    settings: Sequence[Mapping[str, Any]] = ({},)
    agents: Sequence[AgentRef] = (DIRECT,)
    exclude: Sequence[Mapping[str, str]] = ()
    include: Sequence[tuple[Entry, ModelRef]] = ()

    def contestants(self) -> tuple[Contestant, ...]:
        """All of them, each under a name of its own."""
        asked = [model for model in self.models if not model.reference]
        variants = [with_variant(model, settings) for model, settings in product(asked, self.settings)]
        # A baseline reads no prompt and takes no settings: once is enough.
        baselines = [model for model in self.models if model.reference]
        crossed = (*cross(variants, self.prompts, self.agents), *cross(baselines, self.prompts[:1], self.agents))
        for pattern in self.exclude:
            crossed = _without(crossed, pattern)
        contestants = (*crossed, *_same_words_one_name([self._written_out(*written) for written in self.include]))
        if not contestants:
            raise UsageError("nobody is left to compare: `exclude` leaves out every contestant")
        return contestants

    def _written_out(self, entry: Entry, model: ModelRef) -> Contestant:
        prompting = entry.prompting
        if entry.prompt:
            named = {prompt.name: prompt for prompt in self.prompts}
            if entry.prompt not in named:
                raise UsageError(f"there is no prompt {entry.prompt!r}{did_you_mean(entry.prompt, filter(None, named))}")
            prompting = named[entry.prompt]
        model = with_variant(model, entry.settings)
        agent = agent_ref(entry.agent) if entry.agent else self.agents[0]
        label = entry.label or _label(model, prompting, agent if entry.agent else None)
        if entry.label and not prompting.name and prompting != PLAIN:
            prompting = replace(prompting, name=entry.label)
        return Contestant(label=label, model=model, prompting=prompting, agent=agent)


def _same_words_one_name(contestants: Sequence[Contestant]) -> list[Contestant]:
    """Prompts that were written out with the same words are one level of their factor, called after the first of them."""
    names: dict[Prompting, str] = {}
    named = []
    for contestant in contestants:
        words = replace(contestant.prompting, name="")
        name = names.setdefault(words, contestant.prompting.name)
        named.append(replace(contestant, prompting=replace(words, name=name)))
    return named


def cross(models: Sequence[ModelRef], prompts: Sequence[Prompting], agents: Sequence[AgentRef]) -> tuple[Contestant, ...]:
    """Every model with every prompt and every agent; a name says only what tells contestants apart."""
    return tuple(
        Contestant(
            label=_label(model, prompting if len(prompts) > 1 else None, agent if len(agents) > 1 else None),
            model=model,
            prompting=prompting,
            agent=agent,
        )
        for model, prompting, agent in product(models, prompts, agents)
    )


def _label(model: ModelRef, prompting: Prompting | None, agent: AgentRef | None) -> str:
    parts = [model.label, prompting.name if prompting else "", agent.label if agent else ""]
    return " · ".join(filter(None, parts))


def with_variant(model: ModelRef, settings: Mapping[str, Any]) -> ModelRef:
    """The model with further settings, called by them."""
    if not settings:
        return model
    variant = {**model.variant, **settings}
    family = model.family or model.label
    label = f"{family}@{listed_settings(variant)}"
    return replace(model, label=label, family=family, variant=variant, settings={**model.settings, **settings})


def _without(crossed: Iterable[Contestant], pattern: Mapping[str, str]) -> tuple[Contestant, ...]:
    """The contestants that differ from a pattern in one of the factors it names."""
    contestants = tuple(crossed)
    for factor in pattern:
        if factor not in FACTORS:
            raise UsageError(
                f"exclude: there is no factor {factor!r}{did_you_mean(factor, FACTORS)}; there are {', '.join(FACTORS)}"
            )
    left = tuple(c for c in contestants if any(c.factors[factor] != str(level) for factor, level in pattern.items()))
    if len(left) == len(contestants):
        words = ", ".join(f"{factor}: {level}" for factor, level in pattern.items())
        raise UsageError(f"exclude: no contestant has {words}")
    return left


# --- prompts and contestants as people write them ---------------------------------------------------


def named_prompt(text: str, folder: Path = Path()) -> Prompting:
    """A prompt as the command line has it: NAME=FILE or NAME=TEXT."""
    name, equals, given = text.partition("=")
    if not equals or not name.strip():
        raise UsageError(f"--prompt {text}: write NAME=FILE or NAME=TEXT, as in --prompt terse='Answer in one word.'")
    return prompt_of(name.strip(), given, folder)


def prompt_of(name: str, given: str | Mapping[str, Any] | None, folder: Path = Path()) -> Prompting:
    """A prompt by what was written for it: a text with {question} in it is a template, another one a system prompt."""
    check_name(name, "prompt")
    if isinstance(given, Mapping):
        return _prompt_by_parts(name, given, folder)
    text = text_or_file(given, folder)
    return Prompting(name=name, template=text) if "{question}" in text else Prompting(name=name, system=text)


def check_name(name: str, what: str) -> None:
    """Names stand in tables: they are short, and nothing in them is invisible."""
    if not name.strip() or len(name) > _LONGEST_NAME or not name.isprintable():
        raise UsageError(f"the {what} {name[:40]!r} needs a name of 1 to {_LONGEST_NAME} characters that can be printed")


def _prompt_by_parts(name: str, parts: Mapping[str, Any], folder: Path) -> Prompting:
    for key in parts:
        if key not in _PROMPT_KEYS:
            raise UsageError(f"prompt {name!r}: there is no {key!r}{did_you_mean(key, _PROMPT_KEYS)}")
    stop = parts.get("stop") or ()
    stops = (stop,) if isinstance(stop, str) else tuple(stop) if isinstance(stop, list | tuple) else (stop,)
    texts = [parts.get("system"), parts.get("template"), *stops]
    cot = str(parts.get("cot", False)).lower()
    if not all(text is None or isinstance(text, str) for text in texts) or cot not in _YES_OR_NO:
        raise UsageError(f"prompt {name!r}: system and template are texts, stop is one or a list of them, cot is true or false")
    return Prompting(
        name=name,
        system=text_or_file(parts.get("system"), folder),
        template=text_or_file(parts.get("template"), folder),
        cot=_YES_OR_NO[cot],
        stop=stops,
    )


def text_or_file(given: str | None, folder: Path = Path()) -> str:
    """What was written, or what the file of that name holds."""
    if not given:
        return ""
    path = folder / Path(given).expanduser()
    if _LIKE_A_FILE.fullmatch(given) and not os.path.isfile(path):  # noqa: PTH113
        raise UsageError(f"{given}: there is no such file; a text that is meant as it is has a space in it")
    try:
        # Of a text that could be no file's name, Path.is_file() would raise.
        return path.read_text(encoding="utf-8").rstrip("\n") if os.path.isfile(path) else given  # noqa: PTH113
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"{given}: cannot be read: {error}") from None


def written_out(text: str) -> Entry:
    """A contestant as the command line has it: `LABEL: MODEL, key=value, …`, the label left out where none is wanted."""
    label, colon, rest = text.partition(": ")
    rest = rest if colon else text
    model, _, parts = rest.partition(",")
    # Settings behind an @ may have commas of their own.
    while "@" in model and parts and (more := _PARTS.match(parts)) and more["key"] in (*SETTINGS, "effort"):
        model, parts = f"{model},{parts[: more.end()].rstrip(', ')}", parts[more.end() :]
    return entry_of(_keys_in(parts, text) | {"model": model.strip(), "label": label.strip() if colon else ""}, text)


def _keys_in(text: str, whole: str) -> dict[str, Any]:
    """The `key=value` pairs of a text; a value with commas in it is quoted."""
    pairs: dict[str, Any] = {}
    place = 0
    while place < len(text.rstrip()):
        pair = _PARTS.match(text, place)
        if pair is None:
            raise UsageError(f"--contestant {whole}: write LABEL: MODEL, key=value, …, with quotes around what has commas")
        key, plain = pair["key"], pair["plain"] or ""
        if key in pairs or '"' in plain:
            problem = f"{key} is said twice" if key in pairs else f"the quotes around {key} are not closed"
            raise UsageError(f"--contestant {whole}: {problem}")
        pairs[key] = plain.strip() if pair["quoted"] is None else pair["quoted"]
        place = pair.end()
    return pairs


def entry_of(parts: Mapping[str, Any], where: str, folder: Path = Path()) -> Entry:
    """A contestant by its parts: model, label, prompt or its words, agent, and every other key a setting."""
    if not isinstance(parts.get("model"), str) or not parts["model"]:
        raise UsageError(f"{where}: a contestant needs a model, by its name")
    prompting = {key: parts[key] for key in _PROMPT_KEYS if key in parts}
    if prompting and parts.get("prompt"):
        raise UsageError(f"{where}: a prompt by name, or {' and '.join(prompting)}: not both")
    settings = parts.get("settings") or {}
    if not isinstance(settings, Mapping):
        raise UsageError(f"{where}: settings are names with values, as in {{temperature: 0}}")
    settings = dict(settings)
    if parts.get("label"):
        check_name(str(parts["label"]), "contestant")
    for key, value in parts.items():
        if key not in ("model", "label", "prompt", "agent", "settings", *_PROMPT_KEYS):
            settings |= parse_settings(f"{key}={value}", where) if isinstance(value, str) else {key: value}
    unknown = [name for name in settings if name not in SETTINGS]
    if unknown:
        known = (*SETTINGS, *_PROMPT_KEYS, "prompt", "agent")
        raise UsageError(f"{where}: there is no {unknown[0]!r}{did_you_mean(unknown[0], known)}")
    return Entry(
        model=str(parts["model"]),
        label=str(parts.get("label") or ""),
        prompt=str(parts.get("prompt") or ""),
        prompting=_prompt_by_parts("", prompting, folder) if prompting else PLAIN,
        agent=str(parts.get("agent") or ""),
        settings=settings,
    )
