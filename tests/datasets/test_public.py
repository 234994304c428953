"""Public datasets: the right answers score full marks under the reference's rules, and knowing nothing scores chance."""

import asyncio
import json
import re
from string import ascii_uppercase

import pytest
from conftest import _SHARED_DATA as DATA

from tiebreak.core.errors import DatasetError
from tiebreak.core.message import user
from tiebreak.core.run import Source
from tiebreak.core.trial import Output
from tiebreak.engine.prompting import present
from tiebreak.registry import load_dataset, make_scorer

pytestmark = pytest.mark.needs("data")


def public(name, folder=None, **how):
    return load_dataset(name, Source(path=str(DATA / (folder or name.partition(":")[0])), **how))


def total(dataset, scorer, answer, limit=None):
    """The sum of a scorer's verdicts when each sample gets the answer a function makes."""
    judge = make_scorer(scorer)

    async def judged():
        scores = 0.0
        for position in range(limit or len(dataset)):
            sample = present(dataset[position], seed=0, repeat=0)
            scores += (await judge.score(sample, Output(text=answer(sample)), None)).value
        return scores

    return asyncio.run(judged())


def letter(sample):
    return ascii_uppercase[sample.choices.index(sample.target)]


@pytest.fixture(scope="module")
def gsm8k():
    return public("gsm8k")


@pytest.mark.parametrize("scorer", ["gsm8k:strict", "gsm8k:flexible", "numeric"])
def test_every_gold_answer_of_gsm8k_is_right(gsm8k, scorer):
    assert len(gsm8k) == 1319
    rows = (DATA / "gsm8k" / "test.jsonl").read_text(encoding="utf-8").splitlines()
    gold = {str(number): json.loads(row)["answer"] for number, row in enumerate(rows, start=1)}
    assert total(gsm8k, scorer, lambda sample: gold[sample.id]) == 1319


@pytest.mark.parametrize(
    ("form", "least"),
    [
        ("{reasoning}\n\n**{number}**", 1319),
        ("{reasoning}\n\n**Answer:** ${number}", 1319),
        ("{reasoning}\n\n$$\\boxed{{{number}}}$$", 1319),
        ("**{number}**\n\nExplanation:\n{reasoning}", 1319),
        ("{reasoning}", 1300),
    ],
)
def test_a_right_answer_to_gsm8k_is_right_however_it_is_put(gsm8k, form, least):
    """The recorded reasoning with its number as chat models put it; and without, where the last step has to tell."""
    rows = map(json.loads, (DATA / "gsm8k" / "test.jsonl").read_text(encoding="utf-8").splitlines())
    gold = {str(number): row["answer"].rpartition("\n#### ") for number, row in enumerate(rows, start=1)}

    def said(sample):
        reasoning, _, number = gold[sample.id]
        return form.format(reasoning=re.sub(r"<<.*?>>", "", reasoning), number=number)

    assert total(gsm8k, "numeric", said) >= least


def test_gsm8k_is_put_as_the_reference_puts_it(gsm8k):
    """Five shots, the first of train; the question last; its stops are for its own scorers and not sent."""
    prompt = gsm8k[0].prompt
    assert prompt.startswith("Question: Natalia sold clips to 48 of her friends in April")
    assert prompt.count("Question: ") == 6
    assert prompt.endswith("at the farmers' market?\nAnswer:")
    assert "#### 72\n\nQuestion: Weng" in prompt
    assert gsm8k[0].stop == ()
    assert gsm8k[0].metadata["reference_stops"] == ("Question:", "</s>", "<|im_end|>")
    assert gsm8k[0].scorers == ("numeric", "gsm8k:flexible", "gsm8k:strict")
    assert public("gsm8k", shots=0)[0].prompt.startswith("Question: Janet")
    assert public("gsm8k", shots=0).digest != gsm8k.digest


