"""A row of the comparison table, as words; the terminal and Markdown show the same ones."""

from __future__ import annotations

from benchmark.report.summary import ModelSummary

HEADINGS = ("Model", "Provider", "Score", "Right", "Wrong", "No answer", "Failed", "Time", "Cost")


def cells(model: ModelSummary, *, wide: bool = True, note: bool = False) -> tuple[str, ...]:
    """A model's row; `note` adds in words what the terminal shows by lines and colours."""
    ref = model.model
    name = model.label if wide else model.label.removeprefix(f"{ref.provider}/").removeprefix(f"{ref.house}/")
    if note and not model.finished:
        name += f" ({model.state.replace('_', ' ')})"
    return (
        name,
        ref.provider + (" (reference)" if model.reference and note else ""),
        score(model, wide=wide),
        str(model.right),
        str(model.wrong),
        str(model.no_answer),
        str(model.failed),
        duration(model.seconds) if model.seconds else "–",
        cost(model),
    )


def score(model: ModelSummary, *, wide: bool) -> str:
    """The score with its interval, and with its count where not everything was asked."""
    if model.score is None:
        return "–"
    n = "" if model.finished else f" n={model.answered}"
    interval = f" [{model.low:.2f}, {model.high:.2f}]" if wide else f" ±{(model.high - model.low) / 2:.2f}"
    return f"{model.score:.2f}{interval}{n}"


def by_scorer(model: ModelSummary) -> str:
    """The score by every scorer that judged, the one that ranks first."""
    return ", ".join(f"{name} {mean:.2f}" for name, mean in model.by_scorer.items())


def cost(model: ModelSummary) -> str:
    """Dollars, or at least so many; a local model costs none, and an unknown price is not none."""
    if model.model.local:
        return "local"
    if model.cost_usd is not None:
        return f"${model.cost_usd:.4f}"
    return f"≥ ${model.known_cost_usd:.4f}" if model.known_cost_usd else "unknown"


def duration(seconds: float) -> str:
    """A time as people say it."""
    if seconds < 60:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes} min" if hours else f"{minutes} min {rest} s"
