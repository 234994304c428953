"""What the pages show above the samples: verdict, tables, charts, how it was made. The report and the live view share it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tiebreak.core.contestant import Prompting
from tiebreak.core.run import Protocol
from tiebreak.report.browse import FILTERS, SORTS, Census
from tiebreak.report.caveats import caveats
from tiebreak.report.charts import Dot, Point, Times, front_chart, latency_chart, score_chart, seconds
from tiebreak.report.factors import Factor
from tiebreak.report.judging import CORRECTED_HEADINGS, JUDGE_HEADINGS, corrected_rows, judge_rows, judging_notes
from tiebreak.report.money import dollars
from tiebreak.report.preferences import preference_tables
from tiebreak.report.ranking import FAILURES, Comparison
from tiebreak.report.spread import Spreads, spreads
from tiebreak.report.summary import CategorySummary, ContestantSummary, Summary
from tiebreak.report.table import cells, headings, noun, score
from tiebreak.report.verdict import OTHERWISE, claims, duration, kinds, listed, number, probability, verdict
from tiebreak.report.work import TaskComparison, WorkSummary
from tiebreak.report.work_words import HEADINGS as WORK_HEADINGS
from tiebreak.report.work_words import MEDALS, podium, standing, work_cells, work_sentences
from tiebreak.stats.effects import Effect
from tiebreak.store.reader import StoreReader

_MOST_SHADES = 10
_FEW = 10
"""Names that were asked for and are shown; of more, only how many there were."""
Names = Mapping[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """A line of the comparison table."""

    cells: tuple[str, ...]
    values: tuple[float | str, ...]
    """What the cells are sorted by."""
    tier: int | None
    ranks: str


def overview(reader: StoreReader, summary: Summary) -> dict[str, Any]:
    """Everything above the samples; the report and the live view show the same."""
    info = summary.info
    found = spreads(reader, summary)
    return {
        "run_id": info.run_id,
        "title": info.protocol.dataset.removeprefix("tasks:").rpartition("/")[2] or info.protocol.dataset,
        "made_at": f"{info.created_at:%d %B %Y, %H:%M} UTC",
        "counted": _counted(summary),
        "headline": _headline(summary),
        "sentences": verdict(summary),
        "caveats": [f"{said[:1].upper()}{said[1:]}".removesuffix(".") + "." for said in caveats(summary)],
        "table": _table(summary),
        "accounts": [account(contestant) for contestant in summary.listed],
        "by_scorer": _by_scorer(summary),
        "repeats": _repeats(summary),
        "judging": _judging(summary),
        "charts": _charts(summary, found),
        "heat": _heat(summary),
        "factors": [_factor(factor) for factor in summary.factors],
        "pairs": _pairs(summary),
        "made": _made(summary),
        "set_ups": [_set_up(contestant) for contestant in summary.contestants],
        "work": None if summary.tasks is None else _work(summary, summary.tasks),
    }


def browser(summary: Summary, census: Census) -> dict[str, Any]:
    """What the sample browser needs besides the samples."""
    return {
        "labels": [contestant.label for contestant in summary.listed],
        "filters": [(name, words, census.filters[name]) for name, words in FILTERS.items()],
        "sorts": SORTS,
        "categories": sorted(census.categories - {""}),
        "total": census.total,
    }


def _headline(summary: Summary) -> str:
    """The first claim in a few words."""
    claim = claims(summary)[0]
    names = short_names([m.label for m in summary.contestants])
    if claim.kind == "leads":
        return f"{names[claim.facts['first']]} leads"
    if claim.kind == "depends":
        return "No leader: it depends on " + ("failed trials" if claim.facts["counted"] == FAILURES else "how answers are read")
    if claim.kind == "unsettled":
        return f"No leader: {names[claim.facts['first']]} is not ahead of everyone"
    if claim.kind == "chosen":
        return f"{names[claim.facts['label']]}: {claim.facts['score']:.2f} where it was not chosen"
    if claim.kind == "tie":
        return f"A tie: {listed([names[label] for label in claim.facts['tied']])}"
    return f"{names[claim.facts['model']]}: {claim.facts['score']:.2f}" if claim.kind == "score" else "No verdict"


def _counted(summary: Summary) -> str:
    protocol = summary.info.protocol
    repeats = max(1, protocol.repeats)
    parts = [number(len(summary.tested), noun(summary)), number(summary.info.samples, "sample")]
    return " · ".join([*parts, *([f"asked {repeats} times"] if repeats > 1 else [])])


_WORTH = {
    **dict.fromkeys(("Provider", "Time", "p95", "In flight"), "minor"),
    **dict.fromkeys(("Right", "Wrong", "No answer", "Median"), "wide"),
    **dict.fromkeys(("Failed", "Cost", "1,000 answers"), "wide kept"),
}
"""Columns that are shown only when all are asked for, those for a wide window, and those a tablet keeps of these."""


def _table(summary: Summary) -> dict[str, Any]:
    parts = [summary.ranked, summary.unfinished, summary.references]
    columns = (*headings(summary), "Median", "p95", "In flight", "1,000 answers")
    return {
        "headings": columns,
        "worth": [_WORTH.get(column, "") for column in columns],
        "parts": [[_row(model) for model in part] for part in parts if part],
        "tiers": len(summary.tiers) > 1 or any(len(tier) > 1 for tier in summary.tiers),
    }


def _row(model: ContestantSummary) -> Row:
    shown, price = cells(model, note=True), model.cost_per_trial
    latency = model.latency
    p50, p95, flight = (latency.p50_s, latency.p95_s, latency.in_flight) if latency else (None, None, None)
    thousand = "–" if price is None or model.model.local else dollars(1000 * price)
    return Row(
        cells=(*shown, _seconds(p50), _seconds(p95), "–" if flight is None else f"{flight:g}", thousand),
        values=(
            *shown[:2],
            -1.0 if model.score is None else model.score,
            *(model.right, model.wrong, model.no_answer, model.failed, model.seconds, _last(model.cost_usd)),
            *(_last(p50), _last(p95), _last(flight), _last(price)),
        ),
        tier=model.tier,
        ranks="" if model.ranks is None else _range(*model.ranks),
    )


def _seconds(value: float | None) -> str:
    return "–" if value is None else f"{value:.2f} s"


def _last(value: float | None) -> float:
    """What is not known is sorted last."""
    return 1e300 if value is None else value


def _range(best: int, worst: int) -> str:
    return str(best) if best == worst else f"{best}–{worst}"


def account(model: ContestantSummary) -> dict[str, Any]:
    """How a contestant's trials ended, down to the last."""
    silent = {
        "refused": model.refused,
        "empty": model.empty,
        "filtered": model.filtered,
        "cut off": model.cut_off,
        "out of context": model.exhausted,
    }
    wrong = model.score_failures_wrong
    return {
        "label": model.label,
        "numbers": (
            model.planned,
            model.answered,
            model.right,
            model.wrong,
            model.no_answer,
            model.failed,
        ),
        "unjudged": model.unjudged,
        "not_asked": model.not_asked,
        "silent": kinds({kind: count for kind, count in silent.items() if count}),
        "failures": kinds(model.failures),
        "score": score(model),
        "failures_wrong": "–" if wrong is None else f"{wrong:.2f}",
        "readings": f"{model.readings_differ:,} of {model.second_readings:,}" if model.second_readings else "–",
        "state": model.state.replace("_", " ") + (f": {model.message}" if model.message else ""),
        "tokens": f"{model.input_tokens:,} / {model.output_tokens:,}",
        "speed": f"{model.latency.tokens_per_s:.0f}" if model.latency and model.latency.tokens_per_s else "–",
    }


