"""From a spec to the trials it asks for: pure, lazy, the same samples for every contestant."""

from __future__ import annotations

import fnmatch
import re
from array import array
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import islice
from pathlib import Path

from tiebreak.core.contestant import DIRECT, PLAIN, AgentRef, Contestant
from tiebreak.core.digest import positions_by
from tiebreak.core.errors import UsageError
from tiebreak.core.protocols import ComparesAnswers, Dataset, LooksAtSamples
from tiebreak.core.run import Protocol, RunSpec, Shard, Source
from tiebreak.core.sample import Sample
from tiebreak.core.trial import Trial, make_trial, trial_id
from tiebreak.engine.abilities import refuse_idle_functions, refuse_unable
from tiebreak.engine.agent_work import refuse_broken
from tiebreak.engine.batches import refuse_idle_batch
from tiebreak.engine.budget import refuse_unpriced
from tiebreak.engine.fitness import refuse_unfit
from tiebreak.engine.prompting import check_prompting, present
from tiebreak.registry import did_you_mean, load_dataset, make_agent, make_scorer, make_strategy, names_code, sound

BUILTIN = AgentRef(name="builtin")
_FEWEST_RACING = 2
_LOOKED_AT = 20
"""So many samples tell whether two prompts differ."""
_MOST_LOOKED_AT = 10_000
"""Samples that scorers look at beforehand: of very large datasets not all, or the first answer would wait for the last row."""
_REMEMBERED = 10_000
"""So many names are looked through for what somebody may have meant."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """Everything a run will ask, without holding any of it."""

    spec: RunSpec
    """With a protocol that knows the dataset's digest and every scorer."""
    dataset: Dataset
    order: array[int]
    """Positions of the samples to ask, in the order they are asked."""
    shots: tuple[Sample, ...] = ()
    """Worked examples before every question."""
    tasks: int = 0
    """How many of the samples are coding tasks."""
    places: Sequence[int] | None = None
    """Of a shard: the place of each of its samples in the whole plan."""
    whole: tuple[int, int] = (0, 0)
    """Of a shard: the samples of the whole plan, and how many of them are coding tasks."""

    @property
    def scorers(self) -> tuple[str, ...]:
        """Every scorer that judges."""
        return self.spec.protocol.chosen_scorers or self.dataset.scorers

    @property
    def trials_per_contestant(self) -> int:
        """How many trials each contestant has."""
        return len(self.order) * self.spec.protocol.repeats

    @property
    def samples(self) -> Iterator[Sample]:
        """The samples that are asked, as the dataset has them."""
        return (self.dataset[position] for position in self.order)

    def trials(self, contestant: Contestant) -> Iterator[Trial]:
        """The trials of one contestant, made one by one."""
        digest, show = contestant.digest, self._presenter(contestant)
        for repeat, place, position in self._places():
            shown = show(self.dataset[position], repeat=repeat)
            asked = shown.asked_digest
            identity = trial_id(asked, digest, repeat)
            yield Trial(sample=shown, contestant=contestant, repeat=repeat, asked=asked, id=identity, place=place)

    def _places(self) -> Iterator[tuple[int, int, int]]:
        """Repeat, place in the plan and position in the dataset of each trial; in a race a sample's repeats come together."""
        repeats, places = range(self.spec.protocol.repeats), self.places or range(len(self.order))
        if self.spec.protocol.races:
            yield from ((repeat, place, at) for place, at in zip(places, self.order, strict=True) for repeat in repeats)
        else:
            yield from ((repeat, place, at) for repeat in repeats for place, at in zip(places, self.order, strict=True))

    def shown(self, sample: Sample, contestant: Contestant, repeat: int = 0) -> Sample:
        """A sample as a contestant is asked it."""
        return self._presenter(contestant)(sample, repeat=repeat)

    def _presenter(self, contestant: Contestant) -> Callable[..., Sample]:
        """What makes of a sample what a contestant is asked; worked out once for all of them."""
        protocol = self.spec.protocol
        return partial(
            present,
            seed=protocol.seed,
            prompting=PLAIN if contestant.prompting == PLAIN else contestant.prompting,
            shots=self.shots,
            scorers=protocol.chosen_scorers,
        )

    def with_protocol(self, protocol: Protocol) -> Plan:
        """The same plan under a protocol that says the same otherwise."""
        return replace(self, spec=replace(self.spec, protocol=protocol))

    def share(self) -> Plan:
        """The same plan with the part of the caps and rates that its shard may use."""
        return replace(self, spec=self.spec.share())

    def placed_in(self, folder: Path) -> Plan:
        """The same plan with its results in another folder."""
        return replace(self, spec=replace(self.spec, results_dir=folder))


