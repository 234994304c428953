"""Judges: what they did and cost, how far they agree with each other and with people, and scores corrected by people."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from statistics import StatisticsError, correlation, fmean

import msgspec

from tiebreak.core.run import scorer_name
from tiebreak.report.money import dollars
from tiebreak.report.preferences import PreferenceSummary, preference_notes, summarise_preferences
from tiebreak.report.tally import SampleNumbers, Tally
from tiebreak.stats.intervals import Estimate
from tiebreak.store.judgements import HUMAN
from tiebreak.store.reader import StoreReader

LEAST_VOTES = 10
"""So few votes correct nothing."""
_LEAST_ANSWERS = 5
_LEAST_USD = 0.001
_CALLS = "calls, input_tokens, output_tokens, cost_usd, seconds, failure_kind, superseded"
_SAID = f"""(
    SELECT judge, value IS NOT NULL AS given, 0 AS local, 0 AS pairs, {_CALLS} FROM judgements WHERE judge <> ''
    UNION ALL SELECT judge, better IS NOT NULL, local, 1, {_CALLS} FROM preferences WHERE judge <> ''
)"""
_ACCOUNTS = f"""
    SELECT judge, count(*) FILTER (WHERE given AND superseded = 0), total(calls), total(input_tokens),
        total(output_tokens), sum(cost_usd), count(*) FILTER (WHERE calls > 0 AND cost_usd IS NULL), total(seconds), max(local),
        count(*) FILTER (WHERE pairs AND superseded = 0)
    FROM {_SAID} GROUP BY judge
"""
_FAILURES = f"SELECT judge, failure_kind, count(*) FROM {_SAID} WHERE failure_kind IS NOT NULL GROUP BY 1, 2"
_VERDICTS = """
    SELECT j.scorer, j.judge, t.contestant, s.rowid, j.trial, t.score, j.value, j.grades FROM judgements j
    JOIN trials t ON t.id = j.trial AND NOT t.superseded JOIN samples s ON s.asked = t.asked
    WHERE j.superseded = 0 AND j.value IS NOT NULL ORDER BY j.number
"""
_LENGTHS = """
    SELECT t.score, length(t.text), s.metadata FROM trials t JOIN samples s ON s.asked = t.asked
    WHERE t.superseded = 0 AND t.score IS NOT NULL AND t.text IS NOT NULL
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class JudgeSummary:
    """One judge's part of a run."""

    label: str
    current: bool
    """It judges the run as it stands; others judged it before."""
    local: bool = False
    verdicts: int = 0
    failures: Mapping[str, int] = field(default_factory=dict)
    """Answers it gave no verdict on, by kind, those made up for later included."""
    calls: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    cost_usd: float | None = None
    """None when the price of any of its calls is not known."""
    known_cost_usd: float | None = None
    seconds: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class AgreementSummary:
    """How far verdicts on the same answers agree."""

    between: str
    """judges; people; or, of the score that ranks, scorer and people."""
    answers: int
    alike: float
    """The share of answers on which all say pass, or all say fail."""
    alpha: float | None = None
    """Krippendorff's; None where all verdicts are the same."""
    low: float = -1.0
    high: float = 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class CorrectedScore:
    """A contestant's score as people would give it."""

    contestant: str
    raw: float
    score: float
    low: float
    high: float
    bias: float
    """How much the scorer gives too much."""
    bias_low: float
    bias_high: float
    votes: int
    samples: int
    by_votes: Estimate
    """What the votes alone would say."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Judging:
    """What is to be said of the judges of a run, and of people's votes on it."""

    scorer: str
    """The scorer that ranks."""
    judges: tuple[JudgeSummary, ...] = ()
    agreements: tuple[AgreementSummary, ...] = ()
    corrected: tuple[CorrectedScore, ...] = ()
    """Only of contestants that people voted on often enough."""
    votes: int = 0
    people: tuple[str, ...] = ()
    preferences: tuple[PreferenceSummary, ...] = ()
    """Who is preferred where answers were compared two at a time: by judges, and by people."""
    criteria: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    """By contestant, the mean of each criterion of a rubric that has several."""


@dataclass(slots=True, kw_only=True)
class _Said:
    """All verdicts on one answer."""

    contestant: int
    sample: int
    score: float | None
    judges: dict[str, float] = field(default_factory=dict)
    people: dict[str, float] = field(default_factory=dict)
    grades: list[Mapping[str, float]] = field(default_factory=list)


def summarise_judging(reader: StoreReader, tallies: Mapping[int, Tally], numbers: SampleNumbers) -> Judging | None:
    """Everything about judges and votes; None where there are neither."""
    judges = _accounts(reader)
    scorers = reader.info.protocol.scorers
    ranking = scorer_name(scorers[0]) if scorers else ""
    said = _read(reader, ranking, numbers)
    preferences = summarise_preferences(reader)
    if not judges and not said and not preferences:
        return None
    people = sorted({name for one in said for name in one.people})
    labels = {number: label for label, number in reader.numbers.items()}
    return Judging(
        scorer=ranking,
        judges=judges,
        agreements=_agreements(said, numbers),
        corrected=_corrected(said, labels, tallies, numbers),
        votes=sum(len(one.people) for one in said),
        people=tuple(people),
        preferences=preferences,
        criteria=_criteria(said, labels),
    )


