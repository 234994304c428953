"""Who is preferred where answers were compared two at a time, by judges and by people."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from statistics import fmean
from typing import TYPE_CHECKING, Any

from tiebreak.core.preference import FIRST, SECOND
from tiebreak.core.text import answer_text
from tiebreak.stats.intervals import Estimate, estimate_mean
from tiebreak.store.judgements import HUMAN
from tiebreak.store.reader import StoreReader

if TYPE_CHECKING:
    from tiebreak.stats.preferences import Share

_LEAST = 6
"""With fewer comparisons of a pair no test could show anything, whatever they said."""
_GIVEN = """
    SELECT p.sample, p.first, p.second, a.contestant, b.contestant, p.scorer, p.judge, p.better, s.grouped FROM preferences p
    JOIN trials a ON a.id = p.first AND NOT a.superseded JOIN trials b ON b.id = p.second AND NOT b.superseded
    JOIN samples s ON s.asked = a.asked
    WHERE p.superseded = 0 AND p.better IS NOT NULL ORDER BY p.number
"""
_TEXTS = """
    SELECT id, text FROM trials WHERE superseded = 0 AND id IN (
        SELECT first FROM preferences WHERE superseded = 0 UNION SELECT second FROM preferences WHERE superseded = 0
    )
"""
_ANSWERS = """
    SELECT count(*) FROM trials WHERE superseded = 0 AND text IS NOT NULL
        AND (outcome <> 'failed' OR unjudged IS NOT NULL OR failure_kind = 'unchecked')
        AND contestant IN (SELECT value FROM json_each(?))
    GROUP BY sample, repeat
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Preferred:
    """How often somebody, or something, would be preferred to its equal or to another; with its 95 % interval."""

    share: float
    low: float
    high: float


@dataclass(frozen=True, slots=True, kw_only=True)
class PreferredContestant:
    """One contestant among all that were compared."""

    contestant: str
    preferred: Preferred
    """To an average contestant, at equal length."""
    tier: int
    wins: int
    ties: int
    losses: int


