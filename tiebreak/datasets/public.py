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

from tiebreak.core.digest import digest_of_texts
from tiebreak.core.errors import DatasetError
from tiebreak.core.message import user
from tiebreak.core.run import Source
from tiebreak.core.sample import Sample
from tiebreak.datasets.hub import Address, fetch
from tiebreak.datasets.indexed import IndexedFile, Row
from tiebreak.datasets.records import checked_rows, is_records, open_records

_LETTER_FORM = "asked for the letter, choices in an order of our own; not comparable with likelihood figures"
_RAW = {"raw": True}
"""The text is gone on with as it stands, as lm-eval does, and not put into the turns of a conversation."""
_USUAL = Source()
"""From the hub, put as the reference puts it."""
_PREAMBLE = 6
"""Questions that lm-eval puts before every one of TruthfulQA."""
_BY_LENGTH = ("likelihood:norm", "likelihood")
_ENDS = ("</s>", "<|im_end|>")
_BBH_STOPS = ("</s>", "Q:", "\n\n")
"""Where a reference has a model stop that goes on with a text. Chat models are not told to stop there: they answer in
paragraphs, and may repeat the question. The reference's own scorers read the answer up to that place."""
_OPTION = re.compile(r"^(\([A-Z]\)) (.*)$", re.MULTILINE)
"""An option that a question of BBH lists, with its letter in brackets."""
_WHOLE = re.compile(r"-?\d+")


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
        yield from (row for _, row in checked_rows(open_records(path)))


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


def _choice_sample(
    source: Source, *, question: str, continued: str, choices: tuple[str, ...], targets: tuple[str, ...], **more: Any
) -> Sample:
    """A sample with choices: the question is asked for a letter, or the choices are weighed as what the text goes on with."""
    if not source.likelihood:
        more |= {"scorers": ("choice",)}
        return Sample(messages=(user(question),), choices=choices, targets=targets, **more)
    return Sample(messages=(user(continued),), choices=choices, targets=targets, metadata=_RAW, fixed=True, **more)


def _of_variant(files: _Files, variant: str, source: Source, what: str, name_of: Callable[[Path], str]) -> list[Path]:
    """The files of one part of a set, or of all of it; from the hub no others come."""
    asked = [path for path in files.asked if not variant or not source.path or variant == name_of(path)]
    if not asked:
        there = sorted({name_of(path) for path in files.asked})
        raise DatasetError(f"there is no {what} {variant!r} in {source.path}; there are {', '.join(there)}")
    return asked


def _joined(parts: Sequence[IndexedFile], name: str, variant: str, about: str) -> IndexedFile:
    dataset = parts[0] if len(parts) == 1 else _Joined(parts)
    dataset.name, dataset.about = f"{name}:{variant}" if variant else name, about
    return dataset  # type: ignore[return-value]


def _field(row: Row, *names: str) -> Any:
    for name in names:
        if name in row:
            return row[name]
    raise ValueError(f"field {names[0]!r} is missing; the row has {', '.join(map(repr, row)) or 'nothing'}")


# --- GSM8K ------------------------------------------------------------------------------------------


def gsm8k(variant: str = "", source: Source = _USUAL) -> IndexedFile:
    """Grade-school arithmetic in words: `gsm8k`, or `gsm8k:cot` with the examples of `cot-prompt.txt`."""
    _check_variant(variant, ("cot",), "gsm8k")
    files = _files(_Home(repo="openai/gsm8k", config="main", shots="train"), source)
    if variant == "cot":
        shots, count = _worked_examples(files, source, "cot-prompt.txt", usual=8)
        put, scorers, stops = "Q: {}\nA:", ("numeric", "gsm8k:cot", "gsm8k:flexible"), ("Q:", *_ENDS)
        about = "the same with reasoning"
        form = f"lm-eval gsm8k_cot 3.0, {count}-shot; the number stated ranks, strict-match and flexible-extract beside it"
    else:
        shots = _shots(files, source, 5, lambda row: f"Question: {row['question']}\nAnswer: {row['answer']}", where="train.jsonl")
        count = 5 if source.shots is None else source.shots
        put, scorers, stops = "Question: {}\nAnswer:", ("numeric", "gsm8k:flexible", "gsm8k:strict"), ("Question:", *_ENDS)
        about = "grade-school arithmetic in words"
        form = f"lm-eval gsm8k 3.0, {count}-shot; the number stated ranks, flexible-extract and strict-match beside it"

    def read(row: Row, number: int) -> Sample:
        question, answer = str(_field(row, "question")), str(_field(row, "answer"))
        return Sample(
            id=str(row.get("id", number)),
            messages=(user(shots + put.format(question)),),
            targets=(_after_hashes(answer),),
            scorers=scorers,
            metadata={"reference_stops": stops},
            fixed=True,
        )

    name = "gsm8k:cot" if variant else "gsm8k"
    return _dataset(name, files, read, about=about, form=form, public_since=2021, shots=shots)