def make_plan(spec: RunSpec, *, dataset: Dataset | None = None) -> Plan:
    """Load the dataset, unless it is given, choose the samples, and fix the protocol."""
    _refuse_twins(spec)
    if spec.pace.max_cost_usd is not None:
        refuse_unpriced((*spec.models, *spec.protocol.judges))
    _refuse_idle_race(spec)
    protocol = spec.protocol
    dataset = sound(dataset or load_dataset(protocol.dataset, protocol.source))
    spec = _put_to_work(spec, dataset)
    refuse_idle_batch(spec)
    for contestant in spec.contestants:
        check_prompting(contestant.prompting)
        _refuse_idle(contestant.agent, dataset)
    protocol = _with_scorers(protocol, spec.contestants, dataset)
    _refuse_without_judge(protocol, dataset)
    shots = _shots(protocol, dataset)
    order = sample_order(dataset, leave_out=shots)
    if protocol.source.ids or protocol.source.categories:
        order = chosen(dataset, order, protocol.source)
    order = order[: protocol.limit]
    if not order:
        raise UsageError(f"--shots {len(shots)} leaves no sample to ask: the dataset has {len(dataset)}")
    examples = tuple(dataset[position] for position in shots)
    spec, tasks = replace(spec, protocol=_completed(protocol, dataset)), _count_tasks(dataset, order)
    plan = Plan(spec=spec, dataset=dataset, order=order, shots=examples, tasks=tasks)
    refuse_unable(plan.spec.contestants, plan.samples if dataset.needs else ())
    refuse_idle_functions(plan.spec.contestants, plan.samples if "tools" in dataset.needs else ())
    _refuse_unfit(plan)
    _refuse_idle_prompts(plan)
    return plan if spec.shard is None else _part(plan, spec.shard)


def _part(plan: Plan, shard: Shard) -> Plan:
    """The samples of one shard, each in its place of the whole plan."""
    places = array("Q", (place for place, sample in enumerate(plan.samples) if shard.holds(sample)))
    if not places:
        raise UsageError(f"--shard {shard.words}: no sample falls into this shard; there are {len(plan.order):,} in all")
    order = array("Q", (plan.order[place] for place in places))
    whole = len(plan.order), plan.tasks
    return replace(plan, order=order, places=places, tasks=_count_tasks(plan.dataset, order), whole=whole)


def _refuse_idle_race(spec: RunSpec) -> None:
    """A race that could decide nothing, or not what it should."""
    until, racing = spec.protocol.until, [c for c in spec.contestants if not c.reference]
    if not spec.protocol.races:
        return
    make_strategy(until, [c.label for c in racing], 1)
    if len(racing) < _FEWEST_RACING:
        raise UsageError(f"--until {until}: a race needs two contestants that are no baselines")
    if spec.shard is not None:
        raise UsageError(f"--until {until}: a shard sees a part of the samples and cannot decide a race; leave one of them out")
    if spec.protocol.choose_on:
        raise UsageError(f"--until {until} and --choose-on {spec.protocol.choose_on} both choose the best: leave one out")
    unpriced = [c.label for c in racing if c.model.price is None]
    if until.startswith("cheapest") and unpriced:
        raise UsageError(
            f"--until cheapest goes by what answers cost, and no price is known of {', '.join(unpriced)}; "
            "give it one in models_config.yaml, as price: {input: 2.5, output: 10}, in dollars per million tokens"
        )


