"""Our figures are the reference's own, answer by answer."""

import asyncio
import json

import pytest
from conftest import _SHARED_DATA as DATA

from tiebreak.core.message import user
from tiebreak.core.sample import Sample
from tiebreak.core.trial import Output
from tiebreak.registry import make_scorer


@pytest.mark.needs("data", "scorers")
def test_bleu_on_truthfulqa_is_what_lm_eval_recorded():
    """Of 200 recorded answers each has the same best BLEU, to the ninth digit, and the same verdict."""
    path = next((DATA / "logs" / "lm-eval").glob("samples_*.jsonl"))
    rows = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()[:200]]
    verdict, best = make_scorer("truthful:bleu_acc"), make_scorer("truthful:bleu_max")

    async def compared():
        for row in rows:
            doc = row["doc"]
            answers = {"true": doc["correct_answers"], "false": doc["incorrect_answers"]}
            sample = Sample(id="s", messages=(user("?"),), targets=(doc["best_answer"],), metadata=answers)
            said = Output(text=row["filtered_resps"][0])
            assert (await verdict.score(sample, said, None)).value == float(row["bleu_acc"])
            assert 100 * (await best.score(sample, said, None)).value == pytest.approx(row["bleu_max"], abs=1e-9)

    asyncio.run(compared())
