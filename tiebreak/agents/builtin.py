"""Our own coding agent: a small loop around a model with a shell, a reader and an editor."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from msgspec.structs import replace

from tiebreak.core.errors import FailureKind, ProviderError
from tiebreak.core.message import Finish, Message, Reply, TextPart, Tool, ToolCall, system, user
from tiebreak.core.protocols import TaskContext
from tiebreak.core.sample import Sample
from tiebreak.core.steps import call_in_words
from tiebreak.core.trial import Output
from tiebreak.core.work import Command

_LONGEST_RESULT = 8_000
_SHELL_S = 120.0
_KEPT_WHOLE = 4
"""Results of so many latest actions stay whole when the conversation has become too long for the model."""
_NUDGES = 2

SYSTEM = """\
You are a careful programmer working in the current folder of a Linux machine. There is no network.
Look at the files first, make the smallest change that does all that is asked, and try what you changed.
Nobody can answer questions: decide yourself. Say finish once the work is done."""

TEXT_RULES = """\
You act by writing blocks; each is carried out and you are told the result. Write one or more of:

```shell
a command
```

To change a part of a file, say its name and write what is there now and what shall be there instead:

EDIT path/to/file
<<<<<<< SEARCH
the exact old lines
=======
the new lines
>>>>>>> REPLACE

To write a whole file:

FILE path/to/file
```
the whole content
```

When all is done, write a line that says only: FINISH"""

_TEXT, _NUMBER = {"type": "string"}, {"type": "integer", "minimum": 1}


def _tool(name: str, description: str, required: Sequence[str], **properties: dict[str, Any]) -> Tool:
    schema = {"type": "object", "properties": properties, **({"required": list(required)} if required else {})}
    return Tool(name=name, description=description, parameters=schema)


TOOLS = (
    _tool(
        "shell",
        "Run a bash command in the workspace; returns its output and exit code. Nothing keeps running afterwards.",
        ["command"],
        command=_TEXT,
    ),
    _tool("read", "Read a text file, or a part of it by line numbers.", ["path"], path=_TEXT, first_line=_NUMBER, lines=_NUMBER),
    _tool(
        "edit",
        "Replace old_text, which must occur exactly once in the file, by new_text. With an empty old_text the whole file is "
        "written anew.",
        ["path", "old_text", "new_text"],
        **dict.fromkeys(("path", "old_text", "new_text"), _TEXT),
    ),
    _tool("finish", "Say that the work is done.", (), summary=_TEXT),
)

_BLOCK = re.compile(
    r"^```(?:shell|bash|sh|console)[^\n]*\n(?P<shell>.*?)^```"
    r"|^EDIT[ \t]+(?P<edited>\S[^\n]*)\n<{5,9} SEARCH\n(?P<old>.*?)^={5,9}\n(?P<new>.*?)^>{5,9} REPLACE"
    r"|^FILE[ \t]+(?P<written>\S[^\n]*)\n```[^\n]*\n(?P<content>.*?)^```"
    r"|^[*_`]*(?P<finish>FINISH)[*_`.]*[ \t]*$",
    re.MULTILINE | re.DOTALL,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Action:
    """One thing the model wants done."""

    name: str
    arguments: dict[str, Any] | None
    call_id: str = ""
    """Empty for an action written as text."""


@dataclass(slots=True)
class _Conversation:
    """The conversation so far, and how this model acts."""

    messages: list[Message]
    as_text: bool = False
    finished: str | None = None
    nudged: int = 0
    acted: bool = False
    recorded: list[RecordedCall] = field(default_factory=list)
    """Turns of an earlier attempt that are still to be taken again."""
    expected: list[str] = field(default_factory=list)
    """What the actions of the turn that is taken again brought then."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordedCall:
    """One turn of an earlier attempt."""

    step: int
    """Its number in that attempt's transcript."""
    reply: Reply
    results: tuple[str, ...] = ()
    """What its actions brought."""


