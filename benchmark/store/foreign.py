"""Results of other tools as results of ours: Inspect's logs and lm-eval's samples, scores as they were recorded."""

from __future__ import annotations

import importlib
import re
import zipfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec

from benchmark.core.errors import FailureKind, MissingExtra, UsageError
from benchmark.core.message import Message, TextPart, Usage, user
from benchmark.core.model import ModelRef
from benchmark.core.sample import Sample
from benchmark.core.trial import Failure, Outcome, Output, Score, Timing, Trial, TrialResult, trial_id

_VALUES = {"C": 1.0, "I": 0.0, "P": 0.5, "N": 0.0}
"""Inspect's correct, incorrect, partly correct and no answer."""
_PREFERRED = ("exact_match", "acc", "acc_norm", "prompt_level_strict_acc", "pass@1")
_ZSTANDARD = 93
_ROLES = ("system", "user", "assistant", "tool")
_SAMPLES = re.compile(r"samples_(?P<task>.+?)_\d{4}-\d\d-\d\dT.*\.jsonl")


@dataclass(frozen=True, slots=True, kw_only=True)
class Log:
    """One model's results on one task."""

    path: Path
    task: str
    model: ModelRef
    made_with: str
    created_at: datetime
    results: Sequence[TrialResult]
    recorded: Mapping[str, float] = field(default_factory=dict)
    """What the other tool wrote down as its figures."""

    @property
    def scorers(self) -> tuple[str, ...]:
        """Every scorer of its samples."""
        return tuple(dict.fromkeys(name for result in self.results for name in result.trial.sample.scorers))


def read_logs(paths: Iterable[Path]) -> Iterator[Log]:
    """The logs in files and folders; what is none of them is named."""
    for path in paths:
        found = sorted([*path.rglob("*.eval"), *path.rglob("samples_*.jsonl")]) if path.is_dir() else [path]
        if not found or not all(p.is_file() for p in found):
            raise UsageError(f"{path}: there is no .eval file and no samples_*.jsonl")
        for file in found:
            yield read_log(file)


def read_log(path: Path) -> Log:
    """One log, by what its name says it is."""
    try:
        if path.suffix == ".eval":
            return _inspect(path)
        if _SAMPLES.fullmatch(path.name):
            return _lm_eval(path)
    except (OSError, zipfile.BadZipFile, msgspec.DecodeError, KeyError, TypeError, ValueError, AttributeError) as error:
        raise UsageError(f"{path}: cannot be read as a log ({type(error).__name__}: {error})") from None
    raise UsageError(f"{path}: neither an Inspect log (.eval) nor lm-eval's samples (samples_TASK_DATE.jsonl)")


def _ref(name: str) -> ModelRef:
    provider, slash, rest = name.partition("/")
    return ModelRef(provider=provider if slash else "imported", name=rest or name, label=name, verified=False)


def _trial(sample: Sample, model: ModelRef, repeat: int) -> Trial:
    asked = sample.asked_digest
    identity = trial_id(asked, model.digest, "direct", repeat)
    return Trial(sample=sample, model=model, agent="direct", repeat=repeat, asked=asked, id=identity)


def _moment(text: str) -> datetime:
    try:
        made = datetime.fromisoformat(text)
    except ValueError:
        return datetime.fromtimestamp(0, UTC)
    return made if made.tzinfo else made.replace(tzinfo=UTC)


# --- Inspect ----------------------------------------------------------------------------------------


def _inspect(path: Path) -> Log:
    with zipfile.ZipFile(path) as archive:
        names = archive.namelist()
        head = msgspec.json.decode(_member(archive, "header.json" if "header.json" in names else "_journal/start.json"))
        spec = head["eval"]
        model = _ref(str(spec["model"]))
        made = _moment(str(spec.get("created", "")))
        rows = (msgspec.json.decode(_member(archive, name)) for name in names if name.startswith("samples/"))
        results = [_inspect_result(row, model, made) for row in rows]
    packages = spec.get("packages") or {}
    return Log(
        path=path,
        task=str(spec.get("task", path.stem)),
        model=model,
        made_with=f"Inspect {packages.get('inspect_ai', '')}".strip(),
        created_at=made,
        results=results,
        recorded=_inspect_figures(head.get("results") or {}),
    )


