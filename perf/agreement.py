"""How well the scorers agree with people, and what an answer costs to score.

    python perf/agreement.py DATA

DATA has `evouna/NQ.json.gz` and `mmlu_pro_outputs/outputs.jsonl.gz`; the labelled answers are those of `tests/scorers/answers`.
Prints the tables of docs/scorers.md.
"""

from __future__ import annotations

import asyncio
import gzip
import json
import sys
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from tiebreak.core.message import user  # noqa: E402 -- the repository is not installed
from tiebreak.core.sample import Sample  # noqa: E402
from tiebreak.core.trial import Output  # noqa: E402
from tiebreak.registry import make_scorer  # noqa: E402

LABELLED = ROOT / "tests" / "scorers" / "answers"
SYSTEMS = ("fid", "gpt35", "chatgpt", "gpt4", "newbing")
Judged = tuple[Sample, str, bool]
ASKED = Sample(id="timed", messages=(user("Which of the planets is the largest one?"),))
TIMED = {
    "match": (
        "The largest planet in our solar system is **Jupiter**. It is a gas giant with a mass more than two and a half times that"
        " of all the other planets combined, and it has been known since antiquity by everyone.",
        {"targets": ("Jupiter",)},
    ),
    "numeric": (
        "She uses 3 eggs for breakfast and 4 for muffins, so 16 - 3 - 4 = 9 eggs are left. She sells them at $2 each, so she"
        " makes 9 * 2 = $18 every day at the market. The answer is therefore **$18** for the day.",
        {"targets": ("18",)},
    ),
    "choice": (
        "Let me consider the options. Oxygen makes up about 21 percent of the air and argon about one percent, while nitrogen"
        " makes up about 78 percent of it. Therefore, the correct answer is **B) nitrogen** here.",
        {"targets": ("nitrogen",), "choices": ("oxygen", "nitrogen", "argon", "carbon dioxide")},
    ),
}


def labelled(kind: str) -> Iterator[Judged]:
    """The answers labelled by hand."""
    for line in (LABELLED / f"{kind}.jsonl").read_text(encoding="utf-8").splitlines():
        row = json.loads(line)
        yield sample(row["question"], row["targets"], row.get("choices", ())), row["answer"], row["right"]


def open_questions(data: Path) -> Iterator[Judged]:
    """Answers to open questions with a person's verdict each."""
    for row in json.loads(gzip.decompress((data / "evouna" / "NQ.json.gz").read_bytes())):
        for system in () if row["improper"] else SYSTEMS:
            answer, right = row[f"answer_{system}"], row[f"judge_{system}"]
            if answer is not None and right is not None:
                yield sample(row["question"], row["golden_answer"].split("/")), answer, right


def exams(data: Path) -> Iterator[Judged]:
    """Outputs on MMLU-Pro with the letter that was recorded, corrected by hand where the verdicts differ."""
    corrected = map(json.loads, (LABELLED / "mmlu_pro_differences.jsonl").read_text(encoding="utf-8").splitlines())
    letters = {row["row"]: row["letter"] for row in corrected}
    lines = gzip.decompress((data / "mmlu_pro_outputs" / "outputs.jsonl.gz").read_bytes()).splitlines()
    for number, row in enumerate(map(json.loads, lines)):
        # An option that is listed twice is told apart.
        options = [option + " " * row["options"][:i].count(option) for i, option in enumerate(row["options"])]
        letter = letters.get(number, row["pred"])
        asked = sample(row["question"], [options["ABCDEFGHIJ".index(row["answer"])]], options)
        yield asked, row["output"], letter == row["answer"]


def sample(question: str, targets: Any, choices: Any = ()) -> Sample:
    """A sample to be judged."""
    return Sample(id="s", messages=(user(question),), targets=tuple(targets), choices=tuple(choices))


async def row_of(name: str, kind: str, answers: Iterator[Judged]) -> str:
    """One row of the table: how often either rule agrees, and which way it errs."""
    scorer, counted = make_scorer(kind), Counter[str]()
    for asked, answer, right in answers:
        score = await scorer.score(asked, Output(text=answer), None)  # type: ignore[arg-type]
        counted.update(
            n=1,
            false_right=score.value > right,
            false_wrong=score.value < right,
            second=score.second == right,
            differ=score.second != score.value,
        )
    n = counted["n"]
    agreed = n - counted["false_right"] - counted["false_wrong"]
    parts = (agreed, counted["false_right"], counted["false_wrong"], counted["second"], counted["differ"])
    return f"| `{kind}` | {name} | {n:,} | {' | '.join(f'{part / n:.1%}'.replace('%', ' %') for part in parts)} |"


async def microseconds(kind: str, text: str, sample_fields: Any, repeats: int = 2000) -> float:
    """Processor time of both rules on one answer; the best of several rounds."""
    scorer, output = make_scorer(kind), Output(text=text)
    asked = Sample(id="timed", messages=ASKED.messages, **sample_fields)
    rounds = []
    for _ in range(10):
        started = time.process_time()
        for _ in range(repeats):
            await scorer.score(asked, output, None)  # type: ignore[arg-type]
        rounds.append((time.process_time() - started) / repeats)
    return min(rounds) * 1e6


async def main(data: Path) -> None:
    """Print the tables."""
    print("| scorer | answers | n | agrees | false right | false wrong | second rule agrees | the two differ |")
    print("|---|---|---|---|---|---|---|---|")
    print(await row_of("EVOUNA NQ", "match", open_questions(data)))
    print(await row_of("MMLU-Pro outputs", "choice", exams(data)))
    for kind in ("match", "choice", "numeric"):
        print(await row_of("labelled here", kind, labelled(kind)))
    for kind, (text, fields) in TIMED.items():
        print(f"{kind}: {await microseconds(kind, text, fields):.0f} µs for {len(text)} characters")


if __name__ == "__main__":
    if len(sys.argv) != 2:
        raise SystemExit(__doc__)
    asyncio.run(main(Path(sys.argv[1])))