def _accounts(reader: StoreReader) -> tuple[JudgeSummary, ...]:
    """What each judge did and cost; those of the run first, in their order."""
    failures: dict[str, Counter[str]] = defaultdict(Counter)
    for judge, kind, count in reader.rows(_FAILURES):
        failures[judge][kind] += count
    current = {judge.label: judge for judge in reader.info.protocol.judges}
    rows = {row[0]: row[1:] for row in reader.rows(_ACCOUNTS)}
    found = []
    for label in [*current, *sorted(set(rows) - set(current))]:
        verdicts, calls, sent, made, cost, unpriced, seconds, local, pairs = rows.get(label, (0, 0, 0, 0, None, 0, 0.0, 0, 0))
        found.append(
            JudgeSummary(
                label=label,
                current=label in current or bool(pairs),
                local=bool(local) or (label in current and current[label].local),
                verdicts=verdicts,
                failures=dict(sorted(failures[label].items())),
                calls=int(calls),
                input_tokens=int(sent),
                output_tokens=int(made),
                cost_usd=None if unpriced else cost,
                known_cost_usd=cost,
                seconds=seconds,
            )
        )
    return tuple(found)


def _read(reader: StoreReader, ranking: str, numbers: SampleNumbers) -> list[_Said]:
    """By answer, what the judges of the ranking scorer and people said of it."""
    current = {judge.label for judge in reader.info.protocol.judges}
    answers: dict[str, _Said] = {}
    for scorer, judge, contestant, sample, trial, score, value, grades in reader.rows(_VERDICTS):
        said = answers.setdefault(trial, _Said(contestant=contestant, sample=numbers[sample], score=score))
        if scorer.startswith(HUMAN):
            said.people[scorer.removeprefix(HUMAN)] = value
        elif scorer == ranking and judge in current:
            said.judges[judge] = value
            said.grades += [msgspec.json.decode(grades)] if grades else []
    return list(answers.values())


def _criteria(said: Sequence[_Said], labels: Mapping[int, str]) -> dict[str, dict[str, float]]:
    grades: dict[str, dict[str, list[float]]] = defaultdict(lambda: defaultdict(list))
    for one in said:
        for given in one.grades:
            for name, grade in given.items():
                grades[labels[one.contestant]][name].append(grade)
    return {label: {name: fmean(values) for name, values in own.items()} for label, own in grades.items()}


# --- agreement --------------------------------------------------------------------------------------


def _agreements(said: Sequence[_Said], numbers: SampleNumbers) -> tuple[AgreementSummary, ...]:
    kinds = {
        "judges": [(list(one.judges.values()), one.sample) for one in said],
        "people": [(list(one.people.values()), one.sample) for one in said],
        "scorer and people": [
            ([one.score, fmean(one.people.values())], one.sample) for one in said if one.people and one.score is not None
        ],
    }
    found = [_agreement(between, rows, numbers) for between, rows in kinds.items()]
    return tuple(agreement for agreement in found if agreement is not None)


def _agreement(between: str, rows: Sequence[tuple[list[float], int]], numbers: SampleNumbers) -> AgreementSummary | None:
    """Answers to one sample, and samples of one group, stand or fall together."""
    several = [
        (values, sample if numbers.groups is None else numbers.groups[sample]) for values, sample in rows if len(values) > 1
    ]
    if not several:
        return None
    from tiebreak.stats.agreement import krippendorff_alpha

    alike = fmean(len({value >= 0.5 for value in values}) == 1 for values, _ in several)
    found = krippendorff_alpha([values for values, _ in several], [group for _, group in several])
    if found is None:
        return AgreementSummary(between=between, answers=len(several), alike=alike)
    return AgreementSummary(between=between, answers=len(several), alike=alike, alpha=found.alpha, low=found.low, high=found.high)


# --- correction -------------------------------------------------------------------------------------


def _corrected(
    said: Sequence[_Said], labels: Mapping[int, str], tallies: Mapping[int, Tally], numbers: SampleNumbers
) -> tuple[CorrectedScore, ...]:
    """By contestant, its score corrected by the votes on its answers."""
    votes: dict[int, dict[int, list[float]]] = defaultdict(lambda: defaultdict(list))
    for one in said:
        if one.people and one.score is not None:
            votes[one.contestant][one.sample].append(fmean(one.people.values()))
    return tuple(
        _corrected_score(labels[number], tally, votes[number], numbers)
        for number, tally in sorted(tallies.items())
        if len(votes[number]) >= LEAST_VOTES
    )


