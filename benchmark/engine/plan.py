"""From a spec to the trials it asks for: pure, lazy, the same for every model."""

from __future__ import annotations

from array import array
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from benchmark.core.errors import UsageError
from benchmark.core.model import ModelRef
from benchmark.core.protocols import Dataset
from benchmark.core.run import Protocol, RunSpec
from benchmark.core.trial import Trial, trial_id
from benchmark.engine.budget import refuse_unpriced
from benchmark.engine.present import TEMPLATE_DIGEST, present
from benchmark.registry import load_dataset, make_agent, make_scorer


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """Everything a run will ask, without holding any of it."""

    spec: RunSpec
    dataset: Dataset
    order: array[int]
    """Positions of the samples to ask, in the order they are asked."""
    protocol: Protocol

    @property
    def trials_per_model(self) -> int:
        """How many trials each model has."""
        return len(self.order) * self.spec.repeats * len(self.spec.agents)

    def trials(self, model: ModelRef) -> Iterator[Trial]:
        """The trials of one model, made one by one."""
        spec, digest = self.spec, model.digest
        for repeat in range(spec.repeats):
            for position in self.order:
                sample = present(self.dataset[position], seed=spec.seed, repeat=repeat)
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
    dataset = load_dataset(spec.dataset)
    return Plan(spec=spec, dataset=dataset, order=sample_order(dataset, spec.limit), protocol=_protocol(spec, dataset))


def _refuse_twins(spec: RunSpec) -> None:
    """The same model twice, even under two names, would be asked once and counted twice."""
    seen: dict[str, str] = {}
    for model in spec.models:
        twin = seen.get(model.digest)
        seen[model.digest] = model.label
        if twin is not None:
            same = "is named twice" if twin == model.label else f"and {twin!r} are the same model with the same settings"
            raise UsageError(f"{model.label!r} {same}; use --repeats to ask a model several times")


def sample_order(dataset: Dataset, limit: int | None) -> array[int]:
    """A fixed shuffle in which every beginning is spread over the categories as the whole is.

    The first 20 are among the first 50, so a longer run extends a shorter one.
    """
    sizes = Counter(dataset.categories)
    seen: Counter[int] = Counter()
    place = array("d", bytes(8 * len(dataset)))
    positions = sorted(range(len(dataset)), key=dataset.shuffle.__getitem__)
    for position in positions:
        category = dataset.categories[position]
        seen[category] += 1
        place[position] = (seen[category] - 0.5) / sizes[category]
    positions.sort(key=place.__getitem__)
    return array("Q", positions[:limit])


def _protocol(spec: RunSpec, dataset: Dataset) -> Protocol:
    return Protocol(
        dataset=spec.dataset,
        dataset_digest=dataset.digest,
        template_digest=TEMPLATE_DIGEST,
        scorers=tuple(f"{name}/{make_scorer(name).version}" for name in dataset.scorers),
        agent=",".join(spec.agents),
        limit=spec.limit,
        repeats=spec.repeats,
        seed=spec.seed,
        follow_ups=0 if spec.work is None else spec.work.follow_ups,
    )
