"""How a sample is put to a model: the order of its choices and the words around them."""

from __future__ import annotations

from dataclasses import replace
from string import ascii_uppercase

from benchmark.core.digest import digest_of, order_key
from benchmark.core.message import user
from benchmark.core.sample import Sample

CHOICE_TEMPLATE = "{question}\n\n{choices}\n\nAnswer with the letter of the correct choice only."
TEMPLATE_DIGEST = digest_of({"choice": CHOICE_TEMPLATE, "order": "hash of seed, sample id, repeat and choice"})


def present(sample: Sample, *, seed: int, repeat: int) -> Sample:
    """The sample as it is asked this time; free text is asked as it is."""
    if not sample.choices:
        return sample
    choices = shuffled(sample, seed=seed, repeat=repeat)
    listed = "\n".join(f"{letter}) {choice}" for letter, choice in zip(ascii_uppercase, choices, strict=False))
    question = CHOICE_TEMPLATE.format(question=sample.messages[-1].text, choices=listed)
    return replace(sample, choices=choices, messages=(*sample.messages[:-1], user(question)))


def shuffled(sample: Sample, *, seed: int, repeat: int) -> tuple[str, ...]:
    """The choices in an order that depends on nothing but seed, sample and repeat, so position tells nothing."""
    place = f"{seed}/{repeat}"
    return tuple(sorted(sample.choices, key=lambda choice: order_key(place, sample.id, choice)))


def labels(sample: Sample) -> tuple[str, ...]:
    """The letters of the sample's choices."""
    return tuple(ascii_uppercase[: len(sample.choices)])
