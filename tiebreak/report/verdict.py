"""The result in a few plain sentences. Each is made from a claim: a kind and the facts that bear it out."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tiebreak.report.factors import Chosen
from tiebreak.report.ranking import Comparison
from tiebreak.report.summary import ContestantSummary, Summary

CEILING, FLOOR = 0.95, 0.05
_SAME_PRICE = 1.02
_SAME_SPEED = 1.10
"""Up to this factor two models cost the same, or are as fast: a run cannot tell."""
_AS_GOOD_AS_EQUAL = 100_000
_ENOUGH = 3
"""Sentences after which a comparison with baselines is no longer news."""

Facts = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Claim:
    """Something the numbers say: `kind` names it, `facts` are the numbers, `sentence` is how it is told."""

    kind: str
    facts: Facts

    @property
    def sentence(self) -> str:
        """The claim in words; every number in it is one of the facts."""
        return _WORDS[self.kind](self.facts)


def claims(summary: Summary) -> list[Claim]:
    """What can be said of the run, most important first."""
    found = [_contest(summary), *_effects(summary), *_scale(summary), *_value(summary), *_left_out(summary)]
    return found if len(found) >= _ENOUGH else [*found, *_against_reference(summary)]


def verdict(summary: Summary) -> list[str]:
    """The same in sentences."""
    return [claim.sentence for claim in claims(summary)]


# --- what can be claimed ----------------------------------------------------------------------------


def _contest(summary: Summary) -> Claim:
    """Who leads, who is tied, or that nothing can be said."""
    ranked = summary.ranked
    if not ranked:
        return Claim("nothing", {"contestants": len(summary.tested), "with_score": _with_score(summary)})
    if summary.chosen is not None:
        return Claim("chosen", _chosen_facts(summary.chosen))
    leader = ranked[0]
    if len(ranked) == 1:
        return Claim("score", _score_facts(leader))
    tied, behind = summary.tiers[0], [label for tier in summary.tiers[1:] for label in tier]
    pair = summary.comparison(leader.label, ranked[1].label)
    if pair is None:
        return Claim("nothing", {"contestants": len(summary.tested), "with_score": _with_score(summary)})
    if len(tied) == 1:
        return Claim("leads", {**_pair_facts(summary, pair), "behind": behind})
    shown = [label for label in behind if _shown(summary, leader.label, label)]
    return Claim("tie", {**_pair_facts(summary, pair), "leader": leader.label, "tied": list(tied), "leader_ahead_of": shown})


def _chosen_facts(chosen: Chosen) -> dict[str, Any]:
    names = ("label", "chosen_from", "chosen_on", "score_where_chosen", "samples", "score", "low", "high")
    return {
        **{name: getattr(chosen, name) for name in names},
        "better_than": [rival.label for rival in chosen.rivals if rival.better],
        "worse_than": [rival.label for rival in chosen.rivals if rival.worse],
        "not_shown": [rival.label for rival in chosen.rivals if not (rival.better or rival.worse)],
    }


def _effects(summary: Summary) -> list[Claim]:
    """For each factor, whether its best level is shown to be better than the next, with all else equal."""
    found = []
    for factor in summary.factors:
        best, *others = [level.level for level in factor.levels]
        pairs = [effect for effect in factor.effects if best in (effect.first, effect.second)]
        if not pairs:
            continue
        closest = min(pairs, key=lambda effect: effect.difference if effect.first == best else -effect.difference)
        names = ("first", "second", "difference", "low", "high", "p_corrected", "samples", "cells", "separated")
        facts = {name: getattr(closest, name) for name in names}
        found.append(Claim("effect", {"factor": factor.name, "levels": [best, *others], "tests": len(factor.effects), **facts}))
    return found


def _with_score(summary: Summary) -> int:
    return sum(m.score is not None for m in summary.tested)


def _score_facts(model: ContestantSummary) -> dict[str, Any]:
    return {"model": model.label, "score": model.score, "low": model.low, "high": model.high, "samples": model.samples}


def _pair_facts(summary: Summary, pair: Comparison) -> dict[str, Any]:
    names = ("first", "second", "samples", "difference", "low", "high", "p_corrected", "smallest_difference", "samples_needed")
    return {**{name: getattr(pair, name) for name in names}, "tests": len(summary.comparisons)}


def _shown(summary: Summary, better: str, worse: str) -> bool:
    pair = summary.comparison(better, worse)
    return pair is not None and pair.separated and pair.first == better


def _scale(summary: Summary) -> list[Claim]:
    """Samples that are too easy or too hard for most models rank nobody."""
    ranked = summary.ranked
    if len(ranked) < 2:
        return []
    above = sum((m.score or 0.0) > CEILING for m in ranked)
    below = sum((m.score or 0.0) < FLOOR for m in ranked)
    facts = {"of": len(ranked), "dataset": summary.info.protocol.dataset}
    if 2 * above > len(ranked) and above > 1:
        return [Claim("ceiling", {**facts, "count": above, "bound": CEILING})]
    if 2 * below > len(ranked) and below > 1:
        return [Claim("floor", {**facts, "count": below, "bound": FLOOR})]
    return []


def _value(summary: Summary) -> list[Claim]:
    """What is cheapest and fastest among the best, where the best are several."""
    best = [m for m in summary.ranked if m.tier == 1]
    if len(best) < 2:
        return []
    costs = {m.label: m.cost_per_trial for m in best if m.cost_per_trial is not None and not m.model.local}
    times = {m.label: m.latency.p50_s for m in best if m.latency is not None}
    facts = {
        "among": [m.label for m in best],
        "cheapest": _least(costs, _SAME_PRICE),
        "price_unknown": [m.label for m in best if m.label not in costs],
        "fastest": _least(times, _SAME_SPEED),
        "speed_unknown": [m.label for m in best if m.label not in times],
    }
    return [Claim("value", facts)] if facts["cheapest"] or facts["fastest"] else []


def _least(values: Mapping[str, float], same: float) -> dict[str, Any] | None:
    """The least of several, unless the next one is as good as the same."""
    ordered = sorted(values, key=values.__getitem__)
    if len(ordered) < 2 or values[ordered[1]] < same * values[ordered[0]]:
        return None
    return {"model": ordered[0], "value": values[ordered[0]], "next": values[ordered[1]]}


def _left_out(summary: Summary) -> list[Claim]:
    failed = {m.label: dict(m.failures) for m in summary.tested if m.failed}
    unranked = {m.label: {"state": m.state, "answered": m.answered, "planned": m.planned} for m in summary.unfinished}
    return [Claim("left_out", {"failed": failed, "unranked": unranked})] if failed or unranked else []


def _against_reference(summary: Summary) -> list[Claim]:
    """Whether the best is above what guessing, or doing nothing, gives."""
    floors = [m for m in summary.references if m.score is not None and m.contestant.agent.name != "solution"]
    ranked = summary.ranked
    if not floors or not ranked:
        return []
    floor, best = floors[0], ranked[0]
    kind = "above_reference" if best.low > (floor.score or 0.0) else "not_above_reference"
    return [Claim(kind, {**_score_facts(best), "reference": floor.label, "reference_score": floor.score})]


# --- how it is told ---------------------------------------------------------------------------------


def _tell_nothing(facts: Facts) -> str:
    if facts["contestants"] == 0:
        return "Only baselines and controls were run: there is nobody to rank."
    if facts["with_score"] == 0:
        return "Nothing can be said: no model has a result."
    return "Nothing can be said of who is better: fewer than two models answered enough of the same samples."


def _tell_score(facts: Facts) -> str:
    interval = f"95 % interval {facts['low']:.2f} to {facts['high']:.2f}"
    return f"{facts['model']} scores {facts['score']:.2f} on {number(facts['samples'], 'sample')} ({interval})."


def _tell_leads(facts: Facts) -> str:
    rest = "" if len(facts["behind"]) == 1 else ", the next best,"
    return f"{facts['first']} is better than {facts['second']}{rest} by {_by(facts)}."


def _tell_chosen(facts: Facts) -> str:
    interval = f"95 % interval {facts['low']:.2f} to {facts['high']:.2f}"
    where = f"chosen from {facts['chosen_from']} on {number(facts['chosen_on'], 'sample')}"
    said = f"{facts['label']}, {where}, scores {facts['score']:.2f} on {number(facts['samples'], 'other')} ({interval})"
    parts = [f"better than {listed(facts['better_than'])}"] if facts["better_than"] else []
    parts += [f"worse than {listed(facts['worse_than'])}"] if facts["worse_than"] else []
    parts += [f"not shown to differ from {listed(facts['not_shown'])}"] if facts["not_shown"] else []
    flattered = f"Where it was chosen it scored {facts['score_where_chosen']:.2f}."
    return f"{said}: there it is {', and '.join(parts)}. {flattered}" if parts else f"{said}. {flattered}"


def _tell_effect(facts: Facts) -> str:
    first, second = (level or f"no {facts['factor']}" for level in (facts["first"], facts["second"]))
    over = f"over {number(facts['cells'], 'combination')} of the rest"
    interval = f"95 % interval {100 * facts['low']:.1f} to {100 * facts['high']:.1f}"
    by = f"{points(facts['difference'])} ({interval}; {_probability(facts)})"
    if facts["separated"]:
        return f"Effect of the {facts['factor']}: {first} is better than {second} by {by}, {over}."
    return f"Effect of the {facts['factor']}: {first} and {second} differ by {by}, {over}: no effect is shown."


def _by(facts: Facts) -> str:
    interval = f"95 % interval {100 * facts['low']:.1f} to {100 * facts['high']:.1f}"
    on = f"on {number(facts['samples'], 'common sample')}"
    return f"{points(facts['difference'])} {on} ({interval}; {_probability(facts)})"


def _probability(facts: Facts) -> str:
    p = probability(facts["p_corrected"])
    return p if facts["tests"] == 1 else f"{p}, corrected for {facts['tests']} tests"


def _tell_tie(facts: Facts) -> str:
    ahead, leader = facts["leader_ahead_of"], facts["leader"]
    top = " at the top" if ahead else ""
    shown = f"none is shown to be worse than {leader}" if len(facts["tied"]) > 2 else "neither is shown to be better"
    between = f"{facts['first']} and {facts['second']} differ by {points(facts['difference'])}; {_probability(facts)}"
    said = f"{listed(facts['tied'])} are tied{top}: on {number(facts['samples'], 'common sample')} {shown} ({between})."
    return f"{said} {_more(facts)}" + (f" {leader} is better than {listed(ahead)}." if ahead else "")


def _more(facts: Facts) -> str:
    """What it would take to know more."""
    between = f"between {facts['first']} and {facts['second']}" if len(facts["tied"]) > 2 else ""
    could = f"This run could have shown a difference of {points(facts['smallest_difference'])} {between}".rstrip()
    needed = facts["samples_needed"]
    if needed is None:
        return f"{could}; none was found."
    if needed > _AS_GOOD_AS_EQUAL:
        how_many = f"more than {_AS_GOOD_AS_EQUAL:,}"
    else:
        how_many = f"about {rounded(max(needed, facts['samples'] + 1)):,}"
    return f"{could}; to separate {facts['first']} from {facts['second']} would take {how_many} samples."


def _tell_ceiling(facts: Facts) -> str:
    above = f"{facts['count']} of {facts['of']} are above {facts['bound']:.0%}"
    return f"{above}: this set cannot rank them; try harder samples{_hint(facts, 'truthfulness')}."


def _tell_floor(facts: Facts) -> str:
    below = f"{facts['count']} of {facts['of']} are below {facts['bound']:.0%}"
    return f"{below}: this set cannot rank them; try easier samples{_hint(facts, 'warmup')}."


def _hint(facts: Facts, dataset: str) -> str:
    return "" if facts["dataset"].startswith(dataset) else f", such as --dataset {dataset}"


def _tell_value(facts: Facts) -> str:
    parts = []
    if found := facts["cheapest"]:
        known = " of those with a known price" if facts["price_unknown"] else ""
        parts.append(f"{found['model']} is the cheapest{known} (${found['value']:.2g} a trial)")
    if found := facts["fastest"]:
        same = facts["cheapest"] and facts["cheapest"]["model"] == found["model"]
        known = " of those that were timed" if facts["speed_unknown"] else ""
        who = "" if same else f"{found['model']} "
        parts.append(f"{who}{'' if same else 'is '}the fastest{known} (median {_seconds(found['value'])})")
    return f"Among {listed(facts['among'])}, {' and '.join(parts)}."


def _seconds(value: float) -> str:
    return f"{value:.2g} s" if value >= 0.01 else "under 0.01 s"


def _tell_left_out(facts: Facts) -> str:
    failed: Mapping[str, Mapping[str, int]] = facts["failed"]
    said = []
    if failed:
        total: Counter[str] = Counter()
        for counts in failed.values():
            total.update(counts)
        whose = listed([f"{label} {sum(counts.values()):,}" for label, counts in failed.items()])
        said.append(f"{number(total.total(), 'trial')} failed and {_are(total.total())} left out: {whose} ({kinds(total)}).")
    below = [f"{label} ({found['answered']:,} of {found['planned']:,} answered)" for label, found in facts["unranked"].items()]
    if below:
        said.append(f"Not ranked: {listed(below)}.")
    return " ".join(said)


def _are(n: int) -> str:
    return "is" if n == 1 else "are"


def _tell_above(facts: Facts) -> str:
    return f"{facts['model']} is above {facts['reference']}, which scores {facts['reference_score']:.2f}."


def _tell_not_above(facts: Facts) -> str:
    return f"{facts['model']} is not clearly above {facts['reference']}, which scores {facts['reference_score']:.2f}."


_WORDS: Mapping[str, Callable[[Facts], str]] = {
    "nothing": _tell_nothing,
    "score": _tell_score,
    "leads": _tell_leads,
    "tie": _tell_tie,
    "chosen": _tell_chosen,
    "effect": _tell_effect,
    "ceiling": _tell_ceiling,
    "floor": _tell_floor,
    "value": _tell_value,
    "left_out": _tell_left_out,
    "above_reference": _tell_above,
    "not_above_reference": _tell_not_above,
}
KINDS = tuple(_WORDS)


def listed(words: Sequence[str]) -> str:
    """A, B and C."""
    return words[0] if len(words) == 1 else f"{', '.join(words[:-1])} and {words[-1]}"


def number(n: int, word: str) -> str:
    """A count and what it counts."""
    return f"{n:,} {word}{'' if n == 1 else 's'}"


def points(share: float) -> str:
    """A difference of scores in points of a hundred."""
    return f"{100 * share:.1f} points"


def probability(p: float) -> str:
    """A probability in words."""
    return "p < 0.001" if p < 0.001 else f"p = {p:.3f}"


def kinds(counts: Mapping[str, int]) -> str:
    """3 timeout, 1 overloaded."""
    return ", ".join(f"{count:,} {kind}" for kind, count in counts.items())


def rounded(n: int) -> int:
    """Two digits say all that a forecast knows."""
    unit = int("1" + "0" * max(0, len(str(n)) - 2))
    return -(-n // unit) * unit