@dataclass(frozen=True, slots=True, kw_only=True)
class PairSummary:
    """Two contestants, the one that looks better first."""

    first: str
    second: str
    preferred: Preferred
    """How often the first would be preferred to the second, at equal length."""
    wins: int
    ties: int
    losses: int
    p: float
    p_corrected: float
    separated: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class PairAgreement:
    """How far verdicts of several people, or of people and judges, on the same two answers agree."""

    between: str
    pairs: int
    alike: float
    alpha: float | None = None
    low: float = -1.0
    high: float = 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class PreferenceSummary:
    """Everything that verdicts on two answers at a time say."""

    by: str
    """judges or people."""
    names: tuple[str, ...]
    """Which judges, or which people."""
    compared: int
    """Pairs of answers with a verdict; of judges, in both orders."""
    possible: int
    """Pairs of answers there are in the run."""
    samples: int
    contestants: tuple[PreferredContestant, ...]
    """Tier by tier, the best first."""
    pairs: tuple[PairSummary, ...]
    leader: str | None
    position: Preferred
    """How often the answer shown first is preferred to its equal."""
    length: Preferred | None
    """How often an answer is preferred to its equal of half the length; None where lengths do not differ."""
    consistency: Estimate | None = None
    """The share of pairs on which both orders give the same verdict; None for people, who see one order."""
    agreements: tuple[PairAgreement, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class _Given:
    """One verdict, as it was given."""

    sample: str
    cluster: str
    first: str
    second: str
    contestants: tuple[int, int]
    who: str
    better: int

    @property
    def pair(self) -> tuple[str, str]:
        """The two trials, whatever the order."""
        return min(self.first, self.second), max(self.first, self.second)

    @property
    def points(self) -> float:
        """Of the answer shown first; a tie and two bad answers are one half."""
        return {FIRST: 1.0, SECOND: 0.0}.get(self.better, 0.5)


@dataclass(slots=True)
class _Pair:
    """What one judge or person says of two answers, after all orders they were shown in."""

    sample: str
    contestants: tuple[int, int]
    """Of the trials in their order."""
    points: list[float] = field(default_factory=list)
    """Of the first trial, in each order."""

    @property
    def verdict(self) -> float:
        """1 or 0 where all orders say so, else a tie."""
        return self.points[0] if len(set(self.points)) == 1 else 0.5


def summarise_preferences(reader: StoreReader) -> tuple[PreferenceSummary, ...]:
    """Who is preferred by judges, and by people; nothing where nothing was compared."""
    given: dict[str, list[_Given]] = {"judges": [], "people": []}
    for sample, first, second, one, other, scorer, judge, better, group in reader.rows(_GIVEN):
        who = judge or scorer.removeprefix(HUMAN)
        verdict = _Given(
            sample=sample,
            cluster=group or sample,
            first=first,
            second=second,
            contestants=(one, other),
            who=who,
            better=better,
        )
        given["judges" if judge else "people"].append(verdict)
    # A judge that was asked in one order only has not compared the two yet.
    given["judges"] = _in_both_orders(given["judges"])
    if not any(given.values()):
        return ()
    lengths = {trial: len(answer_text(text).strip()) for trial, text in reader.rows(_TEXTS)}
    possible = _possible(reader)
    agreements = _agreements(given["judges"], given["people"])
    return tuple(
        _summary(reader, by, rows, lengths, possible=possible, agreements=agreements if by == "people" else ())
        for by, rows in given.items()
        if rows
    )


def _in_both_orders(given: Sequence[_Given]) -> list[_Given]:
    orders: dict[tuple[str, tuple[str, str]], set[str]] = defaultdict(set)
    for one in given:
        orders[one.who, one.pair].add(one.first)
    return [one for one in given if len(orders[one.who, one.pair]) == 2]


def _possible(reader: StoreReader) -> int:
    numbers = [reader.numbers[c.label] for c in reader.info.contestants if not c.reference]
    counts = (row[0] for row in reader.rows(_ANSWERS, str(numbers)))
    return sum(count * (count - 1) // 2 for count in counts)


def _judged_pairs(given: Iterable[_Given]) -> dict[tuple[str, tuple[str, str]], _Pair]:
    """By who and which two answers, the verdict after all orders."""
    pairs: dict[tuple[str, tuple[str, str]], _Pair] = {}
    for one in given:
        turned = one.first != one.pair[0]
        contestants = one.contestants[::-1] if turned else one.contestants
        pair = pairs.setdefault((one.who, one.pair), _Pair(one.cluster, contestants))
        pair.points.append(1 - one.points if turned else one.points)
    return pairs


def _summary(
    reader: StoreReader,
    by: str,
    given: Sequence[_Given],
    lengths: Mapping[str, int],
    *,
    possible: int,
    agreements: tuple[PairAgreement, ...],
) -> PreferenceSummary:
    from tiebreak.stats.preferences import Verdict, fit_preferences

    labels = {number: label for label, number in reader.numbers.items()}
    rows = {number: row for row, number in enumerate(sorted({n for one in given for n in one.contestants}))}
    clusters = {name: number for number, name in enumerate(dict.fromkeys(one.cluster for one in given))}
    found = fit_preferences(
        [
            Verdict(
                first=rows[one.contestants[0]],
                second=rows[one.contestants[1]],
                points=one.points,
                longer=math.log2((lengths[one.first] + 1) / (lengths[one.second] + 1)),
                cluster=clusters[one.cluster],
            )
            for one in given
        ],
        len(rows),
    )
    names = {row: labels[number] for number, row in rows.items()}
    judged = _judged_pairs(given)
    scores = _scores(judged.values(), rows)
    tiers = {row: tier for tier, own in enumerate(found.tiers, start=1) for row in own}
    return PreferenceSummary(
        by=by,
        names=tuple(dict.fromkeys(one.who for one in given)),
        compared=len({one.pair for one in given}),
        possible=possible,
        samples=len({one.sample for one in given}),
        contestants=tuple(
            _contestant(names[row], found.strengths[row], tiers[row], scores, row) for own in found.tiers for row in own
        ),
        pairs=tuple(
            _pair(names, pair.first, pair.second, pair.preferred, scores, p=(pair.p, pair.corrected), better=found.better)
            for pair in found.pairs
        ),
        leader=None if found.leader is None else names[found.leader],
        position=_preferred(found.position),
        length=None if found.length is None else _preferred(found.length),
        consistency=_consistency(judged.values()) if by == "judges" else None,
        agreements=agreements,
    )


def _scores(judged: Iterable[_Pair], rows: Mapping[int, int]) -> dict[tuple[int, int], list[int]]:
    """By two contestants' rows, how often the first won, tied and lost; from either side."""
    scores: dict[tuple[int, int], list[int]] = defaultdict(lambda: [0, 0, 0])
    for pair in judged:
        a, b = rows[pair.contestants[0]], rows[pair.contestants[1]]
        place = {1.0: 0, 0.5: 1, 0.0: 2}[pair.verdict]
        scores[a, b][place] += 1
        scores[b, a][2 - place] += 1
    return scores


def _contestant(
    label: str, strength: Share | None, tier: int, scores: Mapping[tuple[int, int], Sequence[int]], row: int
) -> PreferredContestant:
    assert strength is not None, "it was compared"
    wins, ties, losses = (sum(own[place] for (a, _), own in scores.items() if a == row) for place in range(3))
    return PreferredContestant(contestant=label, preferred=_preferred(strength), tier=tier, wins=wins, ties=ties, losses=losses)


def _pair(
    names: Mapping[int, str],
    first: int,
    second: int,
    preferred: Share,
    scores: Mapping[tuple[int, int], Sequence[int]],
    *,
    p: tuple[float, float],
    better: frozenset[tuple[int, int]],
) -> PairSummary:
    own = _preferred(preferred)
    if own.share < 0.5:
        first, second, own = second, first, Preferred(share=1 - own.share, low=1 - own.high, high=1 - own.low)
    wins, ties, losses = scores[first, second]
    return PairSummary(
        first=names[first],
        second=names[second],
        preferred=own,
        wins=wins,
        ties=ties,
        losses=losses,
        p=p[0],
        p_corrected=p[1],
        separated=(first, second) in better or (second, first) in better,
    )


def _preferred(share: Share) -> Preferred:
    return Preferred(share=share.share, low=share.low, high=share.high)


def _consistency(judged: Iterable[_Pair]) -> Estimate:
    """How often both orders give the same verdict."""
    pairs = [(float(len(set(pair.points)) == 1), pair.sample) for pair in judged]
    return estimate_mean([same for same, _ in pairs], [sample for _, sample in pairs])


# --- agreement --------------------------------------------------------------------------------------


def _agreements(judges: Sequence[_Given], people: Sequence[_Given]) -> tuple[PairAgreement, ...]:
    """How far people agree with each other on the same two answers, and judges with them."""
    said: dict[tuple[str, str], list[float]] = defaultdict(list)
    judged: dict[tuple[str, str], list[float]] = defaultdict(list)
    for verdicts, given in ((said, people), (judged, judges)):
        for (_, pair), one in _judged_pairs(given).items():
            verdicts[pair].append(one.verdict)
    samples = {one.pair: one.cluster for one in (*people, *judges)}
    both = {pair: [_middle(judged[pair]), _middle(own)] for pair, own in said.items() if pair in judged}
    found = [_agreement(between, pairs, samples) for between, pairs in (("people", said), ("judges and people", both))]
    return tuple(one for one in found if one is not None)


def _middle(verdicts: Sequence[float]) -> float:
    """What several say together: whom more of them prefer, or a tie."""
    mean = fmean(verdicts)
    return 1.0 if mean > 0.5 else 0.0 if mean < 0.5 else 0.5


def _agreement(
    between: str, pairs: Mapping[tuple[str, str], list[float]], samples: Mapping[tuple[str, str], str]
) -> PairAgreement | None:
    several = {pair: values for pair, values in pairs.items() if len(values) > 1}
    if not several:
        return None
    from tiebreak.stats.agreement import krippendorff_alpha

    alike = fmean(len(set(values)) == 1 for values in several.values())
    numbers = {name: number for number, name in enumerate(dict.fromkeys(samples.values()))}
    found = krippendorff_alpha(list(several.values()), [numbers[samples[pair]] for pair in several])
    if found is None:
        return PairAgreement(between=between, pairs=len(several), alike=alike)
    return PairAgreement(between=between, pairs=len(several), alike=alike, alpha=found.alpha, low=found.low, high=found.high)


# --- in words ---------------------------------------------------------------------------------------

_SHOWN_RAW = 0.01
"""Of a pair's wins and losses as they are: rare enough to be explained where the fit shows nothing."""
_CONTESTANTS = ("Contestant", "Tier", "Preferred to the average", "Wins", "Ties", "Losses")
_PAIRS = ("Pair", "First preferred", "Wins / ties / losses", "p, corrected", "Verdict")


def preference_tables(one: PreferenceSummary) -> dict[str, Any]:
    """The title, the verdict and the tables of one kind of comparisons, as words."""
    rows = [
        (c.contestant, str(c.tier), _range(c.preferred), f"{c.wins:,}", f"{c.ties:,}", f"{c.losses:,}") for c in one.contestants
    ]
    pairs = [
        (
            f"{pair.first} – {pair.second}",
            _range(pair.preferred),
            f"{pair.wins:,} / {pair.ties:,} / {pair.losses:,}",
            f"{pair.p_corrected:.3f}" if pair.p_corrected >= 0.001 else "< 0.001",
            "better" if pair.separated else "tie",
        )
        for pair in one.pairs
    ]
    return {
        "title": f"Answers compared in pairs by {', '.join(one.names)}",
        "verdict": preference_verdict(one),
        "tables": [
            {"name": "contestants", "headings": _CONTESTANTS, "rows": rows},
            {"name": "pairs", "headings": _PAIRS, "rows": pairs},
        ],
    }


def preference_verdict(one: PreferenceSummary) -> str:
    """Who is preferred, in a sentence."""
    if one.leader is not None:
        return f"{one.leader} is preferred to every other contestant."
    if all(pair.wins + pair.ties + pair.losses < _LEAST for pair in one.pairs):
        return f"Nothing can be said yet: {one.compared:,} of {one.possible:,} pairs of answers were compared."
    first = [contestant.contestant for contestant in one.contestants if contestant.tier == 1]
    if len(first) == len(one.contestants):
        return "A tie: nobody is shown to be preferred."
    return f"A tie at the top: nobody is shown to be preferred to {' or '.join(first)}."


def _range(share: Preferred) -> str:
    return f"{share.share:.0%} [{share.low:.0%}, {share.high:.0%}]"


def preference_notes(one: PreferenceSummary) -> list[str]:
    """How much was compared, and what position and length do to the verdicts."""
    orders = "in both orders" if one.by == "judges" else "once by each person at most"
    notes = [
        f"{one.compared:,} of {one.possible:,} pairs of answers were compared, {orders}, on {_counted(one.samples, 'sample')}."
    ]
    if one.consistency is not None:
        shown = Preferred(share=one.consistency.mean, low=one.consistency.low, high=one.consistency.high)
        notes.append(f"Position: both orders give the same verdict on {_range(shown)} of the pairs; the others are ties.")
    notes.append(f"Position: the answer shown first is preferred to its equal in {_range(one.position)} of comparisons.")
    if one.length is not None:
        effect = f"an answer is preferred to its equal of half the length in {_range(one.length)} of comparisons"
        notes.append(f"Length: {effect}. Contestants are compared at equal length.")
    notes += [_length_words(pair) for pair in one.pairs if _is_length_alone(pair)]
    return [*notes, *map(_agreement_words, one.agreements)]


def _is_length_alone(pair: PairSummary) -> bool:
    """Whether the verdicts as they were given show a preference, and the fit at equal length does not."""
    from tiebreak.stats.paired import exact_sign_test

    return not pair.separated and exact_sign_test(pair.wins, pair.losses) < _SHOWN_RAW


def _length_words(pair: PairSummary) -> str:
    more, fewer = (pair.first, pair.second) if pair.wins > pair.losses else (pair.second, pair.first)
    score = f"{max(pair.wins, pair.losses):,} to {min(pair.wins, pair.losses):,}"
    return f"{more} wins against {fewer} by {score}, but at equal length no preference is shown."


def _counted(count: int, noun: str) -> str:
    return f"{count:,} {noun}" if count == 1 else f"{count:,} {noun}s"


def _agreement_words(one: PairAgreement) -> str:
    subject = "People agree" if one.between == "people" else "Judges and people agree"
    alpha = "" if one.alpha is None else f" (Krippendorff's alpha {one.alpha:.2f} [{one.low:.2f}, {one.high:.2f}])"
    return f"{subject} on {one.alike:.0%} of {_counted(one.pairs, 'pair')} of answers{alpha}."
