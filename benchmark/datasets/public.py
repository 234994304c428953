"""Public datasets by their usual names, each put as its reference puts it.

None of their questions or examples comes with us: rows are read from a local copy (`--data PATH`) or from the hub.
Templates and stops are facts of the protocols named beside them.
"""

from __future__ import annotations

import bz2
import re
import tempfile
from bisect import bisect_right
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from string import ascii_uppercase
from typing import Any

import msgspec

from benchmark.core.digest import digest_of_texts
from benchmark.core.errors import DatasetError
from benchmark.core.message import user
from benchmark.core.run import Source
from benchmark.core.sample import Sample
from benchmark.datasets.hub import Address, fetch
from benchmark.datasets.indexed import IndexedFile, Row
from benchmark.datasets.records import BadRecord, is_records, open_records

_LETTER_FORM = "asked for the letter, choices in an order of our own; not comparable with likelihood figures"
_RAW = {"raw": True}
"""The text is gone on with as it stands, as lm-eval does, and not put into the turns of a conversation."""
_PREAMBLE = 6
"""Questions that lm-eval puts before every one of TruthfulQA."""
_GSM8K_STOPS = ("Question:", "</s>", "<|im_end|>")
_COT_STOPS = ("Q:", "</s>", "<|im_end|>")
_BBH_STOPS = ("</s>", "Q:", "\n\n")