def _by_scorer(summary: Summary) -> dict[str, Any] | None:
    """What every scorer says of every model, where several judged; the first is the one that ranks."""
    names = list(dict.fromkeys(name for model in summary.contestants for name in model.by_scorer))
    rows = [(m.label, [f"{m.by_scorer[name]:.3f}" if name in m.by_scorer else "–" for name in names]) for m in summary.listed]
    return {"names": names, "rows": rows} if names else None


def _judging(summary: Summary) -> dict[str, Any] | None:
    judging = summary.judging
    if judging is None:
        return None
    return {
        "headings": JUDGE_HEADINGS,
        "judges": judge_rows(judging),
        "corrected_headings": CORRECTED_HEADINGS,
        "corrected": corrected_rows(judging),
        "preferences": [preference_tables(one) for one in judging.preferences],
        "notes": judging_notes(judging),
    }


def _repeats(summary: Summary) -> dict[str, Any] | None:
    ks = sorted({k for model in summary.contestants for k in model.pass_at})
    if not ks:
        return None
    return {"ks": ks, "rows": [(m.label, [_or_dash(m.pass_at, k) for k in ks], [_or_dash(m.pass_all, k) for k in ks])
                               for m in summary.listed]}  # fmt: skip


def _or_dash(found: Mapping[int, float], k: int) -> str:
    return f"{found[k]:.2f}" if k in found else "–"


