"""Logs of Inspect (`.eval`): a ZIP archive with a header and a file for each sample."""

from __future__ import annotations

import importlib
import zipfile
from collections.abc import Mapping
from datetime import datetime
from pathlib import Path
from typing import Any

import msgspec

from tiebreak.core.digest import digest_of
from tiebreak.core.errors import FailureKind, MissingExtra, UsageError
from tiebreak.core.extras import installing
from tiebreak.core.message import Message, TextPart, Usage, user
from tiebreak.core.model import ModelRef
from tiebreak.core.sample import Sample
from tiebreak.core.trial import Failure, Outcome, Output, Score, Timing, TrialResult
from tiebreak.imports.logs import Log, model_ref, parse_time, trial_of

_FORMAT = 2
"""The newest format of the header that is known here."""
_VALUES = {"C": 1.0, "I": 0.0, "P": 0.5, "N": 0.0}
"""Correct, incorrect, partly correct and no answer."""
_ZSTANDARD = 93
_LARGEST_MEMBER = 64 << 20
_LARGEST_SHARE = 100
_ROLES = ("system", "user", "assistant", "tool")


def read_inspect(path: Path) -> Log:
    """One log; one that was cut off while it was written has its samples so far."""
    with zipfile.ZipFile(path) as archive:
        _refuse_bomb(path, archive)
        names = archive.namelist()
        head = msgspec.json.decode(_member(archive, "header.json" if "header.json" in names else "_journal/start.json"))
        _check_format(path, head)
        spec = head["eval"]
        model = model_ref(str(spec["model"]))
        made = parse_time(str(spec.get("created", "")))
        rows = (msgspec.json.decode(_member(archive, name)) for name in names if name.startswith("samples/"))
        read = [(digest_of(row.get("input", "")), _result(row, model, made)) for row in rows]
    packages = spec.get("packages") or {}
    return Log(
        path=path,
        task=str(spec.get("task", path.stem)),
        model=model,
        made_with=f"Inspect {packages.get('inspect_ai', '')}".strip(),
        created_at=made,
        results=[result for _, result in read],
        questions={result.trial.sample.id: asked for asked, result in read},
        recorded=_figures(head.get("results") or {}),
    )


def _refuse_bomb(path: Path, archive: zipfile.ZipFile) -> None:
    """A log unpacks to some twenty times its size; one that would fill the memory is none."""
    sizes = [info.file_size for info in archive.infolist()]
    if max(sizes, default=0) > _LARGEST_MEMBER or sum(sizes) > _LARGEST_SHARE * path.stat().st_size + _LARGEST_MEMBER:
        raise UsageError(f"{path}: it would unpack to {sum(sizes) >> 20:,} MB, which no log of this size does")


def _check_format(path: Path, head: Mapping[str, Any]) -> None:
    written = head.get("version", _FORMAT)
    if isinstance(written, int) and written > _FORMAT:
        raise UsageError(f"{path}: a log of format {written}, newer than what is known here (up to {_FORMAT}); update tiebreak")


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
        raise MissingExtra(f"this log is packed in Zstandard, which needs pyarrow: {installing('parquet')}") from None
    return bytes(arrow.Codec("zstd").decompress(data, decompressed_size=size, asbytes=True))


def _figures(results: Mapping[str, Any]) -> dict[str, float]:
    figures = {}
    for score in results.get("scores") or ():
        for name, metric in (score.get("metrics") or {}).items():
            figures[f"inspect:{score.get('name', '')}/{name}"] = float(metric["value"])
    return figures


def _result(row: Mapping[str, Any], model: ModelRef, made: datetime) -> TrialResult:
    scores = {f"inspect:{name}": _score(score) for name, score in (row.get("scores") or {}).items()}
    trial = trial_of(_sample(row, tuple(scores)), model, repeat=int(row.get("epoch", 1)) - 1)
    output = row.get("output") or {}
    said = Output(
        text=_completion(output),
        outcome=_outcome(output),
        usage=_usage(row.get("model_usage") or {}),
        timing=Timing(model_s=float(row.get("working_time") or output.get("time") or 0.0)),
    )
    if not scores:
        # Without a score there is nothing to count: neither right nor wrong. What was said is kept, to be judged by us.
        failure = _unscored(row.get("error"), made)
        return TrialResult(trial=trial, outcome=Outcome.FAILED, output=said, failure=failure, finished_at=made)
    return TrialResult(trial=trial, outcome=said.outcome, output=said, scores=scores, finished_at=made)


def _sample(row: Mapping[str, Any], scorers: tuple[str, ...]) -> Sample:
    target = row.get("target", "")
    targets = tuple(map(str, target)) if isinstance(target, list) else (str(target),)
    return Sample(
        id=str(row["id"]),
        messages=_messages(row.get("input", "")),
        targets=targets,
        choices=tuple(map(str, row.get("choices") or ())),
        scorers=scorers or ("imported",),
        metadata={"targets": targets} if len(targets) > 1 else {},
        fixed=True,
    )


def _unscored(error: Mapping[str, Any] | None, made: datetime) -> Failure:
    kind = FailureKind.TRANSIENT if error else FailureKind.UNCHECKED
    message = str(error.get("message", "")) if error else "the log has no score for it"
    return Failure(kind=kind, message=message, at=made)


def _score(score: Mapping[str, Any]) -> Score:
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


def _outcome(output: Mapping[str, Any]) -> Outcome:
    """An answer that the length limit ended is known as such."""
    ended = (output.get("choices") or [{}])[0].get("stop_reason")
    return Outcome.CUT_OFF if ended in ("max_tokens", "model_length") else Outcome.ANSWERED


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