def _corrected_score(label: str, tally: Tally, votes: Mapping[int, Sequence[float]], numbers: SampleNumbers) -> CorrectedScore:
    from tiebreak.stats.corrected import correct_mean

    answered = [number for number, count in enumerate(tally.counts) if count]
    place = {number: position for position, number in enumerate(answered)}
    verdicts = [tally.sums[number] / tally.counts[number] for number in answered]
    groups = None if numbers.groups is None else [numbers.groups[number] for number in answered]
    found = correct_mean(verdicts, {place[number]: fmean(own) for number, own in votes.items()}, groups)
    assert found is not None, "there are votes"
    return CorrectedScore(
        contestant=label,
        raw=found.raw,
        score=found.mean,
        low=found.low,
        high=found.high,
        bias=found.bias,
        bias_low=found.bias_low,
        bias_high=found.bias_high,
        votes=found.votes,
        samples=found.samples,
        by_votes=found.by_votes,
    )


# --- in words ---------------------------------------------------------------------------------------


JUDGE_HEADINGS = ("Judge", "Verdicts", "Failed", "Calls", "Tokens in / out", "Cost")
CORRECTED_HEADINGS = ("Contestant", "As scored", "Corrected", "Votes alone", "Bias", "Votes")


def judge_rows(judging: Judging) -> list[tuple[str, ...]]:
    """What each judge did and cost, as words."""
    return [
        (
            one.label if one.current else f"{one.label} (before)",
            f"{one.verdicts:,}",
            ", ".join(f"{count:,} {kind.replace('_', ' ')}" for kind, count in one.failures.items()) or "0",
            f"{one.calls:,}",
            f"{one.input_tokens:,} / {one.output_tokens:,}",
            _cost(one),
        )
        for one in judging.judges
    ]


def _cost(judge: JudgeSummary) -> str:
    if judge.local or not judge.calls:
        return "local" if judge.local else "–"
    if judge.cost_usd is None:
        return f"≥ ${judge.known_cost_usd:.4f}" if judge.known_cost_usd else "unknown"
    return f"${judge.cost_usd:.4f}" if judge.cost_usd >= _LEAST_USD or not judge.cost_usd else dollars(judge.cost_usd)


def corrected_rows(judging: Judging) -> list[tuple[str, ...]]:
    """Scores as they are and as people would give them, as words."""
    return [
        (
            one.contestant,
            f"{one.raw:.2f}",
            f"{one.score:.2f} [{one.low:.2f}, {one.high:.2f}]",
            f"{one.by_votes.mean:.2f} [{one.by_votes.low:.2f}, {one.by_votes.high:.2f}]",
            f"{one.bias:+.2f} [{one.bias_low:+.2f}, {one.bias_high:+.2f}]",
            f"{one.votes:,} of {one.samples:,}",
        )
        for one in judging.corrected
    ]


def judging_notes(judging: Judging | None) -> list[str]:
    """What is to be said of judges and people, a sentence each."""
    if judging is None:
        return []
    pairs = [note for one in judging.preferences for note in preference_notes(one)]
    return [*map(_agreement_words, judging.agreements), *_criteria_words(judging), *_votes_words(judging), *pairs]


def _agreement_words(one: AgreementSummary) -> str:
    subject = {"judges": "The judges agree", "people": "People agree"}.get(one.between, "The scores agree with people")
    answers = "1 answer" if one.answers == 1 else f"{one.answers:,} answers"
    alpha = (
        f"Krippendorff's alpha {one.alpha:.2f} [{one.low:.2f}, {one.high:.2f}]"
        if one.alpha is not None
        else "all verdicts are the same, so that agreement cannot be told from habit"
    )
    return f"{subject} on {one.alike:.0%} of {answers} ({alpha})."


def _criteria_words(judging: Judging) -> list[str]:
    return [
        f"{label} by criterion: {', '.join(f'{name} {mean:.2f}' for name, mean in means.items())}."
        for label, means in judging.criteria.items()
    ]


def _votes_words(judging: Judging) -> list[str]:
    if not judging.votes or judging.corrected:
        return []
    return [f"{judging.votes:,} votes of people correct nothing: it takes {LEAST_VOTES} on the answers of a contestant."]


def judge_notes(reader: StoreReader) -> list[str]:
    """How the verdicts of models go with the length of answers, and with people's verdicts that came with the samples."""
    judges = reader.info.protocol.judges
    rows = [(score, length, _human(metadata)) for score, length, metadata in reader.rows(_LENGTHS)] if judges else []
    if len(rows) < _LEAST_ANSWERS:
        return []
    try:
        lengths = correlation([row[1] for row in rows], [row[0] for row in rows])
    except StatisticsError:  # One of them does not vary.
        lengths = None
    names = ", ".join(judge.label for judge in judges)
    said = "" if lengths is None else f": the verdicts correlate with the length of the answers by {lengths:+.2f} (n={len(rows)})"
    notes = [f"Judged by {names}{said}."]
    labelled = [(score, human) for score, _, human in rows if human is not None]
    if labelled:
        alike = sum((score >= 0.5) == (human >= 0.5) for score, human in labelled)
        notes.append(f"It agrees with people on {alike} of {len(labelled)} answers they judged ({alike / len(labelled):.0%}).")
    return notes


def _human(metadata: str) -> float | None:
    try:
        value = (msgspec.json.decode(metadata) or {}).get("human")
    except (msgspec.DecodeError, AttributeError):
        return None
    return float(value) if isinstance(value, (bool, int, float)) else None