class Builtin:
    """Works in the workspace through the model's tool calls, or through blocks of plain text where it has none."""

    async def run(self, sample: Sample, context: TaskContext) -> Output:
        """Work on the task, and go on as long as there is a next prompt."""
        conversation = _Conversation([system(SYSTEM), user(sample.prompt)], recorded=self._recorded())
        said = await self._work(conversation, context)
        while (prompt := await context.review(said)) is not None:
            conversation.messages.append(user(prompt))
            conversation.finished = None
            said = await self._work(conversation, context)
        return Output(text=said)

    def _recorded(self) -> list[RecordedCall]:
        """Turns that are taken as they were instead of being asked for."""
        return []

    async def _work(self, conversation: _Conversation, context: TaskContext) -> str:
        """Let the model act until it says that it is done, or has nothing more to do."""
        while True:
            reply = await _next_turn(conversation, context)
            conversation.messages.append(reply.as_message())
            actions = actions_of(reply)
            if not actions:
                if not _nudge(conversation, reply):
                    return reply.text
                continue
            conversation.acted = True
            await _carry_out(actions, conversation, context)
            if conversation.finished is not None:
                return conversation.finished or reply.text


class Replayed(Builtin):
    """The same, going on from a step of an earlier attempt: until then it takes the turns that were taken then.

    `record` is a file of calls, as `tiebreak replay` writes it; turns of steps before `step` are taken again.
    """

    def __init__(self, record: str, step: int) -> None:
        calls = json.loads(Path(record).read_text(encoding="utf-8"))["calls"]
        self._calls = [_recorded_call(call) for call in calls if call["step"] < step]

    def _recorded(self) -> list[RecordedCall]:
        return list(self._calls)


def _recorded_call(call: Mapping[str, Any]) -> RecordedCall:
    number = call["step"]
    tools = tuple(
        ToolCall(id=f"call_{number}_{place}", name=tool["name"], arguments=tool["arguments"])
        for place, tool in enumerate(call["tools"])
    )
    reply = Reply(text=call["text"], tool_calls=tools, finish=Finish.TOOL if tools else Finish.STOP)
    return RecordedCall(step=number, reply=reply, results=tuple(call["results"]))


def _taken_again(conversation: _Conversation, context: TaskContext) -> Reply:
    """The next turn of the earlier attempt: nobody is asked, and nothing is paid."""
    call = conversation.recorded.pop(0)
    conversation.expected = list(call.results)
    words = [call_in_words(tool.name, tool.arguments) for tool in call.reply.tool_calls]
    tools = [{"name": tool.name, "arguments": tool.arguments} for tool in call.reply.tool_calls]
    said = "\n".join(filter(None, (call.reply.text, *words)))
    context.note("replay", said, actor="earlier", step=call.step, tools=tools)
    return call.reply


async def _next_turn(conversation: _Conversation, context: TaskContext) -> Reply:
    """The model's next turn; without tools where it cannot take them, with a shorter past where it must."""
    if conversation.recorded:
        return _taken_again(conversation, context)
    conversation.expected = []
    try:
        return await _ask(conversation, context)
    except ProviderError as error:
        if error.kind is FailureKind.CONTEXT_LENGTH and _shortened(conversation):
            return await _ask(conversation, context)
        if error.kind is FailureKind.BAD_REQUEST and not conversation.as_text and "tool" in str(error).lower():
            _speak_text(conversation)
            return await _ask(conversation, context)
        raise


async def _ask(conversation: _Conversation, context: TaskContext) -> Reply:
    return await context.ask(conversation.messages, tools=() if conversation.as_text else TOOLS)


def _speak_text(conversation: _Conversation) -> None:
    """From now on the model acts by blocks of text."""
    conversation.as_text = True
    conversation.messages[0] = system(f"{SYSTEM}\n\n{TEXT_RULES}")


def _nudge(conversation: _Conversation, reply: Reply) -> bool:
    """Whether a model that did nothing is told once more how to act: it may not know tool calls."""
    if (
        conversation.acted
        or conversation.nudged >= _NUDGES
        or reply.text.rstrip().endswith("?")
        or reply.finish is Finish.REFUSED
    ):
        return False
    conversation.nudged += 1
    if not conversation.as_text:
        _speak_text(conversation)
    conversation.messages.append(user(f"Nothing was done yet. {TEXT_RULES}"))
    return True


def _shortened(conversation: _Conversation) -> bool:
    """Cut old results out of the conversation; False when there is nothing left to cut."""
    results = [i for i, m in enumerate(conversation.messages) if i > 1 and m.role in ("tool", "user") and len(m.text) > 400]
    for place in results[:-_KEPT_WHOLE]:
        message = conversation.messages[place]
        conversation.messages[place] = replace(message, parts=(TextPart(f"{message.text[:200]}\n… (cut)"),))
    return len(results) > _KEPT_WHOLE


def actions_of(reply: Reply) -> list[Action]:
    """What the model wants done: its tool calls, else the blocks in its text."""
    if reply.tool_calls:
        return [Action(name=call.name, arguments=call.parsed(), call_id=call.id) for call in reply.tool_calls]
    return [_action(match) for match in _BLOCK.finditer(reply.text if reply.text.endswith("\n") else f"{reply.text}\n")]