def _member(archive: zipfile.ZipFile, name: str) -> bytes:
    """A file of the archive, also one packed in Zstandard, which zipfile itself reads only in later versions of Python."""
    info = archive.getinfo(name)
    if info.compress_type != _ZSTANDARD:
        return archive.read(name)
    file = archive.fp
    assert file is not None
    file.seek(info.header_offset)
    header = file.read(30)
    file.seek(int.from_bytes(header[26:28], "little") + int.from_bytes(header[28:30], "little"), 1)
    return _unpacked(file.read(info.compress_size), info.file_size)


def _unpacked(data: bytes, size: int) -> bytes:
    try:
        arrow = importlib.import_module("pyarrow")
    except ImportError:
        raise MissingExtra("this log is packed in Zstandard, which needs a package: pip install 'tiebreak[parquet]'") from None
    return bytes(arrow.Codec("zstd").decompress(data, decompressed_size=size, asbytes=True))


def _inspect_figures(results: Mapping[str, Any]) -> dict[str, float]:
    figures = {}
    for score in results.get("scores") or ():
        for name, metric in (score.get("metrics") or {}).items():
            figures[f"{score.get('name', '')}/{name}"] = float(metric["value"])
    return figures


def _inspect_result(row: Mapping[str, Any], model: ModelRef, made: datetime) -> TrialResult:
    scores = {name: _inspect_score(score) for name, score in (row.get("scores") or {}).items()}
    target = row.get("target", "")
    sample = Sample(
        id=str(row["id"]),
        messages=_messages(row.get("input", "")),
        targets=tuple(map(str, target)) if isinstance(target, list) else (str(target),),
        choices=tuple(map(str, row.get("choices") or ())),
        scorers=tuple(scores) or ("imported",),
        fixed=True,
    )
    trial = _trial(sample, model, int(row.get("epoch", 1)) - 1)
    output = row.get("output") or {}
    said = Output(
        text=_completion(output),
        usage=_usage(row.get("model_usage") or {}),
        timing=Timing(model_s=float(row.get("working_time") or output.get("time") or 0.0)),
    )
    if not scores:
        # Without a score there is nothing to count: neither right nor wrong. What was said is kept, to be judged by us.
        failure = _unscored(row.get("error"), made)
        return TrialResult(trial=trial, outcome=Outcome.FAILED, output=said, failure=failure, finished_at=made)
    return TrialResult(trial=trial, outcome=Outcome.ANSWERED, output=said, scores=scores, finished_at=made)


def _unscored(error: Mapping[str, Any] | None, made: datetime) -> Failure:
    kind = FailureKind.TRANSIENT if error else FailureKind.UNCHECKED
    message = str(error.get("message", "")) if error else "the log has no score for it"
    return Failure(kind=kind, message=message, at=made)


def _inspect_score(score: Mapping[str, Any]) -> Score:
    answer, because = score.get("answer"), str(score.get("explanation") or "")[:2000]
    return Score(value=_value(score.get("value")), answer=None if answer is None else str(answer), because=because)


def _value(value: Any) -> float:
    if isinstance(value, (bool, int, float)):
        return float(value)
    if isinstance(value, str) and value in _VALUES:
        return _VALUES[value]
    if isinstance(value, dict):
        numbers = [_value(inside) for inside in value.values()]
        return sum(numbers) / len(numbers) if numbers else 0.0
    try:
        return float(value)
    except (TypeError, ValueError):
        return float(str(value).strip().lower() in ("yes", "true", "correct", "pass"))


def _completion(output: Mapping[str, Any]) -> str:
    if isinstance(output.get("completion"), str):
        return str(output["completion"])
    choices = output.get("choices") or [{}]
    return _text((choices[0].get("message") or {}).get("content") or "")


def _text(content: Any) -> str:
    if isinstance(content, str):
        return content
    return "".join(str(part.get("text", "")) for part in content if isinstance(part, dict) and part.get("type") == "text")


