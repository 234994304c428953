"""Questions nobody has seen: made from a seed, alike on every machine, right by construction."""

from __future__ import annotations

from array import array
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date, timedelta
from itertools import pairwise

from tiebreak.core.digest import digest_of_texts, order_key
from tiebreak.core.errors import DatasetError
from tiebreak.core.message import user
from tiebreak.core.sample import Sample
from tiebreak.datasets import fresh_dialogue, fresh_tools
from tiebreak.datasets.dice import (
    ANIMALS,
    COLOURS,
    COMPASS,
    DAYS,
    FRUITS,
    HABITS,
    NAMES,
    NONSENSE,
    THINGS,
    WORDS,
    Dice,
)
from tiebreak.datasets.exchanges import Asked

VERSION = 2
"""Raised when the same seed makes other questions."""
LEVELS = {"easy": 1, "medium": 4, "hard": 8, "hardest": 10}
_HIGHEST = 10
_COUNT = 240
_MOST = 100_000
_RETRIES = 50
_LOOKED_AT = 100
"""Samples that say what all of them need, and how they are judged: every kind is among them several times."""


@dataclass(frozen=True, slots=True)
class Question:
    """A question with its answer, and answers that are wrong."""

    text: str
    answer: str
    wrong: Sequence[str]
    cue: str = ""
    """How the answer begins, where it is weighed as a continuation; who answers in words needs none."""

    @property
    def said(self) -> str:
        """All that is asked: what tells it from others."""
        return self.text


def _numbers_near(dice: Dice, answer: int, spread: int, *, apart: int = 1) -> list[str]:
    """Wrong numbers about as large as the right one, which is as often among the small as among the large."""
    wrong: list[str] = []
    while len(wrong) < 3:
        near = answer + dice.between(-spread, spread)
        if abs(near - answer) >= apart and str(near) not in wrong and (near >= 0 or answer < 0):
            wrong.append(str(near))
    return wrong


def _others(dice: Dice, things: Sequence[str], answer: str) -> list[str]:
    return dice.some([thing for thing in things if thing != answer], 3)


# --- the kinds --------------------------------------------------------------------------------------


