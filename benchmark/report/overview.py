"""What the pages show above the samples: verdict, tables, charts, how it was made. The report and the live view share it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from benchmark.core.run import Protocol
from benchmark.report.batch import BatchSummary, Contestant
from benchmark.report.batch_words import HEADINGS as BATCH_HEADINGS
from benchmark.report.batch_words import MEDALS, batch_cells, batch_sentences, podium, standing
from benchmark.report.browse import FILTERS, SORTS, Census, ordered
from benchmark.report.caveats import caveats
from benchmark.report.charts import Dot, Point, Times, dollars, front_chart, latency_chart, score_chart, seconds
from benchmark.report.ranking import Comparison
from benchmark.report.spread import Spreads, spreads
from benchmark.report.summary import CategorySummary, ModelSummary, Summary
from benchmark.report.table import HEADINGS, cells, duration, score
from benchmark.report.verdict import claims, kinds, listed, number, probability, verdict
from benchmark.store.reader import StoreReader

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


def overview(reader: StoreReader, summary: Summary, batch: BatchSummary | None) -> dict[str, Any]:
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
        "accounts": [account(model) for model in ordered(summary)],
        "by_scorer": _by_scorer(summary),
        "repeats": _repeats(summary),
        "charts": _charts(summary, found),
        "heat": _heat(summary),
        "pairs": _pairs(summary),
        "made": _made(summary),
        "model_settings": [_settings(model) for model in summary.models if model.agent == summary.models[0].agent],
        "batch": None if batch is None else _batch(batch),
    }


def browser(summary: Summary, census: Census) -> dict[str, Any]:
    """What the sample browser needs besides the samples."""
    return {
        "labels": [model.label for model in ordered(summary)],
        "filters": [(name, words, census.filters[name]) for name, words in FILTERS.items()],
        "sorts": SORTS,
        "categories": sorted(census.categories - {""}),
        "total": census.total,
    }


def _headline(summary: Summary) -> str:
    """The first claim in a few words."""
    claim = claims(summary)[0]
    names = short_names([m.label for m in summary.models])
    if claim.kind == "leads":
        return f"{names[claim.facts['first']]} leads"
    if claim.kind == "tie":
        return f"A tie: {listed([names[label] for label in claim.facts['tied']])}"
    return f"{names[claim.facts['model']]}: {claim.facts['score']:.2f}" if claim.kind == "score" else "No verdict"


def _counted(summary: Summary) -> str:
    protocol = summary.info.protocol
    repeats = max(1, protocol.repeats)
    samples = summary.info.planned // len(protocol.agents) // repeats
    parts = [number(len(summary.contestants), "model"), number(samples, "sample")]
    return " · ".join([*parts, *([f"asked {repeats} times"] if repeats > 1 else [])])


def _table(summary: Summary) -> dict[str, Any]:
    parts = [summary.ranked, summary.unfinished, summary.references]
    return {
        "headings": (*HEADINGS, "Median", "p95", "A trial"),
        "parts": [[_row(model) for model in part] for part in parts if part],
        "tiers": len(summary.tiers) > 1 or any(len(tier) > 1 for tier in summary.tiers),
    }


def _row(model: ModelSummary) -> Row:
    shown, price = cells(model, note=True), model.cost_per_trial
    p50, p95 = (model.latency.p50_s, model.latency.p95_s) if model.latency else (None, None)
    return Row(
        cells=(*shown, _seconds(p50), _seconds(p95), "–" if price is None or model.model.local else f"${price:.2g}"),
        values=(
            *shown[:2],
            -1.0 if model.score is None else model.score,
            *(model.right, model.wrong, model.no_answer, model.failed, model.seconds, _last(model.cost_usd)),
            *(_last(p50), _last(p95), _last(price)),
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


def account(model: ModelSummary) -> dict[str, Any]:
    """How an entrant's trials ended, down to the last."""
    silent = {"refused": model.refused, "empty": model.empty, "filtered": model.filtered, "cut off": model.cut_off}
    wrong = model.score_failures_wrong
    return {
        "label": model.label,
        "numbers": (model.planned, model.answered, model.right, model.wrong, model.no_answer, model.failed, model.not_asked),
        "silent": kinds({kind: count for kind, count in silent.items() if count}),
        "failures": kinds(model.failures),
        "score": score(model, wide=True),
        "failures_wrong": "–" if wrong is None else f"{wrong:.2f}",
        "state": model.state.replace("_", " ") + (f": {model.message}" if model.message else ""),
        "tokens": f"{model.input_tokens:,} / {model.output_tokens:,}",
        "speed": f"{model.latency.tokens_per_s:.0f}" if model.latency and model.latency.tokens_per_s else "–",
    }


