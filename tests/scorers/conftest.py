"""Scoring a text as the engine would."""

import asyncio

import pytest
from support.packages import need_packages

from tiebreak.core.message import user
from tiebreak.core.sample import Keywords, Sample
from tiebreak.core.trial import Outcome, Output
from tiebreak.registry import make_scorer

BY_LIBRARIES = {"bleu", "rouge", "truthful", "json_schema"}
"""Scorers that need the extra `scorers`."""


@pytest.fixture
def judge():
    """A function that gives a scorer's verdict on a text; no scorer tested here needs a model."""

    def _judge(name, text, *, targets=("Paris",), choices=(), keywords=None, outcome=Outcome.ANSWERED, thinking=""):
        sample = Sample(
            id="s",
            messages=(user("?"),),
            targets=targets,
            choices=choices,
            keywords=Keywords(**keywords) if keywords else None,
            scorers=(name,),
            metadata={"assert": [{"type": "contains", "value": "Paris"}, {"type": "not-regex", "value": "[0-9]{3}-x"}]},
        )
        if name.partition(":")[0] in BY_LIBRARIES:
            need_packages("jsonschema", "rouge_score", "sacrebleu")
        output = Output(text=text, outcome=outcome, thinking=thinking)
        return asyncio.run(make_scorer(name).score(sample, output, None))

    return _judge