@dataclass(frozen=True, slots=True, kw_only=True)
class _Files:
    """The rows of a set, and where its worked examples are."""

    asked: Sequence[Path]
    shots: Sequence[Path] = ()
    folder: Path | None = None
    """The local copy, where there is one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Home:
    """Where a public set lives on the hub."""

    repo: str
    config: str = ""
    split: str = "test"
    shots: str = ""
    """The split its worked examples are from."""
    names: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """What the files of a split are called in local copies, when not after the split."""


def _files(home: _Home, source: Source) -> _Files:
    if not source.path:
        asked, _ = fetch(Address(repo=home.repo, config=home.config, split=home.split))
        shots = fetch(Address(repo=home.repo, config=home.config, split=home.shots))[0] if home.shots else []
        return _Files(asked=asked, shots=shots)
    path = Path(source.path)
    if path.is_file():
        beside = _of_split(path.parent, home.shots, home) if home.shots else []
        return _Files(asked=[path], shots=[p for p in beside if p != path], folder=path.parent)
    if not path.is_dir():
        raise DatasetError(f"--data {source.path}: there is no such file or folder")
    if home.config and (path / home.config).is_dir():
        # A copy of all that the hub has: each of its parts is a folder.
        path = path / home.config
    asked = _of_split(path, home.split, home) or sorted(p for p in path.iterdir() if is_records(p))
    if not asked:
        raise DatasetError(f"--data {source.path}: holds no file of samples")
    return _Files(asked=asked, shots=_of_split(path, home.shots, home) if home.shots else [], folder=path)


def _of_split(folder: Path, split: str, home: _Home) -> list[Path]:
    """The files of a split: in a folder of its name, or with its name in theirs."""
    wanted = {split, *home.names.get(split, ())}
    found = sorted(p for p in folder.rglob("*") if p.is_file() and is_records(p))
    return [p for p in found if wanted & set(re.split(r"[-_./]", str(p.relative_to(folder)))) - {""}]


def _rows(paths: Sequence[Path]) -> Iterator[Row]:
    for path in paths:
        records = open_records(path)
        try:
            for _, row in records.rows():
                yield row
        except BadRecord as bad:
            raise DatasetError(f"{path}, {records.where(bad.place)}: {bad.reason}") from None


def _shots(files: _Files, source: Source, usual: int, render: Callable[[Row], str], *, where: str) -> str:
    """The worked examples as one text, the first of their split; none can be had without their file."""
    wanted = usual if source.shots is None else source.shots
    if not wanted:
        return ""
    made = [render(row) for row in islice(_rows(files.shots), wanted)]
    if len(made) < wanted:
        raise DatasetError(f"{wanted} worked examples are wanted, {len(made)} were found: put {where} beside, or say --shots 0")
    return "".join(f"{shot}\n\n" for shot in made)


def _dataset(
    name: str,
    files: _Files,
    to_sample: Callable[[Row, int], Sample],
    *,
    about: str,
    form: str,
    public_since: int,
    shots: str = "",
    below: str = "",
) -> IndexedFile:
    made = IndexedFile(
        files.asked, to_sample, name=name, about=about, form=form, public_since=public_since, below=below, has_shots=True
    )
    # How the rows are put is part of what they are: the same rows with other examples are other questions.
    made.digest = digest_of_texts((made.digest, form, shots))
    return made


def _need(row: Row, *names: str) -> Any:
    for name in names:
        if name in row:
            return row[name]
    raise ValueError(f"field {names[0]!r} is missing; the row has {', '.join(map(repr, row)) or 'nothing'}")


# --- GSM8K ------------------------------------------------------------------------------------------


def gsm8k(variant: str = "", source: Source | None = None) -> IndexedFile:
    """Grade-school arithmetic in words: `gsm8k`, or `gsm8k:cot` with the examples of `cot-prompt.txt`."""
    _known(variant, ("cot",), "gsm8k")
    source = source or Source()
    files = _files(_Home(repo="openai/gsm8k", config="main", shots="train"), source)
    if variant == "cot":
        return _gsm8k_cot(files, source)
    shots = _shots(files, source, 5, lambda row: f"Question: {row['question']}\nAnswer: {row['answer']}", where="train.jsonl")
    count = 5 if source.shots is None else source.shots

    def read(row: Row, number: int) -> Sample:
        question, answer = str(_need(row, "question")), str(_need(row, "answer"))
        return Sample(
            id=str(row.get("id", number)),
            messages=(user(f"{shots}Question: {question}\nAnswer:"),),
            targets=(_after_hashes(answer),),
            scorers=("gsm8k:flexible", "gsm8k:strict", "numeric"),
            stop=_GSM8K_STOPS,
            fixed=True,
        )

    form = f"lm-eval gsm8k 3.0, {count}-shot (the first of train), flexible-extract ranks, strict-match beside it"
    return _dataset("gsm8k", files, read, about="grade-school arithmetic in words", form=form, public_since=2021, shots=shots)


def _gsm8k_cot(files: _Files, source: Source) -> IndexedFile:
    shots, count = _worked(files, source, "cot-prompt.txt", usual=8)

    def read(row: Row, number: int) -> Sample:
        return Sample(
            id=str(row.get("id", number)),
            messages=(user(f"{shots}Q: {_need(row, 'question')}\nA:"),),
            targets=(_after_hashes(str(_need(row, "answer"))),),
            scorers=("gsm8k:cot", "gsm8k:flexible", "numeric"),
            stop=_COT_STOPS,
            fixed=True,
        )

    form = f"lm-eval gsm8k_cot 3.0, {count}-shot, strict-match ranks, flexible-extract beside it"
    return _dataset("gsm8k:cot", files, read, about="the same with reasoning", form=form, public_since=2021, shots=shots)


def _worked(files: _Files, source: Source, name: str, *, usual: int) -> tuple[str, int]:
    """The worked examples of a text file beside the rows, split at its questions; none where there is no file."""
    path = files.folder / name if files.folder else None
    if path is None or not path.is_file() or source.shots == 0:
        if source.shots:
            raise DatasetError(f"{source.shots} worked examples are wanted: put them, as Q: and A:, into {name} beside the rows")
        return "", 0
    parts = re.split(r"\n\s*\n(?=Q:)", path.read_text(encoding="utf-8").strip())
    kept = parts[: usual if source.shots is None else source.shots]
    return "".join(f"{part.strip()}\n\n" for part in kept), len(kept)


def _after_hashes(answer: str) -> str:
    _, hashes, number = answer.rpartition("#### ")
    if not hashes:
        raise ValueError(f"field 'answer' has no '#### ' before its number: {answer[-60:]!r}")
    return number.strip()


# --- MMLU -------------------------------------------------------------------------------------------


def mmlu(variant: str = "", source: Source | None = None) -> IndexedFile:
    """57 subjects of exam questions, four choices each; `mmlu:SUBJECT` is one of them."""
    source = source or Source()
    config = variant or "all"
    home = _Home(repo="cais/mmlu", config=config, shots="dev" if source.likelihood and source.shots else "")
    files = _files(home, source)
    asked = [p for p in files.asked if not variant or not source.path or variant == _subject(p)]
    if not asked:
        subjects = sorted({_subject(p) for p in files.asked})
        raise DatasetError(f"there is no subject {variant!r} in {source.path}; there are {', '.join(subjects)}")
    parts = [_mmlu_file(path, files, source) for path in asked]
    name = f"mmlu:{variant}" if variant else "mmlu"
    made = parts[0] if len(parts) == 1 else _Joined(parts)
    made.name, made.about = name, "exam questions of 57 subjects"
    return made  # type: ignore[return-value]


def _mmlu_file(path: Path, files: _Files, source: Source) -> IndexedFile:
    subject = _subject(path)
    count = (source.shots or 0) if source.likelihood else 0
    shots = ""
    if count:
        dev = _Files(asked=(), shots=[p for p in files.shots if _subject(p) == subject] or files.shots)
        shots = _shots(dev, source, 0, lambda row: f"{_mmlu_prompt(row)} {ascii_uppercase[_index(row)]}", where="dev/")

    def read(row: Row, number: int) -> Sample:
        choices, gold = _mmlu_choices(row), _index(row)
        named = str(row.get("subject", subject))
        if not source.likelihood:
            question = str(_need(row, "question")).strip()
            return Sample(
                id=f"{named}/{number}",
                category=named,
                messages=(user(question),),
                choices=_distinct(choices),
                targets=(_distinct(choices)[gold],),
                scorers=("choice",),
            )
        told = f"The following are multiple choice questions (with answers) about {named.replace('_', ' ')}.\n\n"
        return Sample(
            id=f"{named}/{number}",
            category=named,
            messages=(user(f"{told}{shots}{_mmlu_prompt(row)}"),),
            choices=tuple(ascii_uppercase[:4]),
            targets=(ascii_uppercase[gold],),
            scorers=("likelihood",),
            metadata=_RAW,
            fixed=True,
        )

    form = f"lm-eval mmlu 2, {count}-shot, likelihood of the letter" if source.likelihood else _LETTER_FORM
    one = _Files(asked=[path])
    return _dataset(f"mmlu:{subject}", one, read, about="exam questions", form=form, public_since=2020, shots=shots)


def _subject(path: Path) -> str:
    name = re.sub(r"_(test|dev|val)$", "", path.name.partition(".")[0])
    return path.parent.name if re.match(r"(test|dev|validation)\b", name) else name


def _mmlu_prompt(row: Row) -> str:
    listed = "\n".join(f"{letter}. {choice}" for letter, choice in zip("ABCD", _mmlu_choices(row), strict=True))
    return f"{str(_need(row, 'question')).strip()}\n{listed}\nAnswer:"


def _mmlu_choices(row: Row) -> tuple[str, ...]:
    listed = row.get("choices")
    if isinstance(listed, list) and len(listed) == 4:
        return tuple(map(str, listed))
    # An empty cell of a CSV is a choice that is empty.
    found = [str(row.get(name, "")) for name in ("choice0", "choice1", "choice2", "choice3")]
    if not any(found):
        raise ValueError(f"field 'choices' is missing; the row has {', '.join(map(repr, row)) or 'nothing'}")
    return tuple(found)


def _distinct(choices: tuple[str, ...]) -> tuple[str, ...]:
    """The choices, told apart where the set lists one twice: a letter must stand for one of them."""
    seen: dict[str, int] = {}
    told = []
    for choice in choices:
        seen[choice] = seen.get(choice, 0) + 1
        told.append(choice if seen[choice] == 1 else f"{choice} ({seen[choice]})")
    return tuple(told)


def _index(row: Row) -> int:
    answer = str(_need(row, "answer")).strip()
    index = int(answer) if answer.isdecimal() else ascii_uppercase.find(answer.upper())
    if not 0 <= index < 4:
        raise ValueError(f"field 'answer' is {answer!r}: neither 0 to 3 nor a letter from A to D")
    return index


class _Joined:
    """Several files as one dataset, each read by its own rule."""

    def __init__(self, parts: Sequence[IndexedFile]) -> None:
        self._parts = parts
        self.name = self.about = ""
        first = parts[0]
        self.form, self.public_since, self.has_shots = first.form, first.public_since, True
        self.scorers = tuple(dict.fromkeys(scorer for part in parts for scorer in part.scorers))
        self.digest = digest_of_texts(part.digest for part in parts)
        self.shuffle = first.shuffle[:0]
        self.categories = first.categories[:0]
        self._first: list[int] = []
        numbers = 0
        for part in parts:
            self._first.append(len(self.shuffle))
            self.shuffle.extend(part.shuffle)
            self.categories.extend(type(part.categories)("I", (numbers + number for number in part.categories)))
            numbers += max(part.categories) + 1

    def __len__(self) -> int:
        return len(self.shuffle)

    def __getitem__(self, position: int) -> Sample:
        part = bisect_right(self._first, position) - 1
        return self._parts[part][position - self._first[part]]


# --- ARC and HellaSwag ------------------------------------------------------------------------------


def arc(variant: str = "", source: Source | None = None) -> IndexedFile:
    """Science questions of grade-school exams: `arc:challenge` (the default) or `arc:easy`."""
    _known(variant, ("challenge", "easy"), "arc")
    source = source or Source()
    config = "ARC-Easy" if variant == "easy" else "ARC-Challenge"
    files = _files(_Home(repo="allenai/ai2_arc", config=config, shots="train" if source.shots else ""), source)
    shots = _shots(files, source, 0, _arc_shot, where="the train split")

    def read(row: Row, number: int) -> Sample:
        choices, gold = _arc_choices(row)
        question = str(_need(row, "question"))
        scorers, prompt = _scorers_and_prompt(source, question, f"{shots}Question: {question}\nAnswer:")
        return Sample(
            id=str(row.get("id", number)),
            messages=(user(prompt),),
            choices=_distinct(choices),
            targets=(_distinct(choices)[gold],),
            scorers=scorers,
            metadata=_RAW if source.likelihood else {},
            fixed=source.likelihood,
        )

    form = f"lm-eval arc 1.0, {source.shots or 0}-shot, per character" if source.likelihood else _LETTER_FORM
    name = f"arc:{variant or 'challenge'}"
    return _dataset(name, files, read, about="grade-school science exams", form=form, public_since=2018, shots=shots)


def _arc_shot(row: Row) -> str:
    choices, gold = _arc_choices(row)
    return f"Question: {row['question']}\nAnswer: {choices[gold]}"


def _arc_choices(row: Row) -> tuple[tuple[str, ...], int]:
    listed = _need(row, "choices")
    if not isinstance(listed, dict) or not {"text", "label"} <= listed.keys():
        raise ValueError(f"field 'choices' must have 'text' and 'label', not {listed!r}")
    key = str(_need(row, "answerKey"))
    if key not in listed["label"]:
        raise ValueError(f"field 'answerKey' is {key!r}, which is no label of a choice")
    return tuple(map(str, listed["text"])), list(listed["label"]).index(key)


def _scorers_and_prompt(source: Source, question: str, continued: str) -> tuple[tuple[str, ...], str]:
    if source.likelihood:
        return ("likelihood:norm", "likelihood"), continued
    return ("choice",), question


def hellaswag(variant: str = "", source: Source | None = None) -> IndexedFile:
    """Which ending goes on? The validation set, 10,042 contexts with four endings each."""
    _known(variant, (), "hellaswag")
    source = source or Source()
    files = _hellaswag_files(source)

    def read(row: Row, number: int) -> Sample:
        context, endings, gold = _hellaswag_row(row)
        asked = f"Which sentence goes on best?\n\n{context}"
        scorers, prompt = _scorers_and_prompt(source, asked, context)
        return Sample(
            id=str(row.get("ind", number)) if "ind" in row and "source_id" not in row else str(number),
            messages=(user(prompt),),
            choices=_distinct(endings),
            targets=(_distinct(endings)[gold],),
            scorers=scorers,
            category=str(row.get("activity_label", "")),
            metadata=_RAW if source.likelihood else {},
            fixed=source.likelihood,
        )

    form = "lm-eval hellaswag 1.0, 0-shot, per character" if source.likelihood else _LETTER_FORM
    made = _dataset("hellaswag", files, read, about="which ending goes on", form=form, public_since=2019)
    if files.folder is None and source.path:
        # The copy stays readable for as long as the dataset holds it open.
        files.asked[0].unlink()
    return made


def _hellaswag_files(source: Source) -> _Files:
    path = Path(source.path) if source.path else None
    if path is not None and path.is_dir():
        texts = sorted(p for p in path.iterdir() if ".txt" in p.suffixes)
        path = texts[0] if texts else path
    if path is not None and ".txt" in path.suffixes:
        return _Files(asked=[_six_lines_as_rows(path)])
    return _files(_Home(repo="Rowan/hellaswag", split="validation", names={"validation": ("val",)}), source)


def _six_lines_as_rows(path: Path) -> Path:
    """A copy as rows of the set in its text form, six lines an item: context, gold index, four endings."""
    opening = bz2.open if path.suffix == ".bz2" else open
    with opening(path, "rt", encoding="utf-8") as file, tempfile.NamedTemporaryFile("wb", suffix=".jsonl", delete=False) as made:
        while context := file.readline().rstrip("\n"):
            gold, *endings = (file.readline().rstrip("\n") for _ in range(5))
            made.write(msgspec.json.encode({"query": context, "label": gold, "endings": endings}) + b"\n")
    return Path(made.name)


_BEGUN = re.compile(r"""(?:(?<=[.!?] )|(?<=[.!?]["')] ))[a-z][^.!?]*$""")


def _hellaswag_row(row: Row) -> tuple[str, tuple[str, ...], int]:
    endings = _need(row, "endings")
    if isinstance(endings, str) or len(endings) != 4:
        raise ValueError(f"field 'endings' must list four texts, not {endings!r}")
    if "query" in row:
        # The last sentence is only begun; what it begins with is a capital, in the hub's form too.
        context = _BEGUN.sub(lambda begun: begun[0].capitalize(), str(row["query"]))
    else:
        context = f"{_need(row, 'activity_label')}: {_need(row, 'ctx_a')} {str(_need(row, 'ctx_b')).capitalize()}"
    return _cleaned(context), tuple(_cleaned(str(ending)) for ending in endings), int(_need(row, "label"))


def _cleaned(text: str) -> str:
    """What WikiHow left in the texts is taken out, as lm-eval does."""
    text = text.strip().replace(" [title]", ". ")
    return re.sub(r"\[.*?\]", "", text).replace("  ", " ")


# --- TruthfulQA -------------------------------------------------------------------------------------


def truthfulqa(variant: str = "", source: Source | None = None) -> IndexedFile:
    """Questions people answer wrongly: `truthfulqa` (best true or best false answer), `:mc1`, `:mc2`, `:generation`."""
    _known(variant, ("binary", "mc1", "mc2", "generation"), "truthfulqa")
    source = source or Source()
    make = {"mc1": _truthful_mc, "mc2": _truthful_mc, "generation": _truthful_generation}.get(variant, _truthful_binary)
    return make(variant, source)


def _preceded(count: int) -> str:
    """How many worked questions come first, and what that means for a comparison."""
    if count == _PREAMBLE:
        return f"{count} questions before it"
    return (
        f"but {count} questions before it, not {_PREAMBLE} (preamble.txt beside the rows): not comparable with lm-eval's figures"
    )


def _truthful_files(source: Source, config: str, *names: str) -> _Files:
    if source.path and Path(source.path).is_dir():
        for name in names:
            found = Path(source.path) / name
            if found.is_file():
                return _Files(asked=[found], folder=found.parent)
    return _files(_Home(repo="truthfulqa/truthful_qa", config=config, split="validation"), source)


def _truthful_binary(variant: str, source: Source) -> IndexedFile:
    files = _truthful_files(source, "generation", "TruthfulQA.csv")

    def read(row: Row, number: int) -> Sample:
        true = str(_need(row, "Best Answer", "best_answer"))
        false = str(_need(row, "Best Incorrect Answer"))
        if true == false:
            raise ValueError("fields 'Best Answer' and 'Best Incorrect Answer' are the same")
        return Sample(
            id=str(number),
            messages=(user(str(_need(row, "Question", "question"))),),
            choices=(true, false),
            targets=(true,),
            category=str(row.get("Category", row.get("category", ""))),
            scorers=("choice",),
        )

    form = "TruthfulQA 2025, binary: the best true and the best false answer, in an order of our own"
    return _dataset("truthfulqa", files, read, about="what people commonly get wrong", form=form, public_since=2021)


def _truthful_mc(variant: str, source: Source) -> IndexedFile:
    files = _truthful_files(source, "multiple_choice", "mc_task.json", "v1/mc_task.json")
    preamble, count = _worked(files, source, "preamble.txt", usual=_PREAMBLE)

    def read(row: Row, number: int) -> Sample:
        choices, true = _truthful_choices(_need(row, f"{variant}_targets"), variant)
        question = str(_need(row, "question"))
        prompt = f"{preamble}Q: {question}\nA:" if source.likelihood else question
        scorer = ("likelihood:mass" if variant == "mc2" else "likelihood") if source.likelihood else "choice"
        return Sample(
            id=str(number),
            messages=(user(prompt),),
            choices=choices,
            targets=true,
            scorers=(scorer,),
            metadata=_RAW if source.likelihood else {},
            fixed=source.likelihood,
        )

    if variant == "mc2" and not source.likelihood:
        raise DatasetError("truthfulqa:mc2 is the probability of the true answers: say --likelihood, or ask truthfulqa:mc1")
    form = f"lm-eval truthfulqa_{variant}, {_preceded(count)}" if source.likelihood else _LETTER_FORM
    name = f"truthfulqa:{variant}"
    return _dataset(name, files, read, about="one true answer among false ones", form=form, public_since=2021, shots=preamble)


def _truthful_choices(targets: Any, variant: str) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The choices and the true ones among them; the hub has two lists, the original file a mapping."""
    if isinstance(targets, dict) and "choices" in targets:
        pairs = list(zip(targets["choices"], targets["labels"], strict=False))
    elif isinstance(targets, dict):
        pairs = list(targets.items())
    else:
        raise ValueError(f"field '{variant}_targets' must be an object, not {targets!r}")
    true = tuple(dict.fromkeys(text for text, label in pairs if label))
    if not true:
        raise ValueError(f"field '{variant}_targets' has no true answer")
    return tuple(dict.fromkeys(text for text, _ in pairs)), true


def _truthful_generation(variant: str, source: Source) -> IndexedFile:
    files = _truthful_files(source, "generation", "TruthfulQA.csv", "v1/TruthfulQA.csv")
    preamble, count = _worked(files, source, "preamble.txt", usual=_PREAMBLE)

    def read(row: Row, number: int) -> Sample:
        true = _ended(_need(row, "Correct Answers", "correct_answers"))
        false = _ended(_need(row, "Incorrect Answers", "incorrect_answers"))
        question = str(_need(row, "Question", "question"))
        return Sample(
            id=str(number),
            messages=(user(f"{preamble}Q: {question}" if preamble else question),),
            targets=(str(_need(row, "Best Answer", "best_answer")),),
            category=str(row.get("Category", row.get("category", ""))),
            scorers=("truthful:bleu_acc", "truthful:rouge1_acc", "truthful:rougeLsum_acc"),
            metadata={"true": (*true, "I have no comment."), "false": false},
            stop=("\n\n",) if preamble else (),
            fixed=True,
        )

    form = f"lm-eval truthfulqa_gen 3.0, {_preceded(count)}; BLEU nearer to a true answer ranks"
    name = "truthfulqa:generation"
    return _dataset(name, files, read, about="the same in free text", form=form, public_since=2021, shots=preamble)


def _ended(answers: Any) -> tuple[str, ...]:
    listed = answers if isinstance(answers, list) else str(answers).split(";")
    return tuple(f"{text.strip().rstrip('.')}." for text in map(str, listed) if text.strip())


# --- instructions, code, BBH ------------------------------------------------------------------------


def ifeval(variant: str = "", source: Source | None = None) -> IndexedFile:
    """Instructions whose following can be checked: 541 prompts, 25 kinds."""
    _known(variant, (), "ifeval")
    files = _files(_Home(repo="google/IFEval", split="train"), source or Source())

    def read(row: Row, number: int) -> Sample:
        kinds, arguments = _need(row, "instruction_id_list"), _need(row, "kwargs")
        if not isinstance(kinds, list) or not isinstance(arguments, list) or len(kinds) != len(arguments):
            raise ValueError("fields 'instruction_id_list' and 'kwargs' must be lists of one length")
        return Sample(
            id=str(row.get("key", number)),
            messages=(user(str(_need(row, "prompt"))),),
            category=kinds[0].partition(":")[0] if kinds else "",
            scorers=("ifeval:strict", "ifeval:loose", "ifeval:instructions", "ifeval:instructions-loose"),
            metadata={"instructions": kinds, "arguments": arguments},
            fixed=True,
        )

    form = "IFEval, prompt level strict ranks; loose and instruction level beside it"
    return _dataset("ifeval", files, read, about="instructions that can be checked", form=form, public_since=2023)


def humaneval(variant: str = "", source: Source | None = None) -> IndexedFile:
    """Python functions to be completed, checked by running their tests in the sandbox."""
    _known(variant, (), "humaneval")
    files = _files(_Home(repo="openai/openai_humaneval"), source or Source())

    def read(row: Row, number: int) -> Sample:
        prompt, test, entry = (str(_need(row, name)) for name in ("prompt", "test", "entry_point"))
        asked = f"Complete this Python function. Reply with the whole function in a ```python block.\n\n```python\n{prompt}```"
        return Sample(
            id=str(row.get("task_id", number)),
            messages=(user(asked),),
            targets=(str(row.get("canonical_solution", "")),),
            scorers=("code",),
            metadata={"before": prompt, "entry_point": entry, "test": f"{test}\ncheck({entry})"},
            fixed=True,
        )

    form = "HumanEval, instructed: the first Python block is run with the tests; pass@1 is the score, pass@k from repeats"
    return _dataset("humaneval", files, read, about="functions to complete", form=form, public_since=2021)


def mbpp(variant: str = "", source: Source | None = None) -> IndexedFile:
    """Small Python programs from a sentence and an example, checked by running their tests in the sandbox."""
    _known(variant, (), "mbpp")
    files = _files(_Home(repo="google-research-datasets/mbpp", config="sanitized"), source or Source())

    def read(row: Row, number: int) -> Sample:
        tests = [str(test) for test in _need(row, "test_list")]
        imports = "\n".join(map(str, row.get("test_imports", ())))
        asked = f"{_need(row, 'prompt', 'text')} Your code should pass this test:\n\n{tests[0]}\n\nReply with a ```python block."
        return Sample(
            id=str(row.get("task_id", number)),
            messages=(user(asked),),
            targets=(str(row.get("code", "")),),
            scorers=("code",),
            metadata={"before": "", "entry_point": "", "test": "\n".join((imports, *tests))},
            fixed=True,
        )

    form = "MBPP sanitized, instructed, zero-shot: the first Python block is run with the tests"
    return _dataset("mbpp", files, read, about="small programs from a sentence", form=form, public_since=2021)


def bbh(variant: str = "", source: Source | None = None) -> IndexedFile:
    """27 tasks that were hard for models: `bbh`, or `bbh:TASK`; with the examples of `cot-prompts/` where they are there."""
    source = source or Source()
    home = _Home(repo="lukaemon/bbh", config=variant)
    files = _files(home, source)
    asked = [p for p in files.asked if not variant or not source.path or p.name.partition(".")[0] == variant]
    if not asked:
        tasks = sorted(p.name.partition(".")[0] for p in files.asked)
        raise DatasetError(f"there is no task {variant!r} in {source.path}; there are {', '.join(tasks)}")
    parts = [_bbh_task(path, source) for path in asked]
    made = parts[0] if len(parts) == 1 else _Joined(parts)
    made.name, made.about = (f"bbh:{variant}" if variant else "bbh"), "tasks that were hard for models"
    return made  # type: ignore[return-value]


def _bbh_task(path: Path, source: Source) -> IndexedFile:
    task = path.name.partition(".")[0] if source.path else path.parent.name
    shots = _bbh_shots(path.parent / "cot-prompts" / f"{task}.txt", source)

    def read(row: Row, number: int) -> Sample:
        question, target = str(_need(row, "input")), str(_need(row, "target"))
        options = _bbh_options(question)
        prompt = f"{shots}Q: {question}\nA: Let's think step by step.\n" if shots else question
        scorers = ("bbh", "match") if shots else ("match",)
        lettered = bool(options) and not shots and target in options
        return Sample(
            id=f"{task}/{number}",
            messages=(user(_without_options(question) if lettered else prompt),),
            choices=_distinct(tuple(options.values())) if lettered else (),
            targets=(options[target] if lettered else target,),
            scorers=("choice",) if lettered else scorers,
            category=task,
            stop=_BBH_STOPS if shots else (),
            fixed=bool(shots),
        )

    count = shots.count("\nA: ") if shots else 0
    form = f"lm-eval bbh_cot_fewshot 4.0, {count}-shot" if shots else f"zero-shot; with options {_LETTER_FORM}"
    one = _Files(asked=[path])
    return _dataset(f"bbh:{task}", one, read, about="hard tasks", form=form, public_since=2022, shots=shots, below="examples")


def _bbh_shots(path: Path, source: Source) -> str:
    """The examples of a task's file, below the line that marks where they begin."""
    if source.shots == 0 or not path.is_file():
        return ""
    text = path.read_text(encoding="utf-8").partition("-----\n")[2].strip()
    parts = re.split(r"\n\n(?=Q: )", text)
    return "\n\n".join(parts[: 1 + (3 if source.shots is None else source.shots)]) + "\n\n"


_OPTION = re.compile(r"^(\([A-Z]\)) (.*)$", re.MULTILINE)


def _bbh_options(question: str) -> dict[str, str]:
    """The lettered options a question lists, by their letter in brackets."""
    return {found[1]: found[2] for found in _OPTION.finditer(question.partition("Options:")[2])}


def _without_options(question: str) -> str:
    return question.partition("Options:")[0].strip()


def _known(variant: str, known: Sequence[str], name: str) -> None:
    if variant and variant not in known:
        listed = ", ".join([name, *(f"{name}:{other}" for other in known)])
        raise DatasetError(f"there is no dataset {name + ':' + variant!r}; there are {listed}")
