"""--nodes-need: what is said of all trials, of one model and of tasks."""

import pytest
from support.specs import contestant

from tiebreak.cluster.needs import read_needs
from tiebreak.core.errors import UsageError
from tiebreak.registry import make_ref

LLAMA = contestant(make_ref("ollama", "llama3"))
GPT = contestant(make_ref("openai", "gpt-x"))


def test_needs_of_all_of_one_and_of_tasks():
    needs = read_needs(["CPU:1", "ollama/llama3=GPU:1,special:0.5", "tasks=CPU:2"])
    assert needs.of(GPT, task=False) == {"CPU": 1.0}
    assert needs.of(GPT, task=True) == {"CPU": 2.0}
    assert needs.of(LLAMA, task=False) == {"CPU": 1.0, "GPU": 1.0, "special": 0.5}
    assert needs.resources == ["CPU", "GPU", "special"]
    needs.refuse_unknown([LLAMA, GPT])


def test_without_needs_nothing_is_needed():
    assert read_needs([]).of(GPT, task=True) == {}


@pytest.mark.parametrize("text", ["GPU", "GPU:", "GPU:0", "GPU:-1", "GPU:x", "=", "a=b=GPU", "GPU:1,,CPU:1", ":1"])
def test_what_cannot_be_read_is_refused_with_an_example(text):
    with pytest.raises(UsageError, match=r"write RESOURCE:AMOUNT, as in --nodes-need GPU:1"):
        read_needs([text])


def test_a_name_that_nobody_has_is_refused():
    with pytest.raises(UsageError, match=r"--nodes-need ollama/lama3=…: nobody in this run is called so.*ollama/llama3"):
        read_needs(["ollama/lama3=GPU:1"]).refuse_unknown([LLAMA])