def _action(block: re.Match[str]) -> Action:
    if block["shell"] is not None:
        return Action(name="shell", arguments={"command": block["shell"].strip()})
    if block["edited"] is not None:
        return Action(name="edit", arguments={"path": _path(block["edited"]), "old_text": block["old"], "new_text": block["new"]})
    if block["written"] is not None:
        return Action(name="edit", arguments={"path": _path(block["written"]), "old_text": "", "new_text": block["content"]})
    return Action(name="finish", arguments={})


def _path(text: str) -> str:
    return text.strip().strip("`'\"")


async def _carry_out(actions: Sequence[Action], conversation: _Conversation, context: TaskContext) -> None:
    """Do what the model wants, in order, and tell it what came of it."""
    told: list[str] = []
    for action in actions:
        result, failed = await _perform(action, conversation, context)
        then = conversation.expected.pop(0) if conversation.expected else None
        differs: dict[str, Any] = {"differs": True} if then is not None and then != result else {}
        context.note("tool", result, name=action.name, failed=failed, **differs)
        if action.call_id:
            parts = (TextPart(result),)
            conversation.messages.append(Message(role="tool", parts=parts, tool_call_id=action.call_id, failed=failed))
        else:
            told.append(result)
    if told and conversation.finished is None:
        conversation.messages.append(user("\n\n".join(told)))


async def _perform(action: Action, conversation: _Conversation, context: TaskContext) -> tuple[str, bool]:
    """What came of one action, and whether it failed; nothing a model writes can break the loop."""
    arguments = action.arguments
    try:
        if arguments is None:
            return "the arguments are no JSON object", True
        if action.name == "finish":
            conversation.finished = str(arguments.get("summary") or "")
            return "finished", False
        if action.name == "shell":
            return await _shell(str(arguments["command"]), context)
        if action.name == "read":
            return await _read(arguments, context)
        if action.name == "edit":
            return await _edit(arguments, context)
    except KeyError as missing:
        return f"the argument {missing} is missing", True
    except (OSError, ValueError) as error:
        return f"{getattr(error, 'strerror', None) or error}", True
    return f"there is no tool {action.name!r}; there are shell, read, edit and finish", True


async def _shell(command: str, context: TaskContext) -> tuple[str, bool]:
    argv = ("bash", "-c", command)
    finished = await context.workspace.run(Command(argv=argv, timeout_s=_SHELL_S))
    output = _cut(finished.output.rstrip("\n"))
    if finished.ended_by:
        return f"{output}\n(ended by {finished.ended_by} after {finished.seconds:.0f} s)", True
    return f"{output}\n(exit code {finished.code})" if finished.code else output or "(no output)", bool(finished.code)


async def _read(arguments: dict[str, Any], context: TaskContext) -> tuple[str, bool]:
    text = (await context.workspace.read(str(arguments["path"]))).decode("utf-8", "replace")
    first, count = int(arguments.get("first_line") or 1), arguments.get("lines")
    if first > 1 or count:
        lines = text.splitlines(keepends=True)[first - 1 :]
        text = "".join(lines[: int(count)] if count else lines)
    return _cut(text) or "(empty)", False


async def _edit(arguments: dict[str, Any], context: TaskContext) -> tuple[str, bool]:
    path, old, new = str(arguments["path"]), str(arguments["old_text"]), str(arguments["new_text"])
    if not old:
        await context.workspace.write(path, new.encode())
        return f"wrote {path}", False
    text = (await context.workspace.read(path)).decode("utf-8", "surrogateescape")
    if old not in text and old.endswith("\n"):
        # Written as lines, meant as a part of one.
        old, new = old[:-1], new.removesuffix("\n")
    found = text.count(old)
    if found != 1:
        where = "does not occur" if not found else f"occurs {found} times"
        return f"nothing was changed: the old text {where} in {shlex.quote(path)}; it must occur exactly once", True
    await context.workspace.write(path, text.replace(old, new, 1).encode("utf-8", "surrogateescape"))
    return f"changed {path}", False


def _cut(text: str) -> str:
    """The text, or its beginning and end where it is long."""
    if len(text) <= _LONGEST_RESULT:
        return text
    half = _LONGEST_RESULT // 2
    return f"{text[:half]}\n… ({len(text) - 2 * half} characters left out)\n{text[-half:]}"