def test_the_right_letter_of_every_mmlu_question_is_right_and_the_first_is_chance():
    mmlu = public("mmlu")
    assert len(mmlu) == 14_042
    assert len(set(mmlu.categories)) == 57
    assert total(mmlu, "choice", letter) == 14_042
    assert 0.24 < total(mmlu, "choice", lambda _: "A") / 14_042 < 0.26


def test_mmlu_by_likelihood_is_put_as_the_reference_puts_it():
    sample = public("mmlu:anatomy", likelihood=True, shots=5)[0]
    assert sample.prompt.startswith("The following are multiple choice questions (with answers) about anatomy.\n\n")
    assert sample.prompt.count("\nAnswer:") == 6
    assert sample.prompt.endswith("\nAnswer:")
    assert sample.choices == ("A", "B", "C", "D")
    assert present(sample, seed=3, repeat=1) is sample
    with pytest.raises(DatasetError, match="there is no subject 'anatom'"):
        public("mmlu:anatom")


def test_truthfulqa_in_its_forms():
    """Binary of 2025 and mc1 of 2021: the true answer is right wherever it stands; always the first is chance."""
    binary = public("truthfulqa")
    assert (len(binary), binary.public_since) == (790, 2021)
    assert total(binary, "choice", letter) == 790
    assert 0.45 < total(binary, "choice", lambda _: "A") / 790 < 0.55
    mc1 = public("truthfulqa:mc1")
    assert len(mc1) == 817
    assert total(mc1, "choice", letter) == 817
    chance = sum(1 / len(mc1[i].choices) for i in range(817)) / 817
    assert abs(total(mc1, "choice", lambda _: "A") / 817 - chance) < 0.05
    with pytest.raises(DatasetError, match="say --likelihood"):
        public("truthfulqa:mc2")


def test_the_tasks_of_bbh_have_their_answers():
    """Zero-shot: the right letter, or the target as it is; with examples: what follows "the answer is"."""
    bbh = public("bbh", shots=0)
    assert len(bbh) == 6511
    lettered = [i for i in range(len(bbh)) if bbh[i].choices]
    assert len(lettered) > 3000

    def gold(sample):
        return letter(sample) if sample.choices else sample.target

    first = {s: make_scorer(s) for s in bbh.scorers}
    right = guessed = 0.0
    chance = 0.0

    async def judge():
        nonlocal right, guessed, chance
        for i in range(len(bbh)):
            sample = present(bbh[i], seed=0, repeat=0)
            right += (await first[sample.scorers[0]].score(sample, Output(text=gold(sample)), None)).value
            if sample.choices:
                guessed += (await first["choice"].score(sample, Output(text="A"), None)).value
                chance += 1 / len(sample.choices)

    asyncio.run(judge())
    assert right == 6511
    assert abs(guessed - chance) / len(lettered) < 0.02
    worked = public("bbh:navigate")
    assert worked[0].prompt.count("\nA: Let's think step by step.") == 4
    assert total(worked, "bbh", lambda sample: f"So the answer is {sample.target}.") == 250


CHAT_FORMS = (
    "Let us see. So the answer is {}.",
    "Let's think step by step.\n\nFirst, we look at what is given.\n\nThen we conclude.\n\nSo the answer is {}.",
    "**Step 1.** We look.\n\n**Step 2.** We conclude.\n\n**{}**",
    "Thinking it over.\n\n$$\\boxed{{{}}}$$",
    "## Reasoning\n\nWe look, and look again.\n\n## Answer\n\n**{}**",
)