def _messages(given: Any) -> tuple[Message, ...]:
    if isinstance(given, str):
        return (user(given),)
    turns = [(turn.get("role"), _text(turn.get("content") or "")) for turn in given]
    return tuple(Message(role=role, parts=(TextPart(text),)) for role, text in turns if role in _ROLES) or (user(""),)


def _usage(by_model: Mapping[str, Any]) -> Usage | None:
    if not by_model:
        return None
    sent = sum(int(usage.get("input_tokens") or 0) for usage in by_model.values())
    return Usage(input_tokens=sent, output_tokens=sum(int(usage.get("output_tokens") or 0) for usage in by_model.values()))


# --- lm-eval ----------------------------------------------------------------------------------------


def _lm_eval(path: Path) -> Log:
    named = _SAMPLES.fullmatch(path.name)
    assert named is not None
    task = named["task"]
    summary = _results_beside(path)
    figures = (summary.get("results") or {}).get(task) or {}
    metrics = [name.partition(",")[0] for name in figures if "stderr" not in name and name != "alias"]
    model = _ref(_model_name(summary))
    made = datetime.fromtimestamp(float(summary.get("date") or 0.0), UTC)
    gathered: dict[str, list[Mapping[str, Any]]] = {}
    with path.open("rb") as file:
        for line in file:
            row = msgspec.json.decode(line)
            gathered.setdefault(str(row["doc_id"]), []).append(row)
    return Log(
        path=path,
        task=task,
        model=model,
        made_with=f"lm-eval {summary.get('lm_eval_version', '')}".strip(),
        created_at=made,
        results=[_lm_eval_result(rows, metrics, model, made) for rows in gathered.values()],
        recorded={name: float(value) for name, value in figures.items() if isinstance(value, (int, float))},
    )


def _results_beside(path: Path) -> Mapping[str, Any]:
    """The results file of the same run: the one of the same date, else the only one."""
    date = path.stem.rpartition("_")[2]
    found = sorted(path.parent.glob("results_*.json"))
    same = [p for p in found if date in p.name] or (found if len(found) == 1 else [])
    if not same:
        return {}
    made: Mapping[str, Any] = msgspec.json.decode(same[0].read_bytes())
    return made


def _model_name(summary: Mapping[str, Any]) -> str:
    named = summary.get("model_name") or (summary.get("config") or {}).get("model_args") or "imported model"
    if isinstance(named, dict):
        named = named.get("model") or named.get("pretrained") or "imported model"
    found = re.search(r"(?:pretrained|model)=([^,]+)", str(named))
    return found[1] if found else str(named)


def _lm_eval_result(rows: Sequence[Mapping[str, Any]], metrics: Sequence[str], model: ModelRef, made: datetime) -> TrialResult:
    """One question; each filter of its answer has a row of its own."""
    first = rows[0]
    scores: dict[str, Score] = {}
    for row in rows:
        behind = f":{row['filter']}" if len(rows) > 1 else ""
        answer = _first_text(row.get("filtered_resps"))
        for name in row.get("metrics") or metrics:
            if isinstance(row.get(name), (bool, int, float)):
                scores[f"{name}{behind}"] = Score(value=float(row[name]), answer=answer)
    ranked = sorted(scores, key=lambda name: name.partition(":")[0] not in _PREFERRED and not name.endswith("_acc"))
    sample = Sample(
        id=str(first["doc_id"]),
        messages=(user(_prompt(first.get("arguments"))),),
        targets=(str(first.get("target", "")),),
        scorers=tuple(ranked) or ("imported",),
        fixed=True,
    )
    output = Output(text=_first_text(first.get("resps")) or "")
    return TrialResult(trial=_trial(sample, model, 0), outcome=Outcome.ANSWERED, output=output, scores=scores, finished_at=made)


def _first_text(value: Any) -> str | None:
    while isinstance(value, list) and value:
        value = value[0]
    return None if value is None or value == [] else str(value)


def _prompt(arguments: Any) -> str:
    if isinstance(arguments, dict):
        arguments = [list(one.values()) for one in arguments.values()]
    return _first_text(arguments) or ""
