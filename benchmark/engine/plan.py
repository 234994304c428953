"""From a spec to the trials it asks for: pure, lazy, the same for every model."""

from __future__ import annotations

import fnmatch
import re
from array import array
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path

from benchmark.core.digest import positions_by
from benchmark.core.errors import UsageError
from benchmark.core.model import ModelRef
from benchmark.core.protocols import Dataset
from benchmark.core.run import Protocol, RunSpec, Source
from benchmark.core.sample import Sample
from benchmark.core.trial import Trial, trial_id
from benchmark.engine.budget import refuse_unpriced
from benchmark.engine.fitness import refuse_unfit
from benchmark.engine.present import PLAIN, check_prompting, present, template_digest
from benchmark.registry import did_you_mean, load_dataset, make_agent, make_scorer

_REMEMBERED = 10_000
"""So many names are looked through for what somebody may have meant."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """Everything a run will ask, without holding any of it."""

    spec: RunSpec
    dataset: Dataset
    order: array[int]
    """Positions of the samples to ask, in the order they are asked."""
    protocol: Protocol
    shots: tuple[Sample, ...] = ()
    """Worked examples before every question."""

    @property
    def scorers(self) -> tuple[str, ...]:
        """Every scorer that judges."""
        return self.spec.scorers or self.dataset.scorers

    @property
    def trials_per_model(self) -> int:
        """How many trials each model has."""
        return len(self.order) * self.spec.repeats * len(self.spec.agents)

    def trials(self, model: ModelRef) -> Iterator[Trial]:
        """The trials of one model, made one by one."""
        spec, digest = self.spec, model.digest
        prompting = PLAIN if spec.prompting == PLAIN else spec.prompting
        for repeat in range(spec.repeats):
            for position in self.order:
                sample = present(
                    self.dataset[position],
                    seed=spec.seed,
                    repeat=repeat,
                    prompting=prompting,
                    shots=self.shots,
                    scorers=spec.scorers,
                )
                asked = sample.asked_digest
                for agent in spec.agents:
                    identity = trial_id(asked, digest, agent, repeat)
                    yield Trial(sample=sample, model=model, agent=agent, repeat=repeat, asked=asked, id=identity)

    def placed_in(self, folder: Path) -> Plan:
        """The same plan with its results in another folder."""
        return replace(self, spec=replace(self.spec, results_dir=folder))


def make_plan(spec: RunSpec) -> Plan:
    """Load the dataset, choose the samples, and fix the protocol."""
    _refuse_twins(spec)
    if spec.max_cost_usd is not None:
        refuse_unpriced(spec.models)
    for agent in spec.agents:
        make_agent(agent)  # A name nobody has is refused now, not at the first trial.
    dataset = load_dataset(spec.dataset, spec.source)
    check_prompting(spec.prompting)
    if spec.agents == ("likelihood",) and not spec.scorers and not dataset.scorers[0].startswith("likelihood"):
        spec = replace(spec, scorers=("likelihood",))
    _refuse_without_judge(spec, dataset)
    shots = _shots(spec, dataset)
    order = sample_order(dataset, leave_out=len(shots))
    if spec.source.ids or spec.source.categories:
        order = chosen(dataset, order, spec.source)
    order = order[: spec.limit]
    if not order:
        raise UsageError(f"--shots {len(shots)} leaves no sample to ask: the dataset has {len(dataset)}")
    plan = Plan(spec=spec, dataset=dataset, order=order, protocol=_protocol(spec, dataset, shots), shots=tuple(shots))
    _refuse_unfit(plan)
    return plan


def _refuse_unfit(plan: Plan) -> None:
    """Scorers chosen for samples that have not got what they judge by are refused before anything is asked."""
    spec = plan.spec
    first = list(islice(plan.trials(spec.models[0]), len(spec.agents))) if spec.scorers and spec.models else []
    for trial in first:
        for name in spec.scorers:
            refuse_unfit(name, make_scorer(name), trial)


def _shots(spec: RunSpec, dataset: Dataset) -> list[Sample]:
    """The first samples of the fixed shuffle, unless the dataset has examples of its own; none of them is asked."""
    if not spec.source.shots or getattr(dataset, "has_shots", False):
        return []
    return [dataset[position] for position in islice(positions_by(dataset.shuffle), spec.source.shots)]


def _refuse_without_judge(spec: RunSpec, dataset: Dataset) -> None:
    """A scorer that asks a model is told which one before anything is paid for."""
    for name in spec.scorers or dataset.scorers:
        if spec.judge is None and getattr(make_scorer(name), "needs_judge", False):
            raise UsageError(f"the scorer {name!r} asks a model: name one with --judge")


def _refuse_twins(spec: RunSpec) -> None:
    """The same model twice, even under two names, would be asked once and counted twice."""
    seen: dict[str, str] = {}
    for model in spec.models:
        twin = seen.get(model.digest)
        seen[model.digest] = model.label
        if twin is not None:
            same = "is named twice" if twin == model.label else f"and {twin!r} are the same model with the same settings"
            raise UsageError(f"{model.label!r} {same}; use --repeats to ask a model several times")


def sample_order(dataset: Dataset, *, leave_out: int = 0) -> array[int]:
    """A fixed shuffle in which every beginning is spread over the categories as the whole is.

    The first 20 are among the first 50, so a longer run extends a shorter one. The first few of the shuffle can be
    left out, where they are the worked examples.
    """
    sizes = Counter(dataset.categories)
    seen: Counter[int] = Counter()
    place = array("Q", bytes(8 * len(dataset)))
    for position in positions_by(dataset.shuffle):
        category = dataset.categories[position]
        # The share of its category that comes before it, as a whole number below 2**62.
        place[position] = ((2 * seen[category] + 1) << 61) // sizes[category]
        seen[category] += 1
    left_out = set(islice(positions_by(dataset.shuffle), leave_out)) if leave_out else ()
    return array("Q", (p for p in positions_by(place, bits=62) if p not in left_out))


def chosen(dataset: Dataset, order: array[int], source: Source) -> array[int]:
    """The samples whose id and category were asked for, in the same order. A pattern that fits nothing is a slip."""
    ids, categories = _Patterns("--sample-id", source.ids), _Patterns("--sample-category", source.categories)
    kept = array("Q")
    for position in order:
        sample = dataset[position]
        # Both are looked at, so that each knows which of its patterns fit something.
        if ids.fit(sample.id) & categories.fit(sample.category):
            kept.append(position)
    ids.refuse_unused()
    categories.refuse_unused()
    if not kept:
        raise UsageError("no sample has both an id that --sample-id names and a category that --sample-category names")
    return kept


class _Patterns:
    """Names with * and ?; none of them means any."""

    def __init__(self, flag: str, patterns: Sequence[str]) -> None:
        self._flag = flag
        self._unused = dict.fromkeys(patterns)
        self._plain = frozenset(patterns)
        """Also a name with brackets in it is a name."""
        self._wild = [(p, re.compile(fnmatch.translate(p))) for p in patterns if set("*?[") & set(p)]
        self._any = not patterns
        self._seen: dict[str, None] = {}

    def fit(self, name: str) -> bool:
        """Whether a name is wanted."""
        if self._any:
            return True
        if len(self._seen) < _REMEMBERED:
            self._seen.setdefault(name)
        found = [pattern for pattern, wild in self._wild if wild.match(name)] + [name] * (name in self._plain)
        for pattern in found:
            self._unused.pop(pattern, None)
        return bool(found)

    def refuse_unused(self) -> None:
        """Raise for a pattern that fits no sample."""
        for pattern in self._unused:
            names = list(filter(None, self._seen))
            others = f"; there are {', '.join(map(repr, names[:5]))} …" if names else "; its samples have none"
            close = did_you_mean(pattern, names) or others
            raise UsageError(f"{self._flag} {pattern} fits no sample of the dataset{close}")


def _protocol(spec: RunSpec, dataset: Dataset, shots: Sequence[Sample]) -> Protocol:
    return Protocol(
        dataset=spec.dataset,
        dataset_digest=dataset.digest,
        template_digest=template_digest(spec.prompting, shots),
        scorers=tuple(f"{name}/{make_scorer(name).version}" for name in spec.scorers or dataset.scorers),
        agent=",".join(spec.agents),
        limit=spec.limit,
        repeats=spec.repeats,
        seed=spec.seed,
        source=spec.source,
        prompting=spec.prompting,
        form=getattr(dataset, "form", ""),
        public_since=getattr(dataset, "public_since", None),
        chosen_scorers=spec.scorers,
        judge=spec.judge,
        follow_ups=0 if spec.work is None else spec.work.follow_ups,
    )
