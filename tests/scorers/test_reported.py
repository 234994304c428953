"""Answers that other tools were reported to misread: the first word taken for a letter, the first letter instead of the last,
examples quoted from the prompt, "incorrect" read as "correct", units, separators, mark-up."""

import pytest

from tiebreak.scorers.choice import chosen
from tiebreak.scorers.numbers import to_number
from tiebreak.scorers.numeric import same_number, stated_number

CITIES = ("Paris", "London", "Rome", "New York")

CHOICES = {
    "Let's think. The answer is C.": "C",
    "Let me see: first A, then B, so the answer is D": "D",
    "Looking at the options, B fits best. Answer: B": "B",
    "A is tempting, but the answer is C.": "C",
    "I was going to say A. The correct answer is B.": "B",
    "The answer is not B. The answer is C.": "C",
    "ANSWER: B": "B",
    "ANSWER: (C)": "C",
    "Answer: [D]": "D",
    "**Answer:** A": "A",
    "**Answer: A**": "A",
    "### Answer\nB": "B",
    "Final Answer: C": "C",
    "Final answer: **C) Rome**": "C",
    "The final answer is $\\boxed{D}$.": "D",
    "\\boxed{\\text{C}}": "C",
    "The answer is: B.": "B",
    "The answer is\nB": "B",
    "the answer is (b)": "B",
    "So the correct choice is D": "D",
    "I'd pick option C.": "C",
    "I choose A": "A",
    "My choice is B, London.": "B",
    "Option D is correct.": "D",
    "Therefore, B is the right answer.": "B",
    "C is correct because Rome is old.": "C",
    "B) London": "B",
    "(B) London": "B",
    "B. London": "B",
    "B: London": "B",
    "B\n\nLondon is the capital.": "B",
    "> B": "B",
    "- B": "B",
    "London": "B",
    "london.": "B",
    "It's London!": "B",
    "The capital is Rome, not Paris.": "C",
    "Not Paris. Rome.": "C",
    "New York": "D",
    "I would say New York.": "D",
    "<think>Maybe A. The answer is A.</think>The answer is B.": "B",
    "I do not know": None,
    "None of the above": None,
    "All of them": None,
    "Let's": None,
    "Lots of text without any choice in it": None,
    "A, B and C are all possible": None,
    "As an AI, I cannot answer": None,
    "It is incorrect to say anything": None,
    "Answer: E": None,
    "The answer is A or B": None,
    "Because a cat is an animal": None,
}

NUMBERS = {
    "The answer is 18.": "18",
    "#### 18": "18",
    "Question: 2+2\nAnswer: 4\n\n#### 7": "7",
    "Natalia sold 72 clips.\n#### 72\n\nNow ours:\n#### 18": "18",
    "She makes $18 every day.": "18",
    "$18.00": "18",
    "It costs $1,018.50": "1018.5",
    "1,000,000": "1000000",
    "The total is 1.5e3": "1500",
    "**42**": "42",
    "\\boxed{42}": "42",
    "$\\boxed{-3}$": "-3",
    "The answer is -3": "-3",
    "The answer is \u22123": "-3",
    "x = 7": "7",
    "so 3 + 4 = 7": "7",
    "The answer is 50%": "50",
    "50 percent": "50",
    "18 dollars": "18",
    "It takes 3 hours, so the answer is 180 minutes.": "180",
    "First 5, then 6, finally 11": "11",
    "It is 12, not 13": "12",
    "It is 12 (not 13)": "12",
    "The answer is 3/4": "0.75",
    ".5": "0.5",
    "0.333": "0.333",
    "Answer: 7 apples and nothing else": "7",
    "answer = 7": "7",
    "The answer is: **7**": "7",
    "The answer is 7\n\nLet me know if you have 2 more questions": "7",
    "Step 1: 4. Step 2: 8. The answer is 8.": "8",
    "The answer is 100,000": "100000",
    "+7": "7",
    "7.": "7",
    "7!": "7",
    "(7)": "7",
    "~7": "7",
    "7km": "7",
    "nothing": None,
    "": None,
    "abc123": None,
}


@pytest.mark.parametrize(("text", "letter"), CHOICES.items())
def test_a_reported_choice_is_read_as_a_person_reads_it(text, letter):
    from tiebreak.core.text import answer_text

    found = chosen(answer_text(text), CITIES)
    assert (None if found is None else "ABCD"[found]) == letter


@pytest.mark.parametrize(("text", "number"), NUMBERS.items())
def test_a_reported_number_is_read_as_a_person_reads_it(text, number):
    found = stated_number(text)
    if number is None:
        assert found is None
    else:
        assert same_number(to_number(found or ""), float(number))