def _count_tasks(dataset: Dataset, order: Sequence[int]) -> int:
    """How many samples are coding tasks; they are looked at only where both kinds are mixed."""
    if "task" not in dataset.kinds or dataset.kinds == {"task"}:
        return len(order) if dataset.kinds == {"task"} else 0
    return sum(dataset[position].task is not None for position in order)


def _put_to_work(spec: RunSpec, dataset: Dataset) -> RunSpec:
    """Just asking solves no coding task: where there is nothing else, the built-in agent is who works."""
    if dataset.kinds != {"task"}:
        return spec
    agents = [BUILTIN if contestant.agent == DIRECT else contestant.agent for contestant in spec.contestants]
    contestants = tuple(replace(c, agent=agent) for c, agent in zip(spec.contestants, agents, strict=True))
    return replace(spec, contestants=contestants)


def agent_for(agent: AgentRef, sample: Sample) -> AgentRef:
    """Who works on a sample.

    In a mixed set, a contestant whose agent knows only tasks is asked questions directly, and one whose agent knows only
    questions does tasks with the built-in agent.
    """
    kind = "question" if sample.task is None else "task"
    if kind in make_agent(agent).works_on:
        return agent
    return DIRECT if sample.task is None else BUILTIN


def _refuse_idle(agent: AgentRef, dataset: Dataset) -> None:
    """An agent that can work on none of the samples is refused; so is a name nobody has."""
    made = make_agent(agent)
    refuse_broken(agent.name, made)
    works_on = frozenset(made.works_on)
    if not works_on & dataset.kinds:
        can, has = (" and ".join(f"{_KINDS[kind]}s" for kind in sorted(kinds)) for kinds in (works_on, dataset.kinds))
        hint = "; its class says what it works on, as in works_on = frozenset({'question'})" if names_code(agent.name) else ""
        raise UsageError(f"the agent {agent.name!r} works on {can}, and {dataset.name} has {has} only{hint}")


_KINDS = {"question": "question", "task": "coding task"}


def _with_scorers(protocol: Protocol, contestants: Sequence[Contestant], dataset: Dataset) -> Protocol:
    """What was weighed is judged by its likelihoods, unless something else was asked for."""
    weighed = bool(contestants) and all(contestant.agent.name == "likelihood" for contestant in contestants)
    if not weighed or protocol.chosen_scorers or make_scorer(dataset.scorers[0]).reads_likelihoods:
        return protocol
    return replace(protocol, chosen_scorers=("likelihood",))


def _refuse_unfit(plan: Plan) -> None:
    """Scorers chosen for samples that have not got what they judge by are refused before anything is asked."""
    sample = plan.dataset[plan.order[0]]
    for contestant in plan.spec.contestants:
        trial = make_trial(plan.shown(sample, contestant), contestant)
        for name in plan.spec.protocol.chosen_scorers:
            refuse_unfit(name, make_scorer(name), trial)
    _refuse_unjudgeable(plan)


def _refuse_unjudgeable(plan: Plan) -> None:
    """Samples of which a scorer knows that every answer would be wrong, or could not be judged."""
    named = plan.spec.protocol.chosen_scorers or plan.dataset.scorers
    looking = {name: scorer for name in named if isinstance(scorer := make_scorer(name), LooksAtSamples)}
    for one in islice(plan.samples, _MOST_LOOKED_AT) if looking else ():
        for name in plan.spec.protocol.chosen_scorers or one.scorers:
            if name in looking and (problem := looking[name].unfit(one)):
                raise UsageError(f"the scorer {name!r} cannot judge the sample {one.id!r}: {problem}")