def _worked_examples(files: _Files, source: Source, name: str, *, usual: int) -> tuple[str, int]:
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


def mmlu(variant: str = "", source: Source = _USUAL) -> IndexedFile:
    """57 subjects of exam questions, four choices each; `mmlu:SUBJECT` is one of them."""
    home = _Home(repo="cais/mmlu", config=variant or "all", shots="dev" if source.likelihood and source.shots else "")
    files = _files(home, source)
    parts = [_mmlu_file(path, files, source) for path in _of_variant(files, variant, source, "subject", _subject)]
    return _joined(parts, "mmlu", variant, "exam questions of 57 subjects")


def _mmlu_file(path: Path, files: _Files, source: Source) -> IndexedFile:
    subject = _subject(path)
    count = (source.shots or 0) if source.likelihood else 0
    shots = ""
    if count:
        dev = _Files(asked=(), shots=[p for p in files.shots if _subject(p) == subject] or files.shots)
        shots = _shots(dev, source, 0, lambda row: f"{_mmlu_prompt(row)} {ascii_uppercase[_index(row)]}", where="dev/")

    def read(row: Row, number: int) -> Sample:
        named = str(row.get("subject", subject))
        about = f"The following are multiple choice questions (with answers) about {named.replace('_', ' ')}.\n\n"
        choices = tuple("ABCD") if source.likelihood else _distinct(_mmlu_choices(row))
        return _choice_sample(
            source,
            id=f"{named}/{number}",
            category=named,
            question=str(_field(row, "question")).strip(),
            continued=f"{about}{shots}{_mmlu_prompt(row)}",
            choices=choices,
            targets=(choices[_index(row)],),
            scorers=("likelihood",),
        )

    form = f"lm-eval mmlu 2, {count}-shot, likelihood of the letter" if source.likelihood else _LETTER_FORM
    one = _Files(asked=[path])
    return _dataset(f"mmlu:{subject}", one, read, about="exam questions", form=form, public_since=2020, shots=shots)


def _subject(path: Path) -> str:
    name = re.sub(r"_(test|dev|val)$", "", path.name.partition(".")[0])
    return path.parent.name if re.match(r"(test|dev|validation)\b", name) else name


def _mmlu_prompt(row: Row) -> str:
    listed = "\n".join(f"{letter}. {choice}" for letter, choice in zip("ABCD", _mmlu_choices(row), strict=True))
    return f"{str(_field(row, 'question')).strip()}\n{listed}\nAnswer:"


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
    answer = str(_field(row, "answer")).strip()
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


def arc(variant: str = "", source: Source = _USUAL) -> IndexedFile:
    """Science questions of grade-school exams: `arc:challenge` (the default) or `arc:easy`."""
    _check_variant(variant, ("challenge", "easy"), "arc")
    config = "ARC-Easy" if variant == "easy" else "ARC-Challenge"
    files = _files(_Home(repo="allenai/ai2_arc", config=config, shots="train" if source.shots else ""), source)
    shots = _shots(files, source, 0, _arc_shot, where="the train split")

    def read(row: Row, number: int) -> Sample:
        texts, gold = _arc_choices(row)
        choices, question = _distinct(texts), str(_field(row, "question"))
        return _choice_sample(
            source,
            id=str(row.get("id", number)),
            question=question,
            continued=f"{shots}Question: {question}\nAnswer:",
            choices=choices,
            targets=(choices[gold],),
            scorers=_BY_LENGTH,
        )

    form = f"lm-eval arc 1.0, {source.shots or 0}-shot, per character" if source.likelihood else _LETTER_FORM
    name = f"arc:{variant or 'challenge'}"
    return _dataset(name, files, read, about="grade-school science exams", form=form, public_since=2018, shots=shots)


