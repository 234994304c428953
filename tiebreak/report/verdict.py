"""The result in a few plain sentences. Each is made from a claim: a kind and the facts that bear it out."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from tiebreak.report.factors import Chosen
from tiebreak.report.money import dollars, per_thousand, per_thousand_words
from tiebreak.report.ranking import FAILURES, READING, Alternative, Comparison
from tiebreak.report.summary import ContestantSummary, Summary
from tiebreak.report.value import ALONE, Value, ValueRatio, nearest
from tiebreak.stats.family import SURE

CEILING, FLOOR = 0.95, 0.05
_AS_GOOD_AS_EQUAL = 100_000
_MANY_TIMES = 1000
"""A factor beyond this is no longer news."""
_ENOUGH = 4
_ENOUGH_TO_SCALE = 20
"""Samples from which a score near the end of the scale says something about the samples."""
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
    contest = _contest(summary)
    _check(summary, contest)
    value = [*_cost(summary), *_speed(summary)]
    rest = [
        *_scale(summary),
        *value,
        *_readings(summary),
        *_looks(summary),
        *_noise(summary),
        *_raced(summary),
        *_left_out(summary),
    ]
    found = [contest, *_good_enough(summary), *_effects(summary), *rest]
    last = [] if len(found) >= _ENOUGH else _against_reference(summary)
    return [contest, *_fragile(summary, contest), *found[1:], *last]


def verdict(summary: Summary) -> list[str]:
    """The same in sentences."""
    return [claim.sentence for claim in claims(summary)]


# --- what can be claimed ----------------------------------------------------------------------------


def _contest(summary: Summary) -> Claim:
    """Who leads, who is tied, or that nothing can be said."""
    ranked = summary.ranked
    if not ranked or summary.unseen:
        return _nothing(summary)
    if summary.chosen is not None:
        return Claim("chosen", _chosen_facts(summary.chosen))
    if len(ranked) == 1:
        return Claim("score", _score_facts(ranked[0]))
    if len(summary.tiers[0]) == len(ranked) and not summary.comparisons:
        return _nothing(summary)
    turning = _turning(summary)
    if turning is None or _tied_as_counted(summary):
        return _standing(summary, turning)
    return Claim("depends", _turned_facts(summary, turning))


def _nothing(summary: Summary) -> Claim:
    counted = {"contestants": len(summary.tested), "with_score": _with_score(summary)}
    shard = "" if summary.info.shard is None else summary.info.shard.words
    return Claim("nothing", {**counted, "unseen": summary.unseen, "shard": shard})


def _tied_as_counted(summary: Summary) -> bool:
    """Whether nobody leads with failures left out, and counting them as wrong would only show more differences.

    Random failures do that now and then. A tie claims no difference: it holds, and says what the other way would show.
    """
    usual, *others = summary.alternatives
    only_failures = all(other.counted == FAILURES for other in others)
    return only_failures and usual.leader is None and len(usual.tiers[0]) > 1 and set(usual.tiers[0]) == set(summary.tiers[0])


def _standing(summary: Summary, turning: Alternative | None) -> Claim:
    """The contest as the tests decide it; `turning` would show more, were its way of counting the usual one."""
    first, behind = summary.tiers[0], [label for tier in summary.tiers[1:] for label in tier]
    depends = [other.counted for other in summary.alternatives[1:]]
    if summary.leader is not None:
        pair = _closest(summary, summary.leader, behind)
        return Claim("leads", {**_pair_facts(summary, pair), "behind": behind, "tiers_depend_on": depends})
    if _differ(summary, first):
        return Claim("contradiction", {"among": list(first)})
    ahead = _ahead(summary, first, behind)
    unsettled = [label for label in behind if not _shown(summary, first[0], label)]
    if len(first) == 1:
        facts = {"first": first[0], "better_than": ahead[first[0]], "not_shown": unsettled}
        return Claim("unsettled", {**facts, "tiers_depend_on": depends})
    pair_of_best = summary.comparison(first[0], first[1])
    if pair_of_best is None:
        return _nothing(summary)
    facts = {**_pair_facts(summary, pair_of_best), "leader": first[0], "tied": list(first)}
    otherwise = turning and {"counted": turning.counted, "leader": turning.leader, "top": list(turning.tiers[0])}
    return Claim("tie", {**facts, "ahead": ahead, "tiers_depend_on": [] if turning else depends, "otherwise": otherwise})


def _closest(summary: Summary, leader: str, behind: Sequence[str]) -> Comparison:
    """The leader against whoever comes nearest to not being shown worse, of those it is itself shown to beat."""
    pairs = [pair for label in behind if _shown(summary, leader, label) and (pair := summary.comparison(leader, label))]
    return max(pairs, key=lambda pair: (pair.p_corrected, -pair.difference))


def _ahead(summary: Summary, first: Sequence[str], behind: Sequence[str]) -> dict[str, list[str]]:
    """For each of the first tier whom it is shown to beat; those further behind are named once, after the best of them."""
    found: dict[str, list[str]] = {label: [] for label in first}
    for label in behind:
        better = [one for one in first if _shown(summary, one, label)]
        if better:
            found[better[0]].append(label)
    return {label: beaten for label, beaten in found.items() if beaten or len(first) == 1}


def _differ(summary: Summary, labels: Sequence[str]) -> bool:
    """Whether the test of any two of these shows a difference, whatever that hangs on."""
    among = [pair for pair in summary.comparisons if {pair.first, pair.second} <= set(labels)]
    return any(pair.separated or (pair.p_corrected < SURE and pair.difference > 0) for pair in among)


def _turning(summary: Summary) -> Alternative | None:
    """What, counted the other way, would change who is at the top."""
    if not summary.alternatives:
        return None
    usual, *others = summary.alternatives
    top = usual.leader, set(usual.tiers[0])
    turning = [other for other in others if (other.leader, set(other.tiers[0])) != top]
    # Each may leave the top as it is, and both together not.
    together = [others[0]] if (summary.leader, set(summary.tiers[0])) != top else []
    return next(iter([*turning, *together]), None)


def _turned_facts(summary: Summary, other: Alternative) -> dict[str, Any]:
    usual = summary.alternatives[0]
    return {
        "counted": other.counted,
        "top": list(usual.tiers[0]),
        "leader": usual.leader,
        "other_top": list(other.tiers[0]),
        "other_leader": other.leader,
        "turned": [list(pair) for pair in other.turned],
    }


def _check(summary: Summary, claim: Claim) -> None:
    """No sentence may contradict the tests it is made from."""
    facts = claim.facts
    if claim.kind == "tie":
        assert facts["p_corrected"] >= SURE, "a tie with a difference that is shown"
        assert not _differ(summary, facts["tied"]), "a tie of contestants of whom one is shown to be better"
        assert all(_shown(summary, one, label) for one, beaten in facts["ahead"].items() for label in beaten)
    if claim.kind == "leads":
        others = {model.label for model in summary.ranked if model.label != facts["first"]}
        assert others <= _beaten(summary, facts["first"]), "a leader not shown better than everyone"


def _beaten(summary: Summary, label: str) -> set[str]:
    """Everyone that a contestant is shown to be better than, also by way of another."""
    beaten, new = set[str](), {label}
    while new:
        new = {pair.second for pair in summary.comparisons if pair.separated and pair.first in new} - beaten
        beaten |= new
    return beaten


def _chosen_facts(chosen: Chosen) -> dict[str, Any]:
    names = ("label", "chosen_from", "chosen_on", "score_where_chosen", "samples", "score", "low", "high")
    return {
        **{name: getattr(chosen, name) for name in names},
        "better_than": [rival.label for rival in chosen.rivals if rival.better],
        "worse_than": [rival.label for rival in chosen.rivals if rival.worse],
        "not_shown": [rival.label for rival in chosen.rivals if not (rival.better or rival.worse)],
        "depends_on_failures": [rival.label for rival in chosen.rivals if rival.depends_on_failures],
    }


def _good_enough(summary: Summary) -> list[Claim]:
    """Which contestant is the cheapest that will do."""
    found = summary.good_enough
    if found is None:
        return []
    facts = {name: getattr(found, name) for name in ("margin", "label", "risk")}
    price = per_thousand(found.cost_per_trial)
    return [Claim("good_enough", {**facts, "usd_per_1000": price, "cheaper": list(found.cheaper)})]


def _fragile(summary: Summary, contest: Claim) -> list[Claim]:
    """How few answers, judged otherwise, would overturn what was just said: of a leader, in any of its comparisons."""
    if contest.kind not in ("leads", "tie"):
        return []
    first = contest.facts["first"]
    own = [pair.changes_to_overturn for pair in summary.comparisons if pair.first == first and pair.separated]
    needed = own if contest.kind == "leads" else [contest.facts["changes_to_overturn"]]
    known = [count for count in needed if count is not None]
    # The pair that is not known of may be the one that the fewest answers overturn.
    if not known or len(known) < len(needed):
        return []
    return [Claim("fragile", {"changes": min(known), "verdict": contest.kind, "samples": contest.facts["samples"]})]


def _effects(summary: Summary) -> list[Claim]:
    """For each factor, whether its best level is shown to be better than the next, with all else equal."""
    found = []
    for factor in summary.factors:
        best, *others = [level.level for level in factor.levels]
        pairs = [effect for effect in factor.effects if best in (effect.first, effect.second)]
        if not pairs:
            continue
        closest = min(pairs, key=lambda effect: effect.difference if effect.first == best else -effect.difference)
        names = ("first", "second", "difference", "low", "high", "p_corrected", "samples", "cells", "separated", "depends_on")
        facts = {name: getattr(closest, name) for name in names}
        found.append(Claim("effect", {"factor": factor.name, "levels": [best, *others], "tests": len(factor.effects), **facts}))
    return found


def _with_score(summary: Summary) -> int:
    return sum(m.score is not None for m in summary.tested)


def _score_facts(model: ContestantSummary) -> dict[str, Any]:
    return {"model": model.label, "score": model.score, "low": model.low, "high": model.high, "samples": model.samples}


def _pair_facts(summary: Summary, pair: Comparison) -> dict[str, Any]:
    names = (
        *("first", "second", "samples", "difference", "low", "high", "p_corrected", "smallest_difference", "samples_needed"),
        "changes_to_overturn",
    )
    return {**{name: getattr(pair, name) for name in names}, "tests": len(summary.comparisons)}


def _shown(summary: Summary, better: str, worse: str) -> bool:
    pair = summary.comparison(better, worse)
    return pair is not None and pair.separated and pair.first == better


def _scale(summary: Summary) -> list[Claim]:
    """Samples that are too easy or too hard for most models rank nobody."""
    ranked = summary.ranked
    if len(ranked) < 2 or min(m.samples for m in ranked) < _ENOUGH_TO_SCALE:
        return []
    above = sum((m.score or 0.0) > CEILING for m in ranked)
    below = sum((m.score or 0.0) < FLOOR for m in ranked)
    facts = {"of": len(ranked), "dataset": summary.info.protocol.dataset}
    if 2 * above > len(ranked) and above > 1:
        return [Claim("ceiling", {**facts, "count": above, "bound": CEILING})]
    if 2 * below > len(ranked) and below > 1:
        return [Claim("floor", {**facts, "count": below, "bound": FLOOR})]
    return []


def _cost(summary: Summary) -> list[Claim]:
    """Who is the cheapest of the best, where these are several."""
    costs = summary.costs
    if costs is None or len(summary.tiers[0]) < 2:
        return []
    prices = {m.label: m.cost_per_trial for m in summary.ranked}
    each = {label: per_thousand(prices[label]) for label in costs.compared}
    return [Claim("cost", {**_value_facts(costs), "usd_per_1000_answers": each})]


def _speed(summary: Summary) -> list[Claim]:
    """Who is the fastest of the best, where these are several and their times can be compared."""
    speeds = summary.speeds
    if speeds is None or len(summary.tiers[0]) < 2:
        return []
    latencies = {m.label: m.latency for m in summary.ranked if m.latency is not None}
    flights = {label: latencies[label].in_flight for label in speeds.compared if label in latencies}
    medians = {label: latencies[label].p50_s for label in speeds.compared if label in latencies}
    alone = {label: latencies[label].alone_p50_s for label in speeds.compared if label in latencies}
    taken = alone if speeds.basis == ALONE and all(alone.values()) else medians
    facts = {**_value_facts(speeds), "median_s": taken, "in_flight": flights, "basis": speeds.basis}
    return [Claim("speed", facts)]


def _value_facts(value: Value) -> dict[str, Any]:
    pair = nearest(value)
    return {
        "least": value.least,
        "among": list(value.compared),
        "unknown": list(value.unknown),
        "nearest": None if pair is None else _ratio_facts(pair),
        "tests": len(value.ratios),
    }


def _ratio_facts(pair: ValueRatio) -> dict[str, Any]:
    names = ("first", "second", "samples", "ratio", "low", "high", "p_corrected", "separated")
    return {name: getattr(pair, name) for name in names}


def _readings(summary: Summary) -> list[Claim]:
    """How many answers a second rule judges otherwise."""
    read, differ = (sum(getattr(m, name) for m in summary.tested) for name in ("second_readings", "readings_differ"))
    by_label = {m.label: m.readings_differ for m in summary.tested if m.readings_differ}
    return [Claim("readings", {"read_twice": read, "differ": differ, "by_contestant": by_label})] if differ else []


def _looks(summary: Summary) -> list[Claim]:
    """How often somebody looked early, or asked for more, and what that costs."""
    facts = {"looks": summary.looks, "extensions": summary.extensions, "error": summary.error}
    return [Claim("looks", facts)] if (summary.looks or summary.extensions) and summary.comparisons else []


def _noise(summary: Summary) -> list[Claim]:
    """Whether more repeats or more samples would make the first two easier to tell apart."""
    return [] if summary.noise is None else [Claim("noise", asdict(summary.noise))]


def _raced(summary: Summary) -> list[Claim]:
    """What a race spared, and of whom."""
    spared = [c for c in summary.tested if c.decided]
    if not spared:
        return []
    costs = [None if c.cost_per_trial is None else c.cost_per_trial * c.not_asked for c in spared]
    facts = {
        "asked": sum(c.asked for c in summary.tested),
        "planned": sum(c.planned for c in summary.tested),
        "decided": {c.label: {"asked": c.asked, "planned": c.planned, "why": c.message} for c in spared},
        "saved_usd": None if None in costs else sum(cost or 0.0 for cost in costs),
        # They are asked at the same time: the one that would have taken longest counts.
        "saved_s": max(c.seconds / c.asked * c.not_asked if c.asked else 0.0 for c in spared),
    }
    return [Claim("raced", facts)]


def _left_out(summary: Summary) -> list[Claim]:
    failed = {m.label: dict(m.failures) for m in summary.tested if m.failed}
    unjudged = {m.label: m.unjudged for m in summary.tested if m.unjudged}
    unranked = {m.label: {"state": m.state, "answered": m.answered, "planned": m.planned} for m in summary.unfinished}
    facts = {"failed": failed, "unjudged": unjudged, "unranked": unranked}
    return [Claim("left_out", facts)] if failed or unjudged or unranked else []


def _against_reference(summary: Summary) -> list[Claim]:
    """Whether the best is above what guessing, or doing nothing, gives."""
    floors = [m for m in summary.references if m.score is not None and m.contestant.agent.name != "solution"]
    ranked = summary.ranked
    if not floors or not ranked:
        return []
    floor, best = floors[0], ranked[0]
    kind = "above_reference" if _is_above(best, floor) else "not_above_reference"
    return [Claim(kind, {**_score_facts(best), "reference": floor.label, "reference_score": floor.score})]


def _is_above(best: ContestantSummary, floor: ContestantSummary) -> bool:
    """Whether the interval of their difference, made of both their intervals, lies above zero: the floor is measured too."""
    assert best.score is not None and floor.score is not None
    return best.score - floor.score > math.hypot(best.score - best.low, floor.high - floor.score)


# --- how it is told ---------------------------------------------------------------------------------


def _tell_nothing(facts: Facts) -> str:
    if facts["shard"]:
        return f"Nothing is compared: this is shard {facts['shard']} of a run. Merge all of them to see who is better."
    if facts["unseen"]:
        return (
            "Nothing is compared: the run is not finished, and its store cannot be written to. Early looks at a comparison are"
            " recorded there, because they make false differences more likely."
        )
    if facts["contestants"] == 0:
        return "Only baselines and controls were run: there is nobody to rank."
    if facts["with_score"] == 0:
        return "Nothing can be said: no model has a result."
    return "Nothing can be said of who is better: fewer than two models answered enough of the same samples."


def _tell_score(facts: Facts) -> str:
    interval = f"95 % interval {facts['low']:.2f} to {facts['high']:.2f}"
    return f"{facts['model']} scores {facts['score']:.2f} on {number(facts['samples'], 'sample')} ({interval})."


def _tell_leads(facts: Facts) -> str:
    if len(facts["behind"]) == 1:
        return f"{facts['first']} is better than {facts['second']} by {_by(facts)}."
    nearest = f"the least clear difference is the one to {facts['second']}, {_by(facts)}"
    return f"{facts['first']} is better than {listed(facts['behind'])}: {nearest}.{_depending(facts)}"


def _tell_good_enough(facts: Facts) -> str:
    margin = points(facts["margin"])
    if facts["label"] is None:
        return f"Nobody is shown to be within {margin} of the best; more samples, or a wider --margin, may show it."
    price, cheaper = per_thousand_words(facts["usd_per_1000"]), facts["cheaper"]
    rest = f" Not shown to be, though cheaper: {listed(cheaper)}." if cheaper else ""
    said = f"{facts['label']} is the cheapest that is shown to be within {margin} of the best, at {price}"
    return f"{said} (risk at most {facts['risk']:.0%}).{rest}"


def _tell_fragile(facts: Facts) -> str:
    answers = "One answer" if facts["changes"] == 1 else f"{facts['changes']:,} answers"
    would = "the lead would not be shown" if facts["verdict"] == "leads" else "a difference would be shown"
    return f"{answers} judged otherwise, and {would}."


def _depending(facts: Facts) -> str:
    """What the tiers below hang on."""
    what = [OTHERWISE[counted] for counted in facts["tiers_depend_on"]]
    return f" The order behind changes {' or '.join(what)}." if what else ""


OTHERWISE = {FAILURES: "if failed trials count as wrong", READING: "if answers are read by the second rule"}
_AS_COUNTED = {FAILURES: "with failed trials left out", READING: "by the first reading of the answers"}


def _tell_depends(facts: Facts) -> str:
    now, other = _top(facts["leader"], facts["top"]), _top(facts["other_leader"], facts["other_top"])
    counted = facts["counted"]
    return f"There is no leader: {_AS_COUNTED[counted]} {now}, but {OTHERWISE[counted]} {other}."


def _top(leader: str | None, top: Sequence[str]) -> str:
    if leader is not None:
        return f"{leader} is better than every other"
    return f"{listed(top)} are tied at the top" if len(top) > 1 else f"{top[0]} is at the top, but not better than every other"


def _tell_unsettled(facts: Facts) -> str:
    better = f"{facts['first']} is better than {listed(facts['better_than'])}, but" if facts["better_than"] else facts["first"]
    return f"There is no leader: {better} is not shown to be better than {listed(facts['not_shown'])}.{_depending(facts)}"


def _tell_contradiction(facts: Facts) -> str:
    return (
        f"Nothing can be said of who is best: the comparisons of {listed(facts['among'])} contradict each other, because"
        " each pair answered other samples. Resume the run and retry what failed."
    )


def _tell_chosen(facts: Facts) -> str:
    interval = f"95 % interval {facts['low']:.2f} to {facts['high']:.2f}"
    where = f"chosen from {facts['chosen_from']} on {number(facts['chosen_on'], 'sample')}"
    said = f"{facts['label']}, {where}, scores {facts['score']:.2f} on {number(facts['samples'], 'other')} ({interval})"
    parts = [f"better than {listed(facts['better_than'])}"] if facts["better_than"] else []
    parts += [f"worse than {listed(facts['worse_than'])}"] if facts["worse_than"] else []
    parts += [f"not shown to differ from {listed(facts['not_shown'])}"] if facts["not_shown"] else []
    flattered = f"Where it was chosen it scored {facts['score_where_chosen']:.2f}."
    if turned := facts["depends_on_failures"]:
        flattered += f" Against {listed(turned)} it depends on whether failed trials count as wrong."
    return f"{said}: there it is {', and '.join(parts)}. {flattered}" if parts else f"{said}. {flattered}"


def _tell_effect(facts: Facts) -> str:
    first, second = (level or f"no {facts['factor']}" for level in (facts["first"], facts["second"]))
    over = f"over {number(facts['cells'], 'combination')} of the rest"
    interval = f"95 % interval {100 * facts['low']:.1f} to {100 * facts['high']:.1f}"
    by = f"{points(facts['difference'])} ({interval}; {_probability(facts)})"
    if facts["separated"]:
        return f"Effect of the {facts['factor']}: {first} is better than {second} by {by}, {over}."
    differ = f"Effect of the {facts['factor']}: {first} and {second} differ by {by}, {over}"
    if turned := [OTHERWISE[counted] for counted in facts["depends_on"]]:
        return f"{differ}, but not {listed(turned)}: none is claimed."
    return f"{differ}: no effect is shown."


def _by(facts: Facts) -> str:
    interval = f"95 % interval {100 * facts['low']:.1f} to {100 * facts['high']:.1f}"
    on = f"on {number(facts['samples'], 'common sample')}"
    return f"{points(facts['difference'])} {on} ({interval}; {_probability(facts)})"


def _probability(facts: Facts) -> str:
    p = probability(facts["p_corrected"])
    return p if facts["tests"] == 1 else f"{p}, corrected for {facts['tests']} tests"


def _tell_tie(facts: Facts) -> str:
    tied, ahead = facts["tied"], facts["ahead"]
    top = " at the top" if ahead or facts["otherwise"] else ""
    shown = "none is shown to be better than another" if len(tied) > 2 else "neither is shown to be better"
    between = f"{facts['first']} and {facts['second']} differ by {points(facts['difference'])}; {_probability(facts)}"
    said = f"{listed(tied)} are tied{top}: on {number(facts['samples'], 'common sample')} {shown} ({between})."
    behind = "".join(f" {label} is better than {listed(beaten)}." for label, beaten in ahead.items())
    return f"{said} {_more(facts)}{behind}{_depending(facts)}{_told_otherwise(facts['otherwise'])}"


def _told_otherwise(otherwise: Facts | None) -> str:
    """What another way of counting would show of a tie."""
    if otherwise is None:
        return ""
    counted = OTHERWISE[otherwise["counted"]]
    return f" {counted[0].upper()}{counted[1:]}, {_top(otherwise['leader'], otherwise['top'])}."


def _more(facts: Facts) -> str:
    """What it would take to know more."""
    between = f"between {facts['first']} and {facts['second']}" if len(facts["tied"]) > 2 else ""
    could = f"This run could have shown a difference of {points(facts['smallest_difference'])} {between}".rstrip()
    if facts["samples_needed"] is None:
        return f"{could}; none was found."
    # A run that ended early was tested otherwise than at its planned end.
    could = "" if facts["difference"] >= facts["smallest_difference"] else f"{could}. "
    return f"{could}To separate {facts['first']} from {facts['second']} would take {_forecast(facts)}."


def _forecast(facts: Facts) -> str:
    """From how many samples it is as likely as not that the difference is shown, if it is the true one; it may be none."""
    few, many = (max(needed, facts["samples"] + 1) for needed in facts["samples_needed"])
    if few > _AS_GOOD_AS_EQUAL:
        return f"more than {_AS_GOOD_AS_EQUAL:,} samples; perhaps it never happens"
    upper = f"about {rounded(many):,}" if many <= _AS_GOOD_AS_EQUAL else f"more than {_AS_GOOD_AS_EQUAL:,}"
    return f"from {rounded(few):,} to {upper} samples if this difference is real; if it is smaller, more, perhaps for ever"


def _tell_ceiling(facts: Facts) -> str:
    above = f"{facts['count']} of {facts['of']} are above {facts['bound']:.0%}"
    return f"{above}: this set cannot rank them; try harder samples{_hint(facts, 'truthfulness')}."


def _tell_floor(facts: Facts) -> str:
    below = f"{facts['count']} of {facts['of']} are below {facts['bound']:.0%}"
    return f"{below}: this set cannot rank them; try easier samples{_hint(facts, 'warmup')}."


def _hint(facts: Facts, dataset: str) -> str:
    return "" if facts["dataset"].startswith(dataset) else f", such as --dataset {dataset}"


def _tell_cost(facts: Facts) -> str:
    least, prices = facts["least"], facts["usd_per_1000_answers"]
    known = " of those with a known price" if facts["unknown"] else ""
    if least is None:
        return f"No difference in cost is shown between {listed(facts['among'])}{_closest_ratio(facts)}."
    price = per_thousand_words(prices[least])
    return f"Among the best, {least} is the cheapest{known} ({price}){_next_ratio(facts, 'costs')}."


def _tell_speed(facts: Facts) -> str:
    if not facts["basis"]:
        flights = [f"{label} {_flight(facts['in_flight'].get(label))}" for label in facts["among"]]
        return (
            "Nothing can be said about speed: answers were asked for several at a time"
            f" (requests in flight: {listed(flights)}). Measure them one at a time with --timing."
        )
    if facts["least"] is None:
        return f"No difference in speed is shown between {listed(facts['among'])}{_closest_ratio(facts)}."
    known = " of those that were timed" if facts["unknown"] else ""
    median = _seconds(facts["median_s"][facts["least"]])
    took = f"median {median}, {facts['basis']}"
    return f"Among the best, {facts['least']} is the fastest{known} ({took}){_next_ratio(facts, 'takes')}."


def _next_ratio(facts: Facts, verb: str) -> str:
    """The least against the next."""
    pair = facts["nearest"]
    if pair["low"] > _MANY_TIMES:
        return f"; {pair['second']}, the next, {verb} far more"
    interval = f"95 % interval {pair['low']:.2f} to {pair['high']:.2f}; {_probability({**pair, 'tests': facts['tests']})}"
    return f"; {pair['second']}, the next, {verb} {pair['ratio']:.2f} times as much ({interval})"


def _closest_ratio(facts: Facts) -> str:
    pair = facts["nearest"]
    if pair is None or len(facts["among"]) > 2:
        return ""
    return f" (a factor of {pair['ratio']:.2f}; {_probability({**pair, 'tests': facts['tests']})})"


def _flight(requests: float | None) -> str:
    return "unknown" if requests is None else f"{requests:g}"


def _seconds(value: float) -> str:
    return f"{value:.2g} s" if value >= 0.01 else "under 0.01 s"


def _tell_readings(facts: Facts) -> str:
    whose = listed([f"{label} {count:,}" for label, count in facts["by_contestant"].items()])
    of = f"{facts['differ']:,} of {number(facts['read_twice'], 'answer')}"
    return f"A second rule judges {of} otherwise: {whose}. Look through them with the filter “Readings differ”."


def _tell_looks(facts: Facts) -> str:
    looks, extensions = facts["looks"], facts["extensions"]
    parts = [f"looked into {_times(looks)} before its end"] if looks else []
    parts += [f"extended {_times(extensions)}"] if extensions else []
    bound = f"over its whole life the chance of a false difference is at most {facts['error']:.0%}"
    return f"The run was {' and '.join(parts)}: p-values allow for that, and {bound}."


def _times(count: int) -> str:
    return {1: "once", 2: "twice"}.get(count, f"{count:,} times")


_WORTH_TELLING_S = 10.0
"""A shorter time that was saved is none."""


def _tell_raced(facts: Facts) -> str:
    each = "; ".join(
        f"{label} stopped after {one['asked']:,} of {one['planned']:,}: {one['why']}" for label, one in facts["decided"].items()
    )
    amounts = [dollars(facts["saved_usd"])] if facts["saved_usd"] else []
    amounts += [duration(facts["saved_s"])] if facts["saved_s"] >= _WORTH_TELLING_S else []
    saved = f" (about {' and '.join(amounts)})" if amounts else ""
    return f"{facts['asked']:,} of {facts['planned']:,} planned trials were asked; the rest{saved} was not needed. {each}."


def _tell_noise(facts: Facts) -> str:
    share = facts["repeats_share"]
    said = (
        f"Of the uncertainty between {facts['first']} and {facts['second']}, {share:.0%} comes from answers that change when "
        f"repeated, and {1 - share:.0%} from which samples were asked: twice the repeats would narrow the interval by "
        f"{facts['narrower_by_repeats']:.0%}, twice the samples by {facts['narrower_by_samples']:.0%}."
    )
    moved = facts["failures_move"]
    return f"{said} Failed trials could move the difference by up to {points(moved)}." if moved else said


def _tell_left_out(facts: Facts) -> str:
    failed: Mapping[str, Mapping[str, int]] = facts["failed"]
    said = []
    if failed:
        total: Counter[str] = Counter()
        for counts in failed.values():
            total.update(counts)
        whose = listed([f"{label} {sum(counts.values()):,}" for label, counts in failed.items()])
        said.append(f"{number(total.total(), 'trial')} failed and {_are(total.total())} left out: {whose} ({kinds(total)}).")
    if unjudged := facts["unjudged"]:
        count = sum(unjudged.values())
        said.append(f"{number(count, 'answer')} {_are(count)} not judged yet and left out: {_each(unjudged)}.")
    below = [f"{label} ({found['answered']:,} of {found['planned']:,} answered)" for label, found in facts["unranked"].items()]
    if below:
        said.append(f"Not ranked: {listed(below)}.")
    return " ".join(said)


def _each(counts: Mapping[str, int]) -> str:
    return listed([f"{label} {count:,}" for label, count in counts.items()])


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
    "depends": _tell_depends,
    "unsettled": _tell_unsettled,
    "contradiction": _tell_contradiction,
    "chosen": _tell_chosen,
    "effect": _tell_effect,
    "ceiling": _tell_ceiling,
    "floor": _tell_floor,
    "cost": _tell_cost,
    "speed": _tell_speed,
    "readings": _tell_readings,
    "good_enough": _tell_good_enough,
    "fragile": _tell_fragile,
    "looks": _tell_looks,
    "noise": _tell_noise,
    "raced": _tell_raced,
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


def duration(seconds: float) -> str:
    """A time as people say it."""
    if seconds < 60:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes} min" if hours else f"{minutes} min {rest} s"


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
