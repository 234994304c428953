"""Free text against a known answer."""

import asyncio

import pytest

from tiebreak.core.message import user
from tiebreak.core.sample import Sample
from tiebreak.core.trial import Outcome, Output
from tiebreak.registry import make_scorer


@pytest.mark.parametrize(
    ("text", "right"),
    [
        ("Paris", True),
        ("paris.", True),
        ("**Paris**", True),
        ("  Paris\n", True),
        ("It is Paris", True),
        ("Paris, of course", True),
        ("The answer is Paris.", True),
        ("Answer: Paris", True),
        ("The answer would be Paris", True),
        ("Answer:\n\nParis", True),
        ("PÁRIS", True),
        ("‘Paris’", True),
        ("London", False),
        ("", False),
        ("Not Paris", False),
        ("It is not Paris", False),
        ("Paris is wrong", False),
        ("Comparison", False),
        ("Parisian", False),
        # the last stated answer wins, on one line too
        ("The answer is London. No, the answer is Paris.", True),
        ("The answer is Paris. No, the answer is London.", False),
        ("Answer: Paris\nAnswer: London", False),
        ("Answer: London\nAnswer: Paris", True),
    ],
)
def test_the_last_answer_stated_is_compared(judge, text, right):
    """Said, undenied, and not taken back."""
    assert judge("match", text).value == float(right)


@pytest.mark.parametrize(("text", "right"), [("Zürich", True), ("zurich", True), ("Zuerich", False)])
def test_accents_do_not_matter(judge, text, right):
    """Spelled with or without."""
    assert judge("match", text, targets=("Zürich",)).value == float(right)


def test_any_accepted_answer_will_do(judge):
    """The first is only the one that is shown."""
    assert judge("match", "NYC", targets=("New York", "NYC")).value == 1.0


def test_thousands_separators_do_not_matter(judge):
    """1,000 is 1000."""
    assert judge("match", "1,000", targets=("1000",)).value == 1.0


def test_other_scripts_are_compared_too(judge):
    """Not only Latin letters are letters."""
    assert judge("match", "Столица — Париж", targets=("Париж",)).value == 1.0
    assert judge("match", "東京", targets=("東京",)).value == 1.0


def test_a_cut_off_answer_is_never_right(judge):
    """Even when it begins well."""
    assert judge("match", "Paris", outcome=Outcome.CUT_OFF).value == 0.0


def test_thoughts_are_not_scored(judge):
    """The right answer thought and another said is wrong."""
    assert judge("match", "<think>Paris</think>London").value == 0.0
    assert judge("match", "<think>London</think>Paris", thinking="London").value == 1.0


@pytest.mark.parametrize(
    ("text", "target", "right"),
    [
        # denied, questioned, believed by others, compared with, one of several
        ("The largest is Saturn, not Jupiter.", "Jupiter", False),
        ("Jupiter? No, Saturn.", "Jupiter", False),
        ("Many people think it is Jupiter, but it is Saturn.", "Jupiter", False),
        ("Saturn is the second largest, after Jupiter.", "Jupiter", False),
        ("It could be Saturn, Mars or Jupiter.", "Jupiter", False),
        ("It is not only large: Jupiter is the largest.", "Jupiter", True),
        # names: the surname will do, another first name will not
        ("Fleming", "Alexander Fleming", True),
        ("Ian Fleming", "Alexander Fleming", False),
        ("Dr. Fleming found it", "Alexander Fleming", True),
        ("Abe Lincoln", "Abraham Lincoln", True),
        ("William Wordsworth", "William Shakespeare", False),
        ("J.R.R. Tolkien", "J. R. R. Tolkien", True),
        ("the U.S.", "United States", True),
        # dates: the year will do, another day will not
        ("In 1919.", "June 28, 1919", True),
        ("June 1919", "June 28, 1919", True),
        ("on the 28th of June, 1919", "June 28, 1919", True),
        ("July 28, 1919", "June 28, 1919", False),
        ("June 18, 1919", "June 28, 1919", False),
        # numbers, in words too; a sign is part of them
        ("twenty-five", "25", True),
        ("about 1.5 million people", "1,500,000", True),
        ("It is 50.", "-50", False),
        ("It is \u221250.", "-50", True),
        # yes and no
        ("Yes, no doubt about it.", "No", False),
        ("I have no idea.", "No", False),
        ("That is not true.", "True", False),
        # words in an order that matters, and in one that does not
        ("Paul Allen and Bill Gates", "Bill Gates and Paul Allen", True),
        ("mi re do", "do re mi", False),
        # words run together, as citations leave them
        ("It opened in19371.", "1937", True),
        ("the rearview mirror", "rear-view mirror", True),
    ],
)
def test_what_says_an_answer_and_what_does_not(judge, text, target, right):
    """The rules of free text, one by one."""
    assert judge("match", text, targets=(target,)).value == float(right)


def test_words_of_the_question_tell_nothing():
    """Naming the river again is no answer to which country it is in; sorted words are an answer by their order."""
    scorer = make_scorer("match")

    def value(question, target, text):
        sample = Sample(id="s", messages=(user(question),), targets=(target,))
        return asyncio.run(scorer.score(sample, Output(text=text), None)).value

    assert value("Which metro station is near?", "Park metro station", "Hill metro station") == 0
    assert value("Which metro station is near?", "Park metro station", "The Park station") == 1
    assert value("Sort: pear fig apple", "apple fig pear", "1. apple\n2. fig\n3. pear") == 1
    assert value("Sort: pear fig apple", "apple fig pear", "fig apple pear") == 0


@pytest.mark.parametrize(
    ("answer", "right"),
    [
        ("Possible answers: Paris, London, Rome, Berlin.", False),
        ("Paris\nLondon\nRome\nBerlin\nMadrid", False),
        ("- Paris\n- London\n- Rome\n- Berlin", False),
        ("Paris, London, Rome, Berlin, Madrid, Vienna, Prague", False),
        ("My best guesses: Paris, Lyon", False),
        ("Paris, Île-de-France, France", True),
        ("Paris", True),
        ("The capital is Paris, a city of museums, bridges, cafés, parks, markets and light.", True),
    ],
)
async def test_one_of_many_candidates_is_no_answer(answer, right):
    """Whoever names every city would always be right."""
    sample = Sample(id="1", messages=(user("What is the capital of France?"),), targets=("Paris",), scorers=("match",))
    assert (await make_scorer("match").score(sample, Output(text=answer), None)).value == float(right)


async def test_a_list_of_accepted_answers_is_right():
    """So is a target that is a list itself."""
    gases = ("helium", "neon", "argon", "krypton", "xenon", "radon")
    sample = Sample(id="1", messages=(user("Name a noble gas."),), targets=gases, scorers=("match",))
    assert (await make_scorer("match").score(sample, Output(text=", ".join(gases)), None)).value == 1.0
    colours = "red, orange, yellow, green, blue, indigo, violet"
    sample = Sample(id="1", messages=(user("Name the colours of the rainbow."),), targets=(colours,), scorers=("match",))
    assert (await make_scorer("match").score(sample, Output(text=colours), None)).value == 1.0
