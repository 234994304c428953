"""Samples of lm-eval (`samples_TASK_DATE.jsonl`), with the results file beside them."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec

from tiebreak.core.digest import digest_of
from tiebreak.core.message import user
from tiebreak.core.model import ModelRef
from tiebreak.core.sample import Sample
from tiebreak.core.trial import Outcome, Output, Score, TrialResult
from tiebreak.imports.logs import Log, model_ref, trial_of

SAMPLES = re.compile(r"samples_(?P<task>.+?)_\d{4}-\d\d-\d\dT.*\.jsonl")
_PREFERRED = ("exact_match", "acc", "acc_norm", "prompt_level_strict_acc", "pass@1")
_KEPT = {"correct_answers": "true", "incorrect_answers": "false", "instruction_id_list": "instructions", "kwargs": "arguments"}
"""Fields of a document that a scorer of ours judges by, and what they are called here."""
Row = Mapping[str, Any]


def read_lm_eval(path: Path) -> Log:
    """One file of samples; a line that cannot be read is named."""
    named = SAMPLES.fullmatch(path.name)
    assert named is not None
    task = named["task"]
    summary = _results_beside(path)
    figures = (summary.get("results") or {}).get(task) or {}
    metrics = [name.partition(",")[0] for name in figures if "stderr" not in name and name != "alias"]
    model = model_ref(_model_name(summary))
    made = datetime.fromtimestamp(float(summary.get("date") or 0.0), UTC)
    gathered = _rows_by_document(path)
    return Log(
        path=path,
        task=task,
        model=model,
        made_with=f"lm-eval {summary.get('lm_eval_version', '')}".strip(),
        created_at=made,
        results=[_result(rows, metrics, model, made) for rows in gathered.values()],
        questions={doc: digest_of(rows[0].get("doc") or _prompt(rows[0])) for doc, rows in gathered.items()},
        recorded={name: float(value) for name, value in figures.items() if isinstance(value, (int, float))},
    )


def _rows_by_document(path: Path) -> dict[str, list[Row]]:
    """The lines by document: each filter of an answer has a line of its own."""
    gathered: dict[str, list[Row]] = {}
    with path.open("rb") as file:
        for number, line in enumerate(file, start=1):
            try:
                row = msgspec.json.decode(line)
            except (msgspec.DecodeError, RecursionError) as error:
                raise ValueError(f"line {number} is broken or cut short ({error})") from None
            gathered.setdefault(str(row["doc_id"]), []).append(row)
    return gathered


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


def _result(rows: Sequence[Row], metrics: Sequence[str], model: ModelRef, made: datetime) -> TrialResult:
    """One document's scores and answer."""
    first = rows[0]
    scores: dict[str, Score] = {}
    weighed = _choice_logprobs(first)
    for row in rows:
        behind = f":{row['filter']}" if len(rows) > 1 else ""
        said = _first_text(row.get("filtered_resps"))
        for name in row.get("metrics") or metrics:
            if isinstance(row.get(name), (bool, int, float)):
                answer = _likeliest(weighed, by_length=name == "acc_norm") if weighed else said
                scores[f"lm-eval:{name}{behind}"] = Score(value=float(row[name]), answer=answer)
    text = msgspec.json.encode(weighed).decode() if weighed else _first_text(first.get("resps")) or ""
    sample = _sample(first, tuple(sorted(scores, key=_less_wanted)), weighed)
    trial = trial_of(sample, model, agent="likelihood" if weighed else "direct")
    return TrialResult(trial=trial, outcome=Outcome.ANSWERED, output=Output(text=text), scores=scores, finished_at=made)


def _less_wanted(scorer: str) -> bool:
    metric = scorer.split(":")[1]
    return metric not in _PREFERRED and not metric.endswith("_acc")


def _sample(row: Row, scorers: tuple[str, ...], weighed: Mapping[str, Any] | None) -> Sample:
    doc = row.get("doc")
    choices = tuple(text.removeprefix(" ") for text in weighed["continuations"]) if weighed else ()
    targets = _true_choices(row, choices) if choices else (str(row.get("target", "")),)
    metadata = {ours: doc[theirs] for theirs, ours in _KEPT.items() if doc.get(theirs)} if isinstance(doc, dict) else {}
    return Sample(
        id=str(row["doc_id"]),
        messages=(user(_prompt(row)),),
        targets=targets,
        choices=choices,
        scorers=scorers or ("imported",),
        metadata={**metadata, "targets": targets} if len(targets) > 1 else metadata,
        fixed=True,
    )


def _choice_logprobs(row: Row) -> dict[str, list[Any]] | None:
    """The log-probabilities of an answer that was not asked for but weighed, as our `likelihood` agent writes them."""
    requests, replies = _requests(row.get("arguments")), row.get("filtered_resps") or ()
    if len(requests) < 2 or len(requests) != len(replies) or len({str(request[0]) for request in requests}) > 1:
        return None
    if not all(len(request) == 2 and isinstance(request[1], str) for request in requests):
        return None
    try:
        logprobs = [float(reply[0]) for reply in replies]
    except (TypeError, ValueError, IndexError):
        return None
    return {"continuations": [request[1] for request in requests], "logprobs": logprobs}


def _likeliest(weighed: Mapping[str, list[Any]], *, by_length: bool) -> str:
    pairs = zip(weighed["continuations"], weighed["logprobs"], strict=True)
    weights = [(logprob / max(1, len(text) - 1) if by_length else logprob, text) for text, logprob in pairs]
    return str(max(weights, key=lambda pair: pair[0])[1]).strip()


def _true_choices(row: Row, choices: tuple[str, ...]) -> tuple[str, ...]:
    """The choices that count as right: by the document's labels where it has some for these choices, else by the target."""
    doc, target = row.get("doc"), row.get("target")
    for field in doc.values() if isinstance(doc, dict) else ():
        if isinstance(field, dict) and tuple(field.get("choices") or ()) == choices:
            labels = field.get("labels") or ()
            return tuple(choice for choice, label in zip(choices, labels, strict=False) if label == 1)
    place = str(target)
    if place.isdecimal() and int(place) < len(choices):
        return (choices[int(place)],)
    return (place.removeprefix(" "),)


def _requests(arguments: Any) -> list[list[Any]]:
    """What was put to the model, one request after another; some versions write mappings, some lists."""
    if isinstance(arguments, dict):
        return [list(one.values()) if isinstance(one, dict) else [one] for one in arguments.values()]
    return [list(one) if isinstance(one, list) else [one] for one in arguments or ()]


def _prompt(row: Row) -> str:
    return _first_text(_requests(row.get("arguments"))) or ""


def _first_text(value: Any) -> str | None:
    while isinstance(value, list) and value:
        value = value[0]
    return None if value is None or value == [] else str(value)