def _arc_shot(row: Row) -> str:
    choices, gold = _arc_choices(row)
    return f"Question: {row['question']}\nAnswer: {choices[gold]}"


def _arc_choices(row: Row) -> tuple[tuple[str, ...], int]:
    listed = _field(row, "choices")
    if not isinstance(listed, dict) or not {"text", "label"} <= listed.keys():
        raise ValueError(f"field 'choices' must have 'text' and 'label', not {listed!r}")
    key = str(_field(row, "answerKey"))
    if key not in listed["label"]:
        raise ValueError(f"field 'answerKey' is {key!r}, which is no label of a choice")
    return tuple(map(str, listed["text"])), list(listed["label"]).index(key)


def hellaswag(variant: str = "", source: Source = _USUAL) -> IndexedFile:
    """Which ending goes on? The validation set, 10,042 contexts with four endings each."""
    _check_variant(variant, (), "hellaswag")
    files = _hellaswag_files(source)

    def read(row: Row, number: int) -> Sample:
        context, endings, gold = _hellaswag_row(row)
        choices = _distinct(endings)
        return _choice_sample(
            source,
            id=str(row["ind"] if "ind" in row and "source_id" not in row else number),
            category=str(row.get("activity_label", "")),
            question=f"Which sentence goes on best?\n\n{context}",
            continued=context,
            choices=choices,
            targets=(choices[gold],),
            scorers=_BY_LENGTH,
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
    endings = _field(row, "endings")
    if isinstance(endings, str) or len(endings) != 4:
        raise ValueError(f"field 'endings' must list four texts, not {endings!r}")
    if "query" in row:
        # The last sentence is only begun; what it begins with is a capital, in the hub's form too.
        context = _BEGUN.sub(lambda begun: begun[0].capitalize(), str(row["query"]))
    else:
        context = f"{_field(row, 'activity_label')}: {_field(row, 'ctx_a')} {str(_field(row, 'ctx_b')).capitalize()}"
    return _cleaned(context), tuple(_cleaned(str(ending)) for ending in endings), int(_field(row, "label"))


def _cleaned(text: str) -> str:
    """What WikiHow left in the texts is taken out, as lm-eval does."""
    text = text.strip().replace(" [title]", ". ")
    return re.sub(r"\[.*?\]", "", text).replace("  ", " ")


# --- TruthfulQA -------------------------------------------------------------------------------------


def truthfulqa(variant: str = "", source: Source = _USUAL) -> IndexedFile:
    """Questions people answer wrongly: `truthfulqa` (best true or best false answer), `:mc1`, `:mc2`, `:generation`."""
    _check_variant(variant, ("binary", "mc1", "mc2", "generation"), "truthfulqa")
    make = {"mc1": _truthful_mc, "mc2": _truthful_mc, "generation": _truthful_generation}.get(variant, _truthful_binary)
    return make(variant, source)


def _preamble_note(count: int) -> str:
    """How many worked questions come first, and what that means for a comparison."""
    if count == _PREAMBLE:
        return f"{count} questions before it"
    beside = f"not {_PREAMBLE} (preamble.txt beside the rows)"
    return f"but {count} questions before it, {beside}: not comparable with lm-eval's figures"


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
        true = str(_field(row, "Best Answer", "best_answer"))
        false = str(_field(row, "Best Incorrect Answer"))
        if true == false:
            raise ValueError("fields 'Best Answer' and 'Best Incorrect Answer' are the same")
        return Sample(
            id=str(number),
            messages=(user(str(_field(row, "Question", "question"))),),
            choices=(true, false),
            targets=(true,),
            category=str(row.get("Category", row.get("category", ""))),
            scorers=("choice",),
        )

    form = "TruthfulQA 2025, binary: the best true and the best false answer, in an order of our own"
    return _dataset("truthfulqa", files, read, about="what people commonly get wrong", form=form, public_since=2021)


def _truthful_mc(variant: str, source: Source) -> IndexedFile:
    files = _truthful_files(source, "multiple_choice", "mc_task.json", "v1/mc_task.json")
    preamble, count = _worked_examples(files, source, "preamble.txt", usual=_PREAMBLE)

    def read(row: Row, number: int) -> Sample:
        choices, true = _truthful_choices(_field(row, f"{variant}_targets"), variant)
        question = str(_field(row, "question"))
        return _choice_sample(
            source,
            id=str(number),
            question=question,
            continued=f"{preamble}Q: {question}\nA:",
            choices=choices,
            targets=true,
            scorers=("likelihood:mass" if variant == "mc2" else "likelihood",),
        )

    if variant == "mc2" and not source.likelihood:
        raise DatasetError("truthfulqa:mc2 is the probability of the true answers: say --likelihood, or ask truthfulqa:mc1")
    form = f"lm-eval truthfulqa_{variant}, {_preamble_note(count)}" if source.likelihood else _LETTER_FORM
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
    preamble, count = _worked_examples(files, source, "preamble.txt", usual=_PREAMBLE)

    def read(row: Row, number: int) -> Sample:
        true = _answer_list(_field(row, "Correct Answers", "correct_answers"))
        false = _answer_list(_field(row, "Incorrect Answers", "incorrect_answers"))
        question = str(_field(row, "Question", "question"))
        return Sample(
            id=str(number),
            messages=(user(f"{preamble}Q: {question}" if preamble else question),),
            targets=(str(_field(row, "Best Answer", "best_answer")),),
            category=str(row.get("Category", row.get("category", ""))),
            scorers=("truthful:bleu_acc", "truthful:rouge1_acc", "truthful:rougeLsum_acc"),
            metadata={"true": (*true, "I have no comment."), "false": false, "reference_stops": ("\n\n",) if preamble else ()},
            fixed=True,
        )

    form = f"lm-eval truthfulqa_gen 3.0, {_preamble_note(count)}; BLEU nearer to a true answer ranks"
    name = "truthfulqa:generation"
    return _dataset(name, files, read, about="the same in free text", form=form, public_since=2021, shots=preamble)


def _answer_list(answers: Any) -> tuple[str, ...]:
    listed = answers if isinstance(answers, list) else str(answers).split(";")
    return tuple(f"{text.strip().rstrip('.')}." for text in map(str, listed) if text.strip())


# --- instructions, code, BBH ------------------------------------------------------------------------


def ifeval(variant: str = "", source: Source = _USUAL) -> IndexedFile:
    """Instructions whose following can be checked: 541 prompts, 25 kinds."""
    _check_variant(variant, (), "ifeval")
    files = _files(_Home(repo="google/IFEval", split="train"), source)

    def read(row: Row, number: int) -> Sample:
        kinds, arguments = _field(row, "instruction_id_list"), _field(row, "kwargs")
        if not isinstance(kinds, list) or not isinstance(arguments, list) or len(kinds) != len(arguments):
            raise ValueError("fields 'instruction_id_list' and 'kwargs' must be lists of one length")
        return Sample(
            id=str(row.get("key", number)),
            messages=(user(str(_field(row, "prompt"))),),
            category=kinds[0].partition(":")[0] if kinds else "",
            scorers=("ifeval:strict", "ifeval:loose", "ifeval:instructions", "ifeval:instructions-loose"),
            metadata={"instructions": kinds, "arguments": arguments},
            fixed=True,
        )

    form = "IFEval, prompt level strict ranks; loose and instruction level beside it"
    return _dataset("ifeval", files, read, about="instructions that can be checked", form=form, public_since=2023)


def humaneval(variant: str = "", source: Source = _USUAL) -> IndexedFile:
    """Python functions to be completed, checked by running their tests in the sandbox."""
    _check_variant(variant, (), "humaneval")
    files = _files(_Home(repo="openai/openai_humaneval"), source)

    def read(row: Row, number: int) -> Sample:
        prompt, test, entry = (str(_field(row, name)) for name in ("prompt", "test", "entry_point"))
        asked = f"Complete this Python function. Reply with the whole function in a ```python block.\n\n```python\n{prompt}```"
        tests = {"before": prompt, "entry_point": entry, "test": f"{test}\ncheck({entry})"}
        return _code_sample(row, number, asked, "canonical_solution", tests)

    form = "HumanEval, instructed: the first Python block is run with the tests; pass@1 is the score, pass@k from repeats"
    return _dataset("humaneval", files, read, about="functions to complete", form=form, public_since=2021)


def mbpp(variant: str = "", source: Source = _USUAL) -> IndexedFile:
    """Small Python programs from a sentence and an example, checked by running their tests in the sandbox."""
    _check_variant(variant, (), "mbpp")
    files = _files(_Home(repo="google-research-datasets/mbpp", config="sanitized"), source)

    def read(row: Row, number: int) -> Sample:
        tests = [str(test) for test in _field(row, "test_list")]
        imports = "\n".join(map(str, row.get("test_imports", ())))
        asked = f"{_field(row, 'prompt', 'text')} Your code should pass this test:\n\n{tests[0]}\n\nReply with a ```python block."
        checks = {"before": "", "entry_point": "", "test": "\n".join((imports, *tests))}
        return _code_sample(row, number, asked, "code", checks)

    form = "MBPP sanitized, instructed, zero-shot: the first Python block is run with the tests"
    return _dataset("mbpp", files, read, about="small programs from a sentence", form=form, public_since=2021)


def _code_sample(row: Row, number: int, asked: str, solution: str, metadata: Mapping[str, str]) -> Sample:
    """A program to be written, with the column its solution is in."""
    return Sample(
        id=str(row.get("task_id", number)),
        messages=(user(asked),),
        targets=(str(row.get(solution, "")),),
        scorers=("code",),
        metadata=metadata,
        fixed=True,
    )


def bbh(variant: str = "", source: Source = _USUAL) -> IndexedFile:
    """27 tasks that were hard for models: `bbh`, or `bbh:TASK`; with the examples of `cot-prompts/` where they are there."""
    files = _files(_Home(repo="lukaemon/bbh", config=variant), source)
    asked = _of_variant(files, variant, source, "task", lambda path: path.name.partition(".")[0])
    return _joined([_bbh_task(path, source) for path in asked], "bbh", variant, "tasks that were hard for models")


def _bbh_task(path: Path, source: Source) -> IndexedFile:
    task = path.name.partition(".")[0] if source.path else path.parent.name
    shots = _bbh_shots(path.parent / "cot-prompts" / f"{task}.txt", source)

    def read(row: Row, number: int) -> Sample:
        question, target = str(_field(row, "input")), str(_field(row, "target"))
        asked, _, listed = question.partition("Options:")
        options = {found[1]: found[2] for found in _OPTION.finditer(listed)}
        prompt = f"{shots}Q: {question}\nA: Let's think step by step.\n" if shots else question
        lettered = target in options
        choices = _distinct(tuple(options.values())) if lettered else ()
        ranks = "choice" if lettered else "numeric" if _WHOLE.fullmatch(target) else "match"
        return Sample(
            id=f"{task}/{number}",
            messages=(user(asked.strip() if lettered and not shots else prompt),),
            choices=choices,
            targets=(choices[list(options).index(target)] if lettered else target,),
            scorers=(ranks, "bbh") if shots else (ranks,),
            category=task,
            metadata={"reference_stops": _BBH_STOPS} if shots else {},
            fixed=bool(shots),
        )

    count = shots.count("\nA: ") if shots else 0
    worked = f"lm-eval bbh_cot_fewshot 4.0, {count}-shot; the answer stated ranks, exact match beside it"
    form = worked if shots else f"zero-shot; with options {_LETTER_FORM}"
    one = _Files(asked=[path])
    return _dataset(f"bbh:{task}", one, read, about="hard tasks", form=form, public_since=2022, shots=shots, below="examples")


def _bbh_shots(path: Path, source: Source) -> str:
    """The examples of a task's file, below the line that marks where they begin."""
    if source.shots == 0 or not path.is_file():
        return ""
    text = path.read_text(encoding="utf-8").partition("-----\n")[2].strip()
    parts = re.split(r"\n\n(?=Q: )", text)
    return "\n\n".join(parts[: 1 + (3 if source.shots is None else source.shots)]) + "\n\n"


def _check_variant(variant: str, known: Sequence[str], name: str) -> None:
    if variant and variant not in known:
        listed = ", ".join([name, *(f"{name}:{other}" for other in known)])
        raise DatasetError(f"there is no dataset {name + ':' + variant!r}; there are {listed}")
