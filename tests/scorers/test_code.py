"""Programs are judged by what they do, apart from the machine."""

import asyncio

import pytest
from conftest import _SHARED_DATA as DATA

from tiebreak.core.message import user
from tiebreak.core.run import Source
from tiebreak.core.sample import Sample
from tiebreak.core.trial import Output
from tiebreak.registry import load_dataset, make_scorer
from tiebreak.sandbox.code import run_tests
from tiebreak.sandbox.isolation import detect_isolation
from tiebreak.scorers.code import program

SAMPLE = Sample(
    id="s",
    messages=(user("?"),),
    scorers=("code",),
    metadata={
        "before": "import math\n\ndef area(r):\n    '''Of a circle.'''\n",
        "entry_point": "area",
        "test": "assert area(2) > 12",
    },
)


class Room:
    """The sandbox as the engine hands it to a scorer."""

    async def run_tests(self, program, tests, *, timeout_s=10.0):
        return await run_tests(program, tests, isolation=await detect_isolation(), timeout_s=timeout_s)


def scores(samples, answer, at_once=2):
    scorer, room = make_scorer("code"), Room()

    async def judged():
        slots = asyncio.Semaphore(at_once)

        async def one(sample):
            async with slots:
                return (await scorer.score(sample, Output(text=answer(sample)), room)).value

        return await asyncio.gather(*map(one, samples))

    return asyncio.run(judged())


@pytest.mark.needs("bubblewrap")
@pytest.mark.parametrize(
    ("answer", "right"),
    [
        ("```python\ndef area(r):\n    return math.pi * r * r\n```", 1.0),
        ("Here:\n```python\nimport math\ndef area(r):\n    return math.pi * r ** 2\n```\nand\n```python\nboom\n```", 1.0),
        ("    return math.pi * r * r\n", 1.0),
        ("```python\ndef area(r):\n    return r\n```", 0.0),
        ("```python\nimport os\nos._exit(0)\ndef area(r): pass\n```", 0.0),
        ("```python\nimport sys\ndef area(r): sys.exit(0)\n```", 0.0),
        ("```python\nimport sys\nsys.exit(0)\n```", 0.0),
        ("```python\ndef area(r):\n    while True: pass\n```", 0.0),
        ("```python\nimport sys\ndef area(r):\n    print(open('/run/program.py').read())\n    sys.exit(0)\n```", 0.0),
        ("```python\nclass All:\n    __eq__ = __gt__ = lambda *_: True\ndef area(r): return All()\n```", 0.0),
        ("I cannot", 0.0),
    ],
)
def test_a_program_passes_by_passing_its_tests(answer, right, monkeypatch):
    """Leaving early is not passing, nor is running for ever."""
    monkeypatch.setattr("tiebreak.scorers.code._SECONDS", 2.0)
    assert scores([SAMPLE], lambda _: answer) == [right]


def test_an_empty_answer_is_no_program():
    assert program(SAMPLE, "  \n") is None


@pytest.mark.needs("data", "bubblewrap")
def test_every_canonical_solution_of_humaneval_passes_and_none_that_is_broken():
    """164 of 164, and none when each raises instead."""
    dataset = load_dataset("humaneval", Source(path=str(DATA / "humaneval")))
    samples = [dataset[i] for i in range(len(dataset))]
    assert sum(scores(samples, lambda s: f"```python\n{s.metadata['before']}{s.target}\n```")) == 164
    broken = "```python\n{}    raise ValueError\n```"
    assert sum(scores(samples, lambda s: broken.format(s.metadata["before"]))) == 0


@pytest.mark.needs("data", "bubblewrap")
def test_all_reference_code_of_mbpp_passes():
    dataset = load_dataset("mbpp", Source(path=str(DATA / "mbpp")))
    samples = [dataset[i] for i in range(len(dataset))]
    assert sum(scores(samples, lambda s: f"```python\n{s.target}\n```")) == 427
