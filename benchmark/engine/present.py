"""How a sample is put to a model: the order of its choices and the words around them."""

from __future__ import annotations

from string import ascii_uppercase

from msgspec.structs import replace

from benchmark.core.digest import digest_of, shuffled_range
from benchmark.core.message import user
from benchmark.core.sample import Sample

CHOICE_TEMPLATE = "{question}\n\n{choices}\n\nAnswer with the letter of the correct choice only."
TEMPLATE_DIGEST = digest_of({"choice": CHOICE_TEMPLATE, "order": "hash of sample id, seed and repeat"})


def present(sample: Sample, *, seed: int, repeat: int) -> Sample:
    """The sample as it is asked this time; free text is asked as it is."""
    if not sample.choices:
        return sample
    # The order depends on nothing but seed, sample and repeat, so a position tells nothing.
    order = shuffled_range(len(sample.choices), sample.id, str(seed), str(repeat))
    choices = tuple([sample.choices[i] for i in order])
    listed = "\n".join([f"{letter}) {choice}" for letter, choice in zip(ascii_uppercase, choices, strict=False)])
    question = CHOICE_TEMPLATE.format(question=sample.messages[-1].text, choices=listed)
    return replace(sample, messages=(*sample.messages[:-1], user(question)), choices=choices)


def labels(sample: Sample) -> tuple[str, ...]:
    """The letters of the sample's choices."""
    return tuple(ascii_uppercase[: len(sample.choices)])
