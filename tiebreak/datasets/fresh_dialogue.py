"""Conversations nobody has seen: what was said in earlier turns is asked for in later ones. Right by construction."""

from __future__ import annotations

from collections.abc import Callable

from tiebreak.datasets.dice import COLOURS, DAYS, NAMES, THINGS, Dice
from tiebreak.datasets.exchanges import Asked

_ALONE = "Reply with the answer alone."


def facts(dice: Dice, level: int) -> Asked:
    """Several people tell their favourite colour, some change their mind; one of them is asked about."""
    names = dice.some(NAMES, 1 + level)
    colours = {name: dice.pick(COLOURS) for name in names}
    turns = [f"{name}'s favourite colour is {colours[name]}." for name in names]
    for name in dice.some(names, level // 2):
        colours[name] = dice.pick([colour for colour in COLOURS if colour != colours[name]])
        turns.append(f"I was wrong: {name}'s favourite colour is {colours[name]}.")
    asked = dice.pick(names)
    turns.append(f"What is {asked}'s favourite colour? {_ALONE}")
    return Asked(text=turns[0], turns=turns[1:], target=colours[asked])


def totals(dice: Dice, level: int) -> Asked:
    """A number that is changed turn by turn, and asked for at each."""
    total = dice.between(2, 10 * level)
    turns, targets = [f"Remember the number {total}. What is it? {_ALONE}"], [str(total)]
    for _ in range(1 + level):
        change = dice.between(1, 10 * level)
        add = total <= change or dice.below(2) == 0
        total += change if add else -change
        turns.append(f"{'Add' if add else 'Subtract'} {change}. What is it now? {_ALONE}")
        targets.append(str(total))
    return Asked(text=turns[0], turns=turns[1:], turn_targets=targets, scorer="numeric")


def lists(dice: Dice, level: int) -> Asked:
    """A list that things are put on and taken from; in the end they are counted."""
    first, *later = dice.some(THINGS, min(len(THINGS), 2 + level))
    held, turns = [first], [f"Let us keep a list. Put the {first} on it."]
    for thing in later:
        if len(held) > 1 and dice.below(3) == 0:
            gone = held.pop(dice.below(len(held)))
            turns.append(f"Take the {gone} off the list.")
        held.append(thing)
        turns.append(f"Put the {thing} on the list.")
    turns.append(f"How many things are on the list? {_ALONE}")
    return Asked(text=turns[0], turns=turns[1:], target=str(len(held)), scorer="numeric")


def plans(dice: Dice, level: int) -> Asked:
    """A meeting that is moved from day to day; in the end its day is asked for."""
    day, name = dice.below(7), dice.pick(NAMES)
    turns = [f"I meet {name} on {DAYS[day]}."]
    for _ in range(level):
        days = dice.between(1, 3)
        later = dice.below(2) == 0
        day = (day + (days if later else -days)) % 7
        words = "one day" if days == 1 else f"{days} days"
        turns.append(f"We have to meet {words} {'later' if later else 'earlier'}.")
    turns.append(f"On which day of the week do we meet now? {_ALONE}")
    return Asked(text=turns[0], turns=turns[1:], target=DAYS[day])


KINDS: dict[str, Callable[[Dice, int], Asked]] = {kind.__name__: kind for kind in (facts, totals, lists, plans)}