def _by_scorer(summary: Summary) -> dict[str, Any] | None:
    """What every scorer says of every model, where several judged; the first is the one that ranks."""
    names = list(dict.fromkeys(name for model in summary.models for name in model.by_scorer))
    rows = [(m.label, [f"{m.by_scorer[name]:.3f}" if name in m.by_scorer else "–" for name in names]) for m in ordered(summary)]
    return {"names": names, "rows": rows} if names else None


def _repeats(summary: Summary) -> dict[str, Any] | None:
    ks = sorted({k for model in summary.models for k in model.pass_at})
    if not ks:
        return None
    return {"ks": ks, "rows": [(m.label, [_or_dash(m.pass_at, k) for k in ks], [_or_dash(m.pass_all, k) for k in ks])
                               for m in ordered(summary)]}  # fmt: skip


def _or_dash(found: Mapping[int, float], k: int) -> str:
    return f"{found[k]:.2f}" if k in found else "–"


def short_names(labels: Sequence[str]) -> dict[str, str]:
    """Labels without the provider before them, where that still tells them apart."""
    plain = {label: label.rpartition("/")[2] or label for label in labels}
    taken = Counter(plain.values())
    return {label: name if taken[name] == 1 else label for label, name in plain.items()}


def _charts(summary: Summary, found: Spreads) -> list[dict[str, Any]]:
    """The drawings there are numbers for."""
    scored = [m for m in ordered(summary) if m.score is not None]
    names = short_names([m.label for m in summary.models])
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
    several = "Each shade is a tier: models of one shade are not shown to differ from the first of them. "
    return (several if len(summary.tiers) > 1 else "") + "Overlapping intervals do not make a tie; the paired test decides."


def _fronts(summary: Summary, found: Spreads, names: Names) -> list[dict[str, Any]]:
    charts = []
    paid = [m for m in summary.ranked if m.cost_per_trial is not None and not m.model.local]
    if len(paid) > 1:
        points = [_point(m, m.cost_per_trial or 0.0, found.by_label[m.label].cost_usd, summary.cost_front, names) for m in paid]
        svg = front_chart(points, title="Cost and quality", x_label="Dollars a trial, with its 95 % interval", x_words=dollars)
        charts.append({"title": "Cost and quality", "svg": svg, "note": _left_out(summary, paid, "a known price")})
    timed = [m for m in summary.ranked if m.latency is not None]
    if len(timed) > 1:
        medians = [(m, m.latency.p50_s) for m in timed if m.latency]
        points = [_point(m, p50, found.by_label[m.label].median_s, summary.latency_front, names) for m, p50 in medians]
        svg = front_chart(points, title="Time and quality", x_label="Median seconds, with its 95 % interval", x_words=seconds)
        charts.append({"title": "Time and quality", "svg": svg, "note": _left_out(summary, timed, "times")})
    return charts


def _left_out(summary: Summary, there: Sequence[ModelSummary], what: str) -> str:
    missing = [m.label for m in summary.ranked if m not in there]
    without = f" Without {what}, and so not here: {', '.join(missing)}." if missing else ""
    return "On the line stand the models that no other beats in one without losing in the other." + without


def _dot(model: ModelSummary, names: Names) -> Dot:
    return Dot(
        label=model.label,
        name=names[model.label],
        value=model.score,
        low=model.low,
        high=model.high,
        tier=model.tier,
        reference=model.reference,
        shown=score(model, wide=True),
    )


def _times(model: ModelSummary, found: Spreads, names: Names) -> Times:
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