def _refuse_idle_prompts(plan: Plan) -> None:
    """Contestants that differ in their prompt alone must be asked different things: a dataset may take no template."""
    samples = list(islice(plan.samples, _LOOKED_AT))
    seen: dict[tuple[str, ...], Contestant] = {}
    for contestant in plan.spec.contestants if len({c.prompting for c in plan.spec.contestants}) > 1 else ():
        asked = [plan.shown(sample, contestant).asked_digest for sample in samples]
        twin = seen.setdefault((contestant.model.digest, contestant.agent.label, *asked), contestant)
        if twin is not contestant:
            raise UsageError(
                f"{twin.label!r} and {contestant.label!r} would be asked the same: {plan.dataset.name} puts its questions "
                "in words of its own, and takes a system prompt but no template"
            )


def _shots(protocol: Protocol, dataset: Dataset) -> list[int]:
    """The first questions of the fixed shuffle, unless the dataset has examples of its own; none of them is asked."""
    if not protocol.source.shots or dataset.has_shots:
        return []
    questions = (position for position in positions_by(dataset.shuffle) if _is_example(dataset[position]))
    return list(islice(questions, protocol.source.shots))


def _is_example(sample: Sample) -> bool:
    """Whether a sample can be shown as a question with its answer."""
    return sample.task is None and sample.needs.isdisjoint({"tools", "turns"})


def _refuse_without_judge(protocol: Protocol, dataset: Dataset) -> None:
    """A scorer that asks a model is told which one before anything is paid for, and a judge has something to judge."""
    scorers = protocol.chosen_scorers or dataset.scorers
    made = {name: make_scorer(name) for name in scorers}
    for name in (name for name, scorer in made.items() if isinstance(scorer, ComparesAnswers)):
        raise UsageError(
            f"the scorer {name!r} compares answers once they are there: run with another scorer, then "
            f"`tiebreak score RUN --scorer {name} --judge MODEL`"
        )
    asking = [name for name, scorer in made.items() if scorer.needs_judge]
    if asking and not protocol.judges:
        raise UsageError(f"the scorer {asking[0]!r} asks a model: name one with --judge")
    if protocol.judges and not asking:
        label = protocol.judges[0].label
        raise UsageError(f"--judge {label}: no scorer would ask it ({', '.join(scorers)}); add --scorer judge")


def _refuse_twins(spec: RunSpec) -> None:
    """The same contestant twice, even under two names, would be asked once and counted twice."""
    seen: dict[str, str] = {}
    for contestant in spec.contestants:
        if contestant.label in seen.values() and seen.get(contestant.digest) != contestant.label:
            raise UsageError(f"two contestants are called {contestant.label!r}; give each a name of its own")
        twin = seen.get(contestant.digest)
        seen[contestant.digest] = contestant.label
        if twin is not None:
            words = "" if contestant.prompting == PLAIN else " and the same words"
            same = f"and {twin!r} are the same model with the same settings{words}"
            same = "is named twice" if twin == contestant.label else same
            raise UsageError(f"{contestant.label!r} {same}; use --repeats to ask a model several times")


def sample_order(dataset: Dataset, *, leave_out: Sequence[int] = ()) -> array[int]:
    """A fixed shuffle in which every beginning is spread over the categories as the whole is.

    The first 20 are among the first 50, so a longer run extends a shorter one. Worked examples are left out.
    """
    sizes = Counter(dataset.categories)
    seen: Counter[int] = Counter()
    place = array("Q", bytes(8 * len(dataset)))
    for position in positions_by(dataset.shuffle):
        category = dataset.categories[position]
        # The share of its category that comes before it, as a whole number below 2**62.
        place[position] = ((2 * seen[category] + 1) << 61) // sizes[category]
        seen[category] += 1
    left_out = frozenset(leave_out)
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


def _completed(protocol: Protocol, dataset: Dataset) -> Protocol:
    """The protocol with what only the dataset knows."""
    return replace(
        protocol,
        dataset_digest=dataset.digest,
        scorers=tuple(f"{name}/{make_scorer(name).version}" for name in protocol.chosen_scorers or dataset.scorers),
        form=dataset.form,
        public_since=dataset.public_since,
    )