def arithmetic(dice: Dice, level: int) -> Question:
    """A number and one more; higher up sums, then products, brackets and larger numbers."""
    if level == 1:
        one = dice.between(1, 60)
        wrong = _numbers_near(dice, one + 1, 40, apart=5)
        return Question(f"What is {one} + 1?", str(one + 1), wrong, cue=f"{one} + 1 =")
    value = dice.between(2, 8 * level)
    text = str(value)
    for _ in range(level):
        by = dice.between(1, 9 if level < 4 else 6 * level)
        operation = dice.pick("+-*" if level > 2 else "+-")
        text = f"({text}) {operation} {by}" if operation == "*" and len(text) > 2 else f"{text} {operation} {by}"
        value = {"+": value + by, "-": value - by, "*": value * by}[operation]
    return Question(f"What is {text}?", str(value), _numbers_near(dice, value, max(10, abs(value) // 5)))


def largest(dice: Dice, level: int) -> Question:
    """The larger of two numbers; higher up of more, which have decimals and are nearly alike."""
    if level == 1:
        # All of two digits: a number of more tokens is less likely, whatever it is.
        large, small = dice.between(60, 99), dice.some(range(10, 60), 3)
        question = f"{large} is larger than {small[0]}. Which is larger, {small[0]} or {large}?"
        return Question(question, str(large), [str(n) for n in small], cue="The larger one is")
    whole = dice.between(1, 99)
    numbers = [f"{whole + dice.below(max(1, 6 - level))}.{dice.between(1, 10 ** min(level, 6) - 1)}" for _ in range(4)]
    while len({float(n) for n in numbers}) < 4:
        numbers = [f"{n}{dice.between(1, 9)}" for n in numbers]
    rank = 0 if level < 5 else 1
    ordered = sorted(numbers, key=float, reverse=True)
    word = "largest" if rank == 0 else "second largest"
    return Question(
        f"Which of these numbers is the {word}: {', '.join(numbers)}?", ordered[rank], [n for n in numbers if n != ordered[rank]]
    )


def weekdays(dice: Dice, level: int) -> Question:
    """The day after some days; higher up, the weekday of a date."""
    if level <= 4:
        start, days = dice.below(7), 1 if level == 1 else dice.between(2, 30 * level)
        answer = DAYS[(start + days) % 7]
        when = "the day after" if level == 1 else f"{days} days after"
        cue = f"The day after {DAYS[start]} is" if level == 1 else ""
        return Question(f"Which day is {when} {DAYS[start]}?", answer, _others(dice, DAYS, answer), cue=cue)
    known = date(dice.between(1950, 2050), dice.between(1, 12), dice.between(1, 28))
    asked = known + timedelta(days=dice.between(40, 400 * level))
    answer = DAYS[asked.weekday()]
    question = f"{known:%d %B %Y} was a {DAYS[known.weekday()]}. Which day of the week was {asked:%d %B %Y}?"
    return Question(question, answer, _others(dice, DAYS, answer))


def heights(dice: Dice, level: int) -> Question:
    """Who is called tall; higher up people ordered by comparisons, and who stands where among them."""
    if level == 1:
        tall, short, *others = dice.some(NAMES, 4)
        told = dice.some((f"{tall} is very tall.", f"{short} is short."), 2)
        return Question(f"{' '.join(told)} Who is very tall?", tall, (short, *others), cue="The one who is very tall is")
    people = dice.some(NAMES, max(4, level + 2))
    facts = [f"{a} is taller than {b}." for a, b in pairwise(people)]
    place = 0 if level < 3 else dice.below(len(people))
    told = dice.some(facts, len(facts))
    which = "tallest" if place == 0 else f"number {place + 1} from the tallest"
    return Question(f"{' '.join(told)} Who is {which}?", people[place], _others(dice, people, people[place]))


def swaps(dice: Dice, level: int) -> Question:
    """Things that change hands; who has what in the end."""
    people, things = dice.some(NAMES, max(2, min(7, 2 + level // 2))), dice.some(THINGS, 7)
    has = dict(zip(people, things, strict=False))
    told = [f"{person} has the {thing}." for person, thing in has.items()]
    for _ in range(0 if level == 1 else 2 * level):
        a, b = dice.some(people, 2)
        has[a], has[b] = has[b], has[a]
        told.append(f"{a} and {b} swap what they have.")
    asked = dice.pick(people)
    cue = f"{asked} has the" if level == 1 else ""
    return Question(f"{' '.join(told)} What does {asked} have?", has[asked], _others(dice, things, has[asked]), cue=cue)


def letters(dice: Dice, level: int) -> Question:
    """A word said again; higher up the letters of words, joined, turned round and shifted."""
    if level == 1:
        word = dice.pick(WORDS)
        return Question(f"Say the word {word!r} once more.", word, _others(dice, WORDS, word), cue=f"{word}, {word},")
    joined = "".join(dice.some(WORDS, 1 + level // 3))
    turned = joined[::-1] if level > 2 else joined
    place = dice.between(2, len(turned) - 1)
    how = " written backwards" if level > 2 else ""
    answer = turned[place]
    if level > 5:
        shift = dice.between(2, 12)
        answer = chr((ord(answer) - 97 + shift) % 26 + 97)
        going = f"go {shift} letters on in the alphabet (a follows z)"
        question = f"Take letter number {place + 1} of {joined!r}{how} and {going}. Which letter is it?"
    else:
        question = f"What is letter number {place + 1} of {joined!r}{how}?"
    return Question(question, answer, _others(dice, "abcdefghijklmnopqrstuvwxyz", answer))


def counting(dice: Dice, level: int) -> Question:
    """How many of one sort there are among others."""
    kinds = dice.some(ANIMALS, min(1 + level // 2, 5)), dice.some(FRUITS, min(1 + level // 2, 5))
    amounts = {thing: dice.between(1, 3 + 3 * level) for group in kinds for thing in group}
    listed = [f"{amount} {_plural(thing, amount)}" for thing, amount in amounts.items()]
    told = dice.some(listed, len(listed))
    group, word = (kinds[0], "animals") if level > 1 else (kinds[0], _plural(kinds[0][0], 2))
    answer = sum(amounts[thing] for thing in group)
    if level > 4:
        gone = dice.pick(group)
        half = amounts[gone] // 2
        told.append(f"then {half} of the {_plural(gone, 2)} run away")
        answer -= half
    question = f"On a farm there are {', '.join(told)}. How many {word} are there{' now' if level > 4 else ''}?"
    return Question(question, str(answer), _numbers_near(dice, answer, 4 + level))


def _plural(thing: str, amount: int) -> str:
    if amount == 1:
        return thing
    return {"sheep": "sheep", "peach": "peaches", "mango": "mangoes"}.get(thing, f"{thing}s")


def truth(dice: Dice, level: int) -> Question:
    """What somebody always does; higher up people who say of each other whether they lie."""
    if level == 1:
        name, does = dice.pick(NAMES), dice.pick(HABITS)
        question = f"{name} always {does}. What does {name} always do?"
        return Question(question, does, _others(dice, HABITS, does), cue=f"{name} always")
    people = dice.some(NAMES, 1 + level)
    honest = [bool(dice.below(2))]
    told = [f"{people[0]} always {'tells the truth' if honest[0] else 'lies'}."]
    for speaker, other in zip(people[1:], people, strict=False):
        claims = bool(dice.below(2))
        told.append(f"{speaker} says that {other} {'tells the truth' if claims else 'lies'}.")
        honest.append(claims == honest[-1])
    a, b = people[-2:]
    # Of two people there are four answers, none of which can be left out without thinking.
    answers = {
        (True, True): f"both {a} and {b} tell the truth",
        (True, False): f"only {a} tells the truth",
        (False, True): f"only {b} tells the truth",
        (False, False): f"neither {a} nor {b} tells the truth",
    }
    right = answers.pop((honest[-2], honest[-1]))
    asked = f"Everybody either always tells the truth or always lies. What is so of {a} and {b}?"
    return Question(f"{' '.join(told)} {asked}", right, list(answers.values()))


def sequences(dice: Dice, level: int) -> Question:
    """How a row of numbers goes on."""
    if level == 1:
        step = dice.pick((1, 2, 5, 10))
        start = dice.between(1, 5) * step
        numbers = [start + step * i for i in range(5)]
    else:
        a, b = dice.between(1, 5), dice.between(2, 4 + level)
        numbers = [a, b]
        factor, plus = (1, 0) if level < 4 else (dice.between(1, 3), dice.between(0, level))
        while len(numbers) < 6:
            numbers.append(numbers[-1] + factor * numbers[-2] + plus if level > 2 else numbers[-1] + b)
    *shown, answer = numbers
    return Question(
        f"Which number comes next: {', '.join(map(str, shown))}, …?",
        str(answer),
        _numbers_near(dice, answer, max(9, answer // 4)),
    )


def clocks(dice: Dice, level: int) -> Question:
    """What a clock shows; higher up, some time later."""
    hours, minutes = dice.between(1, 8), dice.below(60)
    if level == 1:
        shown = _clock(60 * dice.below(24) + minutes)
        wrong = [_clock(60 * hour + dice.below(60)) for hour in dice.some([h for h in range(24) if h != int(shown[:2])], 3)]
        return Question(f"The clock shows {shown}. What does the clock show?", shown, wrong, cue="The clock shows")
    later = dice.between(20, 200 * level)
    time = (60 * hours + minutes + later) % 1440
    told = f"{later} minutes"
    if level > 5:
        back = dice.between(30, 90 * level)
        told, time = f"{later} minutes forward and {back} minutes back", (time - back) % 1440
    wrong = []
    while len(wrong) < 3:
        near = _clock((time + dice.pick((60, -60, 10, -10, 50, 1, -1, 130))) % 1440)
        if near != _clock(time) and near not in wrong:
            wrong.append(near)
    return Question(f"A clock shows {_clock(60 * hours + minutes)}. What does it show after {told}?", _clock(time), wrong)


def _clock(minutes: int) -> str:
    return f"{minutes // 60:02}:{minutes % 60:02}"


def walks(dice: Dice, level: int) -> Question:
    """Turns and steps; which way one faces in the end."""
    facing = dice.below(4)
    start, told = COMPASS[facing], []
    for _ in range(0 if level == 1 else level + 1):
        turn, word = dice.pick(((1, "turns right"), (3, "turns left"), (2, "turns around")))
        facing = (facing + turn) % 4
        told.append(word)
    name = dice.pick(NAMES)
    moves = f" {name} {', then '.join(told)}." if told else ""
    answer = COMPASS[facing]
    question = f"{name} faces {start}.{moves} Which way does {name} face now?"
    return Question(question, answer, _others(dice, COMPASS, answer), cue=f"{name} now faces")


def classes(dice: Dice, level: int) -> Question:
    """All of these are those: what follows, what does not."""
    chain = dice.some(NONSENSE, 1 + level)
    told = [f"All {a} are {b}." for a, b in pairwise(chain)]
    name, colour = dice.pick(NAMES), dice.some(COLOURS, 4)
    told += [f"All {chain[-1]} are {colour[0]}."] + [
        f"No {dice.pick(chain)} are {other}." for other in (colour[1:] if level > 3 else ())
    ]
    shown = told if level == 1 else dice.some(told, len(told))
    question = f"{' '.join(shown)} {name} is one of the {chain[0]}. Which colour must {name} be?"
    return Question(question, colour[0], colour[1:])


KINDS: dict[str, Callable[[Dice, int], Question]] = {
    kind.__name__: kind
    for kind in (arithmetic, largest, weekdays, heights, swaps, letters, counting, truth, sequences, clocks, walks, classes)
}


FAMILIES: dict[str, Mapping[str, Callable[[Dice, int], Question | Asked]]] = {
    "": KINDS,
    "tools": fresh_tools.KINDS,
    "dialogue": fresh_dialogue.KINDS,
}
"""What may stand first behind `fresh:`, with its kinds."""


# --- the dataset ------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """What is asked for behind the name."""

    family: str = ""
    """Questions; or tools, or dialogue."""
    level: int = 1
    free: bool = False
    count: int = _COUNT
    seed: int = 0
    listed: bool = True
    """The choices stand in the question; where likelihoods are compared they do not."""

    @property
    def form(self) -> str:
        """How is asked, in words."""
        if self.family:
            return self.family
        return "free text" if self.free else "four choices" if self.listed else "four choices by likelihood"


class Fresh:
    """Questions that are made when they are needed; only which ones is remembered."""

    def __init__(self, settings: Settings, name: str) -> None:
        self.name = name
        self.about = f"made from seed {settings.seed}: level {settings.level} of {_HIGHEST}, {settings.form}"
        self.form = f"fresh {VERSION}, level {settings.level}, {settings.form}, seed {settings.seed}"
        self.public_since = None
        family = (settings.family,) if settings.family else ()
        self.digest = digest_of_texts(
            ("fresh", str(VERSION), *family, *map(str, (settings.level, settings.free, settings.count, settings.seed)))
        )
        self._settings = settings
        self._kinds = FAMILIES[settings.family]
        self._names = tuple(self._kinds)
        self.categories = array("I", (i % len(self._names) for i in range(settings.count)))
        self.shuffle = array("Q", (order_key(self._id(i)) for i in range(settings.count)))
        self._tries = self._distinct()
        some = [self[position] for position in range(min(settings.count, _LOOKED_AT))] if settings.family else []
        self.needs = frozenset[str]().union(*(sample.needs for sample in some))
        told = {scorer: None for sample in some for scorer in sample.scorers}
        self.scorers = tuple(told) or (("match", "numeric") if settings.free else ("choice",))

    def __len__(self) -> int:
        return self._settings.count

    def __getitem__(self, position: int) -> Sample:
        made, order = self._make(position, self._tries[position])
        kind = self._names[position % len(self._names)]
        if isinstance(made, Asked):
            return made.sample(self._id(position), kind)
        choices: tuple[str, ...] = ()
        if self._settings.free:
            scorer = "numeric" if made.answer.lstrip("-").isdecimal() else "match"
            asked = f"{made.text} Reply with the answer alone."
        else:
            # Named, not lettered: the smallest models know an answer long before they know its letter.
            scorer, choices = "choice", tuple(order)
            listed = f"Choose from: {', '.join(choices)}.\n{made.text}"
            asked = listed if self._settings.listed else f"{made.text} {made.cue}".rstrip()
        return Sample(
            id=self._id(position),
            messages=(user(asked),),
            choices=choices,
            targets=(made.answer,),
            category=kind,
            scorers=(scorer,),
            fixed=True,
        )

    def _id(self, position: int) -> str:
        place = f"{self._settings.level}/{self._settings.seed}/{position // len(self._names)}"
        return f"{self._names[position % len(self._names)]}/{place}"

    def _make(self, position: int, attempt: int) -> tuple[Question | Asked, Sequence[str]]:
        """What is asked, and its choices in the order they are shown."""
        dice = Dice(str(VERSION), self._id(position), str(attempt))
        made = self._kinds[self._names[position % len(self._names)]](dice, self._settings.level)
        return made, () if isinstance(made, Asked) else dice.some((made.answer, *made.wrong[:3]), 4)

    def _distinct(self) -> array[int]:
        """For each position the first attempt that makes a question no earlier one has; an easy kind may run out of them."""
        seen: set[int] = set()
        tries = array("B")
        for position in range(self._settings.count):
            for attempt in range(_RETRIES):
                key = order_key(self._make(position, attempt)[0].said)
                if key not in seen:
                    break
            seen.add(key)
            tries.append(attempt)
        return tries


def fresh(variant: str = "", likelihood: bool = False) -> Fresh:
    """Samples made from a seed: `fresh`, `fresh:3`, `fresh:hard:free`, `fresh:2:count=500:seed=7`, `fresh:tools:5`."""
    return Fresh(replace(parse(variant), listed=not likelihood), f"fresh:{variant}" if variant else "fresh")


def parse(variant: str) -> Settings:
    """Read what stands behind `fresh:`."""
    words = list(filter(None, variant.split(":")))
    found: dict[str, int | bool | str] = {"family": words.pop(0)} if words and words[0] in FAMILIES else {}
    for word in words:
        key, equals, value = word.partition("=")
        if word in ("free", "choice") and not found.get("family"):
            found["free"] = word == "free"
        elif word in LEVELS or word.isdecimal():
            found["level"] = LEVELS.get(word) or int(word)
        elif equals and key in ("level", "count", "seed") and value.isdecimal():
            found[key] = int(value)
        else:
            raise DatasetError(
                f"'fresh:{variant}': {word!r} is no level from 1 to {_HIGHEST}, {', '.join(LEVELS)}, free, count=N or seed=N; "
                "tools and dialogue come first, and are judged in one way"
            )
    settings = Settings(**found)  # type: ignore[arg-type]
    if not 1 <= settings.level <= _HIGHEST or not 1 <= settings.count <= _MOST:
        raise DatasetError(f"'fresh:{variant}': levels go from 1 to {_HIGHEST}, and there are 1 to {_MOST:,} questions")
    return settings