def short_names(labels: Sequence[str]) -> dict[str, str]:
    """Labels without the provider before them, where that still tells them apart."""
    plain = {label: label.rpartition("/")[2] or label for label in labels}
    taken = Counter(plain.values())
    return {label: name if taken[name] == 1 else label for label, name in plain.items()}


def _charts(summary: Summary, found: Spreads) -> list[dict[str, Any]]:
    """The drawings there are numbers for."""
    scored = [m for m in summary.listed if m.score is not None]
    names = short_names([m.label for m in summary.contestants])
    charts = []
    if scored:
        charts.append({"title": "Scores", "svg": score_chart([_dot(m, names) for m in scored]), "note": _scores_note(summary)})
    timed = [m for m in scored if m.latency is not None]
    if timed:
        svg = latency_chart([_times(m, found, names) for m in timed], found.fastest_s, found.slowest_s)
        charts.append(
            {"title": "Time of an answer", "svg": svg, "note": "The model’s own time; waits and remembered answers left out."}
        )
    return [*charts, *_fronts(summary, found, names)]


def _scores_note(summary: Summary) -> str:
    several = "Each shade is a tier: those of one shade are not shown to differ. "
    return (several if len(summary.tiers) > 1 else "") + "Overlapping intervals do not make a tie; the paired test decides."


def _fronts(summary: Summary, found: Spreads, names: Names) -> list[dict[str, Any]]:
    charts = []
    paid = [m for m in summary.ranked if m.cost_per_trial is not None and not m.model.local]
    if len(paid) > 1:
        points = [_priced(m, found.by_label[m.label].cost_usd, summary.cost_front, names) for m in paid]
        label = "Dollars per 1,000 answers, with the 95 % interval"
        svg = front_chart(points, title="Cost and quality", x_label=label, x_words=dollars)
        charts.append({"title": "Cost and quality", "svg": svg, "note": _left_out(summary, paid, "a known price")})
    timed = [m for m in summary.ranked if m.latency is not None]
    if len(timed) > 1:
        medians = [(m, m.latency.p50_s) for m in timed if m.latency]
        points = [_point(m, p50, found.by_label[m.label].median_s, summary.latency_front, names) for m, p50 in medians]
        svg = front_chart(points, title="Time and quality", x_label="Median seconds, with its 95 % interval", x_words=seconds)
        charts.append({"title": "Time and quality", "svg": svg, "note": _left_out(summary, timed, "times")})
    return charts


def _left_out(summary: Summary, there: Sequence[ContestantSummary], what: str) -> str:
    missing = [m.label for m in summary.ranked if m not in there]
    without = f" Without {what}, and so not here: {', '.join(missing)}." if missing else ""
    return "The line is the Pareto front: nobody on it is beaten in one without losing in the other." + without


def _dot(model: ContestantSummary, names: Names) -> Dot:
    return Dot(
        label=model.label,
        name=names[model.label],
        value=model.score,
        low=model.low,
        high=model.high,
        tier=model.tier,
        reference=model.reference,
        shown=score(model),
    )


def _times(model: ContestantSummary, found: Spreads, names: Names) -> Times:
    assert model.latency is not None
    return Times(
        label=model.label,
        name=names[model.label],
        bins=found.by_label[model.label].bins,
        median_s=model.latency.p50_s,
        p95_s=model.latency.p95_s,
        tier=model.tier,
        reference=model.reference,
    )


def _priced(model: ContestantSummary, interval: tuple[float, float] | None, front: Sequence[str], names: Names) -> Point:
    """What a thousand answers cost."""
    low, high = interval or (0.0, 0.0)
    return _point(model, 1000 * (model.cost_per_trial or 0.0), (1000 * low, 1000 * high) if interval else None, front, names)


def _point(model: ContestantSummary, x: float, interval: tuple[float, float] | None, front: Sequence[str], names: Names) -> Point:
    return Point(
        label=model.label,
        name=names[model.label],
        x=x,
        x_interval=interval,
        y=model.score or 0.0,
        y_interval=(model.low, model.high),
        in_front=model.label in front,
    )


