"""Random numbers and words for samples that are made from a seed."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import TypeVar

T = TypeVar("T")

NAMES = ("Ada", "Ben", "Cleo", "Dan", "Eva", "Finn", "Gina", "Hugo", "Iris", "Jon", "Kira", "Leo", "Mona", "Nils", "Olga", "Paul")
THINGS = ("ball", "book", "coin", "cup", "doll", "key", "lamp", "ring", "shoe", "spoon", "stone", "watch")
COLOURS = ("red", "blue", "green", "yellow", "black", "white", "brown", "orange")
WORDS = (
    *("apple", "bread", "chair", "dance", "eagle", "flute", "grape", "house", "island", "jacket", "kitten", "lemon"),
    *("mirror", "needle", "orange", "pencil", "quartz", "river", "silver", "table", "umbrella", "violin", "window", "yellow"),
)
DAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")
ANIMALS = ("dog", "cat", "horse", "cow", "sheep", "duck")
FRUITS = ("apple", "pear", "plum", "lemon", "peach", "mango")
NONSENSE = ("blorks", "dinnels", "frims", "glaxes", "mevs", "quibs", "snorps", "tarrows", "vends", "zulls", "wimbles", "yarns")
HABITS = ("sings", "sleeps", "cooks", "reads", "swims", "paints", "dances", "laughs")
COMPASS = ("north", "east", "south", "west")


class Dice:
    """Random numbers that depend on nothing but the texts they are made of; the same on any machine, in any version."""

    def __init__(self, *texts: str) -> None:
        self._texts = ascii(texts)
        self._rolls = 0

    def below(self, count: int) -> int:
        """A number from 0 to count - 1."""
        self._rolls += 1
        digest = hashlib.blake2b(f"{self._texts}{self._rolls}".encode(), digest_size=8).digest()
        return int.from_bytes(digest, "big") % count

    def between(self, least: int, most: int) -> int:
        """A number from least to most."""
        return least + self.below(most - least + 1)

    def pick(self, things: Sequence[T]) -> T:
        """One of them."""
        return things[self.below(len(things))]

    def some(self, things: Sequence[T], count: int) -> list[T]:
        """So many different ones of them, in any order."""
        left = list(things)
        return [left.pop(self.below(len(left))) for _ in range(min(count, len(left)))]
