"""How a sample is put to a model: the order of its choices and the words around them."""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import cache
from string import ascii_uppercase

from msgspec.structs import replace

from tiebreak.core.contestant import PLAIN, Prompting
from tiebreak.core.digest import shuffled_range
from tiebreak.core.errors import UsageError
from tiebreak.core.message import Message, TextPart, assistant, system, user
from tiebreak.core.sample import Sample

CHOICE_TEMPLATE = "{question}\n\n{choices}\n\nAnswer with the letter of the correct choice only."
CHOICE_COT = (
    "{question}\n\n{choices}\n\nThink step by step. Then end with a line that reads ANSWER: and the letter of the correct choice."
)
FREE_COT = "{question}\n\nThink step by step. Then end with a line that reads ANSWER: and your answer alone."
_LABELS = tuple(tuple(ascii_uppercase[:count]) for count in range(len(ascii_uppercase) + 1))
_PLACE = re.compile(r"\{(question|choices|letters)\}")


def present(
    sample: Sample,
    *,
    seed: int,
    repeat: int,
    prompting: Prompting = PLAIN,
    shots: Sequence[Sample] = (),
    scorers: Sequence[str] = (),
) -> Sample:
    """The sample as it is asked this time; free text without further wishes is asked as it is."""
    if scorers:
        sample = replace(sample, scorers=tuple(scorers))
    if prompting is PLAIN and not shots:
        return _worded(sample, seed, repeat, PLAIN) if sample.choices and not sample.fixed else sample
    asked = sample if sample.fixed else _worded(sample, seed, repeat, prompting)
    if sample.task is not None:
        # An agent has a system prompt of its own: what is said beforehand comes before the task itself.
        said = "\n\n".join(filter(None, (prompting.system, asked.prompt)))
        return replace(asked, messages=(user(said),))
    before = [turn for shot in shots for turn in _shown(shot, seed, prompting)]
    told = [system(prompting.system)] if prompting.system else []
    own = [message for message in asked.messages if message.role != "system" or not told]
    first = own[:1] if own and own[0].role == "system" else []
    messages = (*told, *first, *before, *own[len(first) :])
    return replace(asked, messages=messages, stop=(*asked.stop, *prompting.stop))


def _worded(sample: Sample, seed: int, repeat: int, prompting: Prompting) -> Sample:
    """The sample with its choices in their order of this time, and the template's words around its question."""
    if not sample.choices:
        template = prompting.template or (FREE_COT if prompting.cot else "")
        if not template:
            return sample
        return replace(sample, messages=(*sample.messages[:-1], _asking(template, sample, ())))
    # The order depends on nothing but seed, sample and repeat, so a position tells nothing.
    order = shuffled_range(len(sample.choices), sample.id, str(seed), str(repeat))
    choices = tuple([sample.choices[i] for i in order])
    template = prompting.template or (CHOICE_COT if prompting.cot else CHOICE_TEMPLATE)
    return replace(sample, messages=(*sample.messages[:-1], _asking(template, sample, choices)), choices=choices)


def _asking(template: str, sample: Sample, choices: tuple[str, ...]) -> Message:
    """The question in the template's words; images and files stay where they stand in it."""
    message = sample.messages[-1]
    if message.is_plain or not message.media:
        return user(_filled(template, sample, choices))
    before, _, after = template.partition("{question}")
    around = [_filled(words, sample, choices) for words in (before, after)]
    texts = [(TextPart(text),) if text else () for text in around]
    return replace(message, parts=(*texts[0], *message.parts, *texts[1]))


def _filled(template: str, sample: Sample, choices: tuple[str, ...]) -> str:
    """The template with everything in its place; braces in a question are no places."""
    listed = "\n".join([f"{letter}) {choice}" for letter, choice in zip(ascii_uppercase, choices, strict=False)])
    letters = ", ".join(ascii_uppercase[: len(choices)])
    return _format(template).format(question=sample.messages[-1].text, choices=listed, letters=letters)


@cache
def _format(template: str) -> str:
    """The template as `str.format` takes it: braces that are no places are doubled."""
    pieces = _PLACE.split(template)
    pieces[::2] = [words.replace("{", "{{").replace("}", "}}") for words in pieces[::2]]
    pieces[1::2] = [f"{{{name}}}" for name in pieces[1::2]]
    return "".join(pieces)


def _shown(shot: Sample, seed: int, prompting: Prompting) -> tuple[Message, Message]:
    """A worked example: the question as it would be asked, and the right answer."""
    asked = _worded(shot, seed, 0, prompting)
    answer = ascii_uppercase[asked.choices.index(shot.target)] if asked.choices else shot.target
    return asked.messages[-1], assistant(f"ANSWER: {answer}" if prompting.cot else answer)


def check_prompting(prompting: Prompting) -> None:
    """Raise when a template has no place for the question."""
    if prompting.template and "{question}" not in prompting.template:
        which = f"the template of {prompting.name!r}" if prompting.name else "--template"
        raise UsageError(f"{which} needs {{question}} where the question goes, and may have {{choices}} and {{letters}}")


def labels(sample: Sample) -> tuple[str, ...]:
    """The letters of the sample's choices."""
    return _LABELS[min(len(sample.choices), len(ascii_uppercase))]