def _factor(factor: Factor) -> dict[str, Any]:
    """The levels of a factor, the best first, and every pair of them with all else equal."""
    dots = [
        Dot(label=name, name=name, value=level.mean, low=level.low, high=level.high, tier=1, reference=False,
            shown=f"{level.mean:.2f} [{level.low:.2f}, {level.high:.2f}]")
        for level in factor.levels
        for name in [level.level or f"no {factor.name}"]
    ]  # fmt: skip
    return {
        "name": factor.name,
        "chart": score_chart(dots),
        "rows": [_effect(effect, factor.name) for effect in sorted(factor.effects, key=lambda e: -e.difference)],
    }


def _effect(effect: Effect, factor: str) -> tuple[str, ...]:
    first, second = (level or f"no {factor}" for level in (effect.first, effect.second))
    shown = f"+{100 * effect.difference:.1f} [{100 * effect.low:+.1f}, {100 * effect.high:+.1f}]"
    verdict = "better" if effect.separated else "no difference shown"
    verdict += "".join(f"; turns {OTHERWISE[counted]}" for counted in effect.depends_on)
    return first, second, shown, probability(effect.p_corrected), str(effect.cells), f"{effect.samples:,}", verdict


def _heat(summary: Summary) -> dict[str, Any] | None:
    """Scores by category; the categories on which models differ most come first."""
    models = [m for m in summary.listed if m.categories]
    names = sorted({c.name for m in models for c in m.categories})
    if not names:
        return None
    by_model = [{c.name: c for c in m.categories} for m in models]
    rows = []
    for name in names:
        found = [by.get(name) for by in by_model]
        scores = [c.score for c in found if c is not None]
        rows.append((max(scores) - min(scores), name, max(c.n for c in found if c), found))
    rows.sort(key=lambda row: (-row[0], row[1]))
    names_of = short_names([m.label for m in models])
    return {
        "labels": [names_of[m.label] for m in models],
        "rows": [(name, n, [_shaded(c) for c in found]) for _, name, n, found in rows],
    }


def _shaded(category: CategorySummary | None) -> dict[str, Any]:
    if category is None:
        return {"text": "–", "shade": "none", "title": "not asked"}
    return {
        "text": f"{category.score:.2f}",
        "shade": str(min(_MOST_SHADES, int(category.score * _MOST_SHADES))),
        "title": number(category.n, "trial"),
    }


def _pairs(summary: Summary) -> dict[str, Any] | None:
    """Everyone against everyone, in the order of the ranking."""
    labels = [m.label for m in [*summary.ranked, *summary.unfinished] if m.score is not None]
    if not summary.comparisons:
        return None
    known = {frozenset((c.first, c.second)): c for c in summary.comparisons}
    rows = [(label, [_pair(label, known.get(frozenset((label, other)))) for other in labels]) for label in labels]
    return {"labels": [short_names(labels)[label] for label in labels], "rows": rows, "tests": len(summary.comparisons)}


def _pair(row: str, pair: Comparison | None) -> dict[str, str]:
    if pair is None:
        return {"text": "", "p": "", "kind": "self", "title": ""}
    ahead = pair.first == row
    sign = "+" if ahead else "−"
    low, high = (pair.low, pair.high) if ahead else (-pair.high, -pair.low)
    kind = ("ahead" if ahead else "back") if pair.separated else "tie"
    return {
        "text": f"{sign}{100 * pair.difference:.1f}" if pair.difference else "0.0",
        "p": probability(pair.p_corrected),
        "kind": kind,
        "title": f"{100 * low:+.1f} to {100 * high:+.1f} points; {number(pair.samples, 'common sample')}; "
        f"better on {pair.first_better if ahead else pair.second_better}, worse on "
        f"{pair.second_better if ahead else pair.first_better}; {pair.method} test, {probability(pair.p)} before correction"
        + "".join(f"; turns {OTHERWISE[counted]}" for counted in pair.depends_on),
    }


