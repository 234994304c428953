"""Calls of tools nobody has seen: which to call, with what, how often, or not at all. Right by construction."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tiebreak.core.message import Tool
from tiebreak.core.sample import ToolResult
from tiebreak.datasets.dice import COLOURS, DAYS, NAMES, THINGS, Dice
from tiebreak.datasets.exchanges import Asked

_ROOMS = ("kitchen", "hall", "office", "garage", "bedroom", "cellar")
_TEXT, _NUMBER = {"type": "string"}, {"type": "integer"}
_ALONE = "Reply with the answer alone."


@dataclass(frozen=True, slots=True)
class _Kind:
    """A tool, and how a request for it is made: the words and the arguments."""

    name: str
    about: str
    parameters: Mapping[str, Any]
    request: Callable[[Dice], tuple[str, dict[str, Any]]]

    @property
    def tool(self) -> Tool:
        schema = {"type": "object", "properties": dict(self.parameters), "required": list(self.parameters)}
        return Tool(name=self.name, description=self.about, parameters=schema)


def _table(dice: Dice) -> tuple[str, dict[str, Any]]:
    people, day, hour = dice.between(2, 9), dice.pick(DAYS), dice.between(11, 21)
    return f"book a table for {people} people on {day} at {hour}:00", {"people": people, "day": day, "hour": hour}


def _light(dice: Dice) -> tuple[str, dict[str, Any]]:
    room, colour = dice.pick(_ROOMS), dice.pick(COLOURS)
    return f"make the light in the {room} {colour}", {"room": room, "colour": colour}


def _alarm(dice: Dice) -> tuple[str, dict[str, Any]]:
    hour, minute = dice.between(5, 9), dice.between(10, 59)
    return f"set an alarm for {hour}:{minute} in the morning", {"hour": hour, "minute": minute}


def _order(dice: Dice) -> tuple[str, dict[str, Any]]:
    thing, amount = dice.pick(THINGS), dice.between(2, 40)
    return f"order {amount} pieces of the article {thing!r}", {"article": thing, "amount": amount}


def _transfer(dice: Dice) -> tuple[str, dict[str, Any]]:
    name, amount = dice.pick(NAMES), dice.between(5, 900)
    return f"send {amount} dollars to {name}", {"to": name, "dollars": amount}


def _move(dice: Dice) -> tuple[str, dict[str, Any]]:
    thing, room = dice.pick(THINGS), dice.pick(_ROOMS)
    return f"have the robot bring the {thing} to the {room}", {"thing": thing, "room": room}


def _call(dice: Dice) -> tuple[str, dict[str, Any]]:
    name, day = dice.pick(NAMES), dice.pick(DAYS)
    return f"remind me to call {name} on {day}", {"name": name, "day": day}


def _heat(dice: Dice) -> tuple[str, dict[str, Any]]:
    room, degrees = dice.pick(_ROOMS), dice.between(15, 25)
    return f"heat the {room} to {degrees} degrees", {"room": room, "degrees": degrees}


_TOOLS = (
    _Kind("book_table", "Books a table in a restaurant.", {"people": _NUMBER, "day": _TEXT, "hour": _NUMBER}, _table),
    _Kind("set_light", "Changes the colour of the light in a room.", {"room": _TEXT, "colour": _TEXT}, _light),
    _Kind("set_alarm", "Sets an alarm; hours go from 0 to 23.", {"hour": _NUMBER, "minute": _NUMBER}, _alarm),
    _Kind("order_article", "Orders pieces of an article.", {"article": _TEXT, "amount": _NUMBER}, _order),
    _Kind("send_money", "Sends dollars to a person.", {"to": _TEXT, "dollars": _NUMBER}, _transfer),
    _Kind("bring_thing", "Has the robot bring a thing to a room.", {"thing": _TEXT, "room": _TEXT}, _move),
    _Kind("add_reminder", "Reminds the user to call a person on a day.", {"name": _TEXT, "day": _TEXT}, _call),
    _Kind("set_temperature", "Heats a room to so many degrees.", {"room": _TEXT, "degrees": _NUMBER}, _heat),
)


def one(dice: Dice, level: int) -> Asked:
    """One of several tools is to be called once."""
    offered = dice.some(_TOOLS, min(len(_TOOLS), 1 + level))
    return _requested(dice, offered, [dice.pick(offered)])


def several(dice: Dice, level: int) -> Asked:
    """Several calls in one request, some of the same tool."""
    offered = dice.some(_TOOLS, min(len(_TOOLS), 1 + level))
    return _requested(dice, offered, [dice.pick(offered) for _ in range(2 + level // 3)])


def none(dice: Dice, level: int) -> Asked:
    """No tool that is offered fits the request: nothing is to be called."""
    wanted, *offered = dice.some(_TOOLS, min(len(_TOOLS), 2 + level))
    words, _ = wanted.request(dice)
    text = f"Please {words}. If no tool can do it, call none, and say so."
    return Asked(text=text, tools=[kind.tool for kind in offered], calls=())


def _requested(dice: Dice, offered: Sequence[_Kind], wanted: Sequence[_Kind]) -> Asked:
    requests = [(kind, *kind.request(dice)) for kind in wanted]
    words = ", then ".join(words for _, words, _ in requests)
    calls = [{"name": kind.name, "arguments": arguments} for kind, _, arguments in requests]
    return Asked(text=f"Please {words}.", tools=[kind.tool for kind in offered], calls=calls)


def search(dice: Dice, level: int) -> Asked:
    """A chain of boxes, each of which says where to look next; what is in the last one is asked for."""
    boxes = dice.some(COLOURS, min(len(COLOURS), 2 + level // 2))
    found = dice.pick(THINGS)
    says = [f"Look into the {box} box." for box in boxes[1:]] + [f"There is a {found} in it."]
    told = [ToolResult(name="open_box", arguments={"colour": box}, text=text) for box, text in zip(boxes, says, strict=True)]
    others = [colour for colour in COLOURS if colour not in boxes]
    told += [ToolResult(name="open_box", arguments={"colour": colour}, text="It is empty.") for colour in others]
    schema = {"type": "object", "properties": {"colour": _TEXT}, "required": ["colour"]}
    tool = Tool(name="open_box", description="Opens the box of a colour, and says what is in it.", parameters=schema)
    text = f"Start with the {boxes[0]} box and follow what is in the boxes. What thing is in the last one? {_ALONE}"
    return Asked(text=text, tools=[tool], results=told, target=found)


def prices(dice: Dice, level: int) -> Asked:
    """What several articles cost must be asked one by one, and added up."""
    bought = dice.some(THINGS, min(6, 1 + level))
    cost = {thing: dice.between(1, 10 * level) for thing in THINGS}
    amounts = {thing: dice.between(1, 1 + level // 2) for thing in bought}
    told = [ToolResult(name="price_of", arguments={"article": thing}, text=str(price)) for thing, price in cost.items()]
    schema = {"type": "object", "properties": {"article": _TEXT}, "required": ["article"]}
    tool = Tool(name="price_of", description="The price of one piece of an article, in dollars.", parameters=schema)
    listed = ", ".join(f"{amounts[thing]} × {thing}" for thing in bought)
    text = f"How many dollars do these cost together: {listed}? {_ALONE}"
    total = sum(amounts[thing] * cost[thing] for thing in bought)
    return Asked(text=text, tools=[tool], results=told, target=str(total), scorer="numeric")


KINDS: dict[str, Callable[[Dice, int], Asked]] = {kind.__name__: kind for kind in (one, several, none, search, prices)}