@pytest.mark.parametrize("form", CHAT_FORMS)
def test_a_model_that_is_always_right_scores_full_marks_in_bbh_however_it_puts_it(form):
    """Paragraphs and bold are how chat models answer; the reference's own figure stands beside, and knows one form."""
    bbh = public("bbh")
    scorers = {name: make_scorer(name) for name in bbh.scorers}

    async def judged():
        right = wrong = reference = 0.0
        for position in range(0, len(bbh), 7):
            sample = bbh[position]
            gold = f"({letter(sample)})" if sample.choices else sample.target
            assert sample.stop == ()
            said = Output(text=form.format(gold))
            right += 1 - (await scorers[sample.scorers[0]].score(sample, said, None)).value
            reference += (await scorers["bbh"].score(sample, said, None)).value
            other = Output(text=form.format(another(sample)))
            wrong += (await scorers[sample.scorers[0]].score(sample, other, None)).value
        return right, wrong, reference

    missed, undeserved, reference = asyncio.run(judged())
    assert (missed, undeserved) == (0, 0)
    assert reference == (len(range(0, len(bbh), 7)) if form is CHAT_FORMS[0] else 0)


def another(sample):
    """An answer that is not the right one, of the same kind."""
    if sample.choices:
        return f"({ascii_uppercase[(sample.choices.index(sample.target) + 1) % len(sample.choices)]})"
    opposite = {"yes": "no", "no": "yes", "true": "False", "false": "True", "valid": "invalid", "invalid": "valid"}
    words = sample.target.split()
    if len(words) == 1 and sample.target.lower() in opposite:
        return opposite[sample.target.lower()]
    if sample.target.lstrip("-").isdecimal():
        return str(int(sample.target) + 1)
    return " ".join([*words, "]"] if set(sample.target) <= set("()[]{}<> ") else reversed(words))


def test_hellaswag_is_read_from_its_text_form():
    hellaswag = public("hellaswag")
    assert len(hellaswag) == 10_042
    assert total(hellaswag, "choice", letter, limit=2000) == 2000
    by_likelihood = public("hellaswag", likelihood=True)[0]
    assert by_likelihood.prompt == "Roof shingle removal: A man is sitting on a roof. He"
    assert by_likelihood.metadata == {"raw": True}
    assert by_likelihood.scorers == ("likelihood:norm", "likelihood")


def test_code_sets_have_their_tests():
    human, mbpp = public("humaneval"), public("mbpp")
    assert (len(human), len(mbpp)) == (164, 427)
    assert human[0].metadata["test"].endswith("check(has_close_elements)")
    assert mbpp[0].messages == (user(mbpp[0].prompt),)


@pytest.mark.needs("punkt")
def test_all_prompts_of_ifeval_can_be_checked():
    """Each of the 25 kinds stands in one of the 541 prompts, and each prompt gets a verdict."""
    from tiebreak.scorers.ifeval import KINDS

    ifeval = public("ifeval")
    assert len(ifeval) == 541
    assert {kind for i in range(541) for kind in ifeval[i].metadata["instructions"]} == set(KINDS)
    for scorer in ifeval.scorers:
        assert 0 < total(ifeval, scorer, lambda _: "HELLO, this is *one* answer.\n\nP.S. Bye") < 541


@pytest.mark.parametrize("name", ["gsm8k:x", "arc:hard", "ifeval:x", "warmup:x"])
def test_an_unknown_variant_names_the_known(name):
    with pytest.raises(DatasetError, match="there is no dataset"):
        load_dataset(name, Source())


def test_a_missing_local_copy_is_one_sentence(tmp_path):
    with pytest.raises(DatasetError, match="there is no such file or folder"):
        load_dataset("gsm8k", Source(path=str(tmp_path / "none")))
    (tmp_path / "test.jsonl").write_text('{"question": "?", "answer": "#### 1"}\n')
    with pytest.raises(DatasetError, match="5 worked examples are wanted, 0 were found"):
        load_dataset("gsm8k", Source(path=str(tmp_path)))
    (tmp_path / "train.jsonl").write_text('{"question": "?", "answer": "1"}\n' * 5)
    (tmp_path / "test.jsonl").write_text('{"question": "?", "answer": "#### 1"}\n{"question": "?", "answer": "2"}\n')
    with pytest.raises(DatasetError, match=r"test\.jsonl, line 2: field 'answer' has no '#### '"):
        load_dataset("gsm8k", Source(path=str(tmp_path)))