def _made(summary: Summary) -> list[tuple[str, str]]:
    """How the run was made, line by line."""
    info, protocol = summary.info, summary.info.protocol
    facts = [
        ("Run", info.run_id),
        ("Begun", f"{info.created_at:%Y-%m-%d %H:%M:%S} UTC"),
        ("Command", info.command),
        ("Made with", info.made_with),
        ("Dataset", protocol.dataset),
        ("Dataset digest", protocol.dataset_digest),
        ("Scorers", ", ".join(protocol.scorers)),
        ("Protocol", protocol.form),
        *_asked_what(protocol),
        ("Limit", "all samples" if protocol.limit is None else f"{protocol.limit:,}"),
        ("Repeats", str(protocol.repeats)),
        ("Seed", str(protocol.seed)),
        *_task_rules(summary),
        ("Common samples", f"{summary.common_samples:,}"),
    ]
    return [(name, value) for name, value in facts if value]


def _asked_what(protocol: Protocol) -> list[tuple[str, str]]:
    """Which samples were chosen and how they were read, where it was not as usual."""
    source = protocol.source
    return [
        ("Read from", source.path),
        ("Columns", ", ".join(f"{theirs} = {ours}" for theirs, ours in source.fields.items())),
        ("Samples", _few(source.ids)),
        ("Categories", _few(source.categories)),
        ("Worked examples", "" if source.shots is None else str(source.shots)),
        ("Judges" if len(protocol.judges) > 1 else "Judge", ", ".join(judge.label for judge in protocol.judges)),
    ]


def _task_rules(summary: Summary) -> list[tuple[str, str]]:
    rules = summary.info.protocol.tasks
    if summary.tasks is None:
        return []
    return [
        ("Seconds per attempt", f"{rules.timeout_s:g}"),
        ("Model calls per attempt", str(rules.max_model_calls)),
        ("Follow-ups", str(rules.follow_ups)),
        ("Permissions", rules.ask_permissions and f"asked for, answered by {rules.ask_permissions}"),
    ]


def _few(names: Sequence[str]) -> str:
    more = f" and {len(names) - _FEW} more" if len(names) > _FEW else ""
    return ", ".join(names[:_FEW]) + more


def _set_up(summary: ContestantSummary) -> tuple[str, ...]:
    """What a contestant is, column by column."""
    contestant, ref = summary.contestant, summary.model
    settings = ", ".join(f"{key}={value}" for key, value in ref.sent.items()) or "none sent"
    price = ref.price
    if ref.local:
        costs = "local"
    elif price is None:
        costs = "unknown"
    else:
        cached = f", ${price.cached_usd:g} cached" if price.cached_usd is not None else ""
        costs = f"${price.input_usd:g} in, ${price.output_usd:g} out{cached}"
    window = f"{ref.context_window:,}" if ref.context_window else "–"
    prompt, agent = prompt_words(contestant.prompting), contestant.agent.label
    return contestant.label, ref.spelled_out, settings, prompt, agent, costs, window, ref.weights_digest or "–"


def prompt_words(prompting: Prompting) -> str:
    """How questions are put, in words."""
    parts = {
        "system": prompting.system,
        "template": prompting.template,
        "reasoning": "first" if prompting.cot else "",
        "stops at": ", ".join(map(repr, prompting.stop)),
    }
    said = "; ".join(f"{name}: {value}" for name, value in parts.items() if value)
    return said or "as the dataset puts them"


def _work(summary: Summary, tasks: TaskComparison) -> dict[str, Any]:
    """Coding tasks: the rankings, who solved what, and how."""
    contestants = standing(summary)
    return {
        "headings": WORK_HEADINGS,
        "rows": [(work_cells(c), c.reference) for c in contestants],
        "medals": [(title.partition(" "), podium(tasks, name)) for name, title in MEDALS.items()],
        "sentences": work_sentences(summary),
        "tasks": tasks.tasks,
        "solved": [(c.label, [_solved(c.work, task) for task in tasks.tasks]) for c in contestants],
        "total": duration(tasks.total_s),
    }


def _solved(work: WorkSummary | None, task: str) -> dict[str, str]:
    own = [attempt for attempt in work.attempts if attempt.task == task] if work else []
    if not own:
        return {"text": "·", "kind": "none", "title": "not attempted"}
    solved, alone = sum(attempt.solved for attempt in own), sum(attempt.alone for attempt in own)
    kind = "wrong" if not solved else "right" if alone == len(own) else "helped"
    words = {"right": "solved first try", "helped": "solved with help, or not always", "wrong": "not solved"}[kind]
    mark = {"right": "✓", "helped": "◐", "wrong": "✗"}[kind]
    several = f" {solved}/{len(own)}" if len(own) > 1 else ""
    return {"text": f"{mark}{several}", "kind": kind, "title": words}