def _point(model: ModelSummary, x: float, interval: tuple[float, float] | None, front: Sequence[str], names: Names) -> Point:
    return Point(
        label=model.label,
        name=names[model.label],
        x=x,
        x_interval=interval,
        y=model.score or 0.0,
        y_interval=(model.low, model.high),
        in_front=model.label in front,
    )


def _heat(summary: Summary) -> dict[str, Any] | None:
    """Scores by category; the categories on which models differ most come first."""
    models = [m for m in ordered(summary) if m.categories]
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
        f"{pair.second_better if ahead else pair.first_better}; {pair.method} test, {probability(pair.p)} before correction",
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
        ("Prompt template digest", protocol.template_digest),
        ("Scorers", ", ".join(protocol.scorers)),
        ("Protocol", protocol.form),
        ("Agents", ", ".join(protocol.agents)),
        *_asked_how(protocol),
        ("Limit", "all samples" if protocol.limit is None else f"{protocol.limit:,}"),
        ("Repeats", str(protocol.repeats)),
        ("Seed", str(protocol.seed)),
        *([("Follow-ups", str(protocol.follow_ups))] if protocol.follow_ups else []),
        ("Common samples", f"{summary.common_samples:,}"),
    ]
    return [(name, value) for name, value in facts if value]


def _asked_how(protocol: Protocol) -> list[tuple[str, str]]:
    """Which samples were chosen and what was said around them, where it was not as usual."""
    source, prompting = protocol.source, protocol.prompting
    return [
        ("Read from", source.path),
        ("Columns", ", ".join(f"{theirs} = {ours}" for theirs, ours in source.fields.items())),
        ("Samples", _few(source.ids)),
        ("Categories", _few(source.categories)),
        ("Worked examples", "" if source.shots is None else str(source.shots)),
        ("System prompt", prompting.system),
        ("Template", prompting.template),
        ("Reasoning first", "yes" if prompting.cot else ""),
        ("Answers end at", ", ".join(map(repr, prompting.stop))),
        ("Judge", protocol.judge.label if protocol.judge else ""),
    ]


def _few(names: Sequence[str]) -> str:
    more = f" and {len(names) - _FEW} more" if len(names) > _FEW else ""
    return ", ".join(names[:_FEW]) + more


def _settings(model: ModelSummary) -> tuple[str, ...]:
    ref = model.model
    settings = ", ".join(f"{key}={value}" for key, value in ref.settings.items()) or "none sent"
    price = ref.price
    if ref.local:
        costs = "local"
    elif price is None:
        costs = "unknown"
    else:
        cached = f", ${price.cached_usd:g} cached" if price.cached_usd is not None else ""
        costs = f"${price.input_usd:g} in, ${price.output_usd:g} out{cached}"
    window = f"{ref.context_window:,}" if ref.context_window else "–"
    return ref.label, ref.spelled_out, settings, costs, window, ref.weights_digest or "–"


def _batch(batch: BatchSummary) -> dict[str, Any]:
    """Coding tasks: the rankings, who solved what, and how."""
    return {
        "headings": BATCH_HEADINGS,
        "rows": [(batch_cells(c), c.reference) for c in standing(batch)],
        "medals": [(title.partition(" "), podium(batch, name)) for name, title in MEDALS.items()],
        "sentences": batch_sentences(batch),
        "tasks": batch.tasks,
        "solved": [(c.label, [_solved(c, task) for task in batch.tasks]) for c in standing(batch)],
        "total": duration(batch.total_s),
    }


def _solved(contestant: Contestant, task: str) -> dict[str, str]:
    own = [a for a in contestant.attempts if a.task == task]
    if not own:
        return {"text": "·", "kind": "none", "title": "not attempted"}
    solved, alone = sum(a.solved for a in own), sum(a.solved and a.work.first_try and not a.work.interventions for a in own)
    kind = "wrong" if not solved else "right" if alone == len(own) else "helped"
    words = {"right": "solved first try", "helped": "solved with help, or not always", "wrong": "not solved"}[kind]
    mark = {"right": "✓", "helped": "◐", "wrong": "✗"}[kind]
    several = f" {solved}/{len(own)}" if len(own) > 1 else ""
    return {"text": f"{mark}{several}", "kind": kind, "title": words}
