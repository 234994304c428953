"""A coding task written as one Markdown file: front matter, the prompt, then what the agent is not told."""

from __future__ import annotations

import re
import shlex
from dataclasses import dataclass, field

import msgspec
import yaml

from benchmark.core.task import Check, Solution, Task, TaskFile, TaskLimits

SECTIONS = ("workspace", "verify", "solution", "cheat")
_HEADING = re.compile(r"##\s+(\w+)\s*#*\s*$")
_FENCE = re.compile(r"(`{3,}|~{3,})\s*(.*?)\s*$")


class AgentPart(msgspec.Struct, forbid_unknown_fields=True):
    """What an attempt may take."""

    timeout_sec: float | None = None
    max_model_calls: int | None = None


class VerifierPart(msgspec.Struct, forbid_unknown_fields=True):
    """What the check may take."""

    timeout_sec: float = 60.0


class LimitsPart(msgspec.Struct, forbid_unknown_fields=True):
    """What the sandbox may use."""

    memory_mb: int = 2048
    pids: int = 256
    file_mb: int = 512
    network: str = "none"


class ExpectPart(msgspec.Struct, forbid_unknown_fields=True):
    """What else must hold of a result."""

    max_files_changed: int | None = None


class FrontMatter(msgspec.Struct, forbid_unknown_fields=True):
    """The fields before the prompt; all of them may be left out."""

    id: str = ""
    title: str = ""
    tags: list[str] = msgspec.field(default_factory=list)
    agent: AgentPart = msgspec.field(default_factory=AgentPart)
    verifier: VerifierPart = msgspec.field(default_factory=VerifierPart)
    limits: LimitsPart = msgspec.field(default_factory=LimitsPart)
    protect: list[str] = msgspec.field(default_factory=list)
    expect: ExpectPart = msgspec.field(default_factory=ExpectPart)
    needs: list[str] = msgspec.field(default_factory=list)


@dataclass(slots=True)
class _Block:
    """A fenced block: its attributes and its text."""

    info: str
    line: int
    lines: list[str] = field(default_factory=list)

    @property
    def text(self) -> str:
        return "".join(f"{line}\n" for line in self.lines)

    @property
    def attributes(self) -> dict[str, str]:
        words = shlex.split(self.info)
        return {key: value for key, _, value in (word.partition("=") for word in words[1:] if "=" in word)}


def read_markdown(text: str) -> tuple[FrontMatter, str, Task]:
    """The task a Markdown file describes. Raises ValueError saying what is wrong and on which line."""
    front, body, skipped = _front_matter(text)
    prompt, blocks = _split(body, skipped)
    if not prompt:
        raise ValueError("there is no prompt: write what is to be done before the first of the task's sections")
    workspace, verify, solution, cheat = (blocks[name] for name in SECTIONS)
    if any(not block.attributes.get("file") for block in workspace):
        line = next(block.line for block in workspace if not block.attributes.get("file"))
        raise ValueError(f"line {line}: a block of ## Workspace needs a name, as in ```python file=src/a.py")
    task = Task(
        title=front.title,
        tags=tuple(front.tags),
        files=_files(workspace),
        check=_check(front, verify),
        solution=_solution(solution),
        cheat=_solution(cheat),
        limits=limits_of(front),
        needs=tuple(front.needs),
    )
    return front, prompt, task


def _front_matter(text: str) -> tuple[FrontMatter, str, int]:
    """The fields, the rest of the text, and how many lines the fields took."""
    if not text.startswith("---\n"):
        return FrontMatter(), text, 0
    head, closed, body = text[4:].partition("\n---\n")
    if not closed:
        raise ValueError("line 1: the front matter that begins here is never closed by a line of ---")
    return parse_front(head), body, head.count("\n") + 3


def parse_front(text: str) -> FrontMatter:
    """The fields of a front matter, checked."""
    try:
        data = yaml.safe_load(text) or {}
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        raise ValueError(f"line {mark.line + 2 if mark else 1}: the front matter is no YAML: {error}") from None
    try:
        return msgspec.convert(data, FrontMatter)
    except msgspec.ValidationError as error:
        raise ValueError(f"the front matter is wrong: {error}") from None


def limits_of(front: FrontMatter) -> TaskLimits:
    """What an attempt may use, in our words."""
    if front.limits.network != "none":
        raise ValueError(f"limits.network is {front.limits.network!r}; the only network a task can have is none")
    return TaskLimits(
        timeout_s=front.agent.timeout_sec,
        max_model_calls=front.agent.max_model_calls,
        memory_mb=front.limits.memory_mb,
        processes=front.limits.pids,
        file_mb=front.limits.file_mb,
    )


def _split(body: str, skipped: int) -> tuple[str, dict[str, list[_Block]]]:
    """The prompt, and the fenced blocks of each section; a heading inside a fence is no heading."""
    blocks: dict[str, list[_Block]] = {name: [] for name in SECTIONS}
    prompt: list[str] = []
    section, fence, block = "", "", _Block("", 0)
    for number, line in enumerate(body.splitlines(), start=skipped + 1):
        if not fence and (heading := _HEADING.match(line)) and heading[1].lower() in SECTIONS:
            section = heading[1].lower()
            continue
        if not section:
            prompt.append(line)
        if fence:
            if line.strip().startswith(fence) and not line.strip().strip(fence[0]):
                fence = ""
            else:
                block.lines.append(line)
        elif opened := _FENCE.match(line):
            fence, block = opened[1], _Block(opened[2], number)
            if section:
                blocks[section].append(block)
    if fence:
        raise ValueError(f"line {block.line}: the block that begins here is never closed")
    return "\n".join(prompt).strip(), blocks


def _files(blocks: list[_Block]) -> tuple[TaskFile, ...]:
    return tuple(
        TaskFile(path=block.attributes["file"], content=block.text.encode(), executable=_is_executable(block.attributes))
        for block in blocks
        if block.attributes.get("file")
    )


def _is_executable(attributes: dict[str, str]) -> bool:
    return "7" in attributes.get("mode", "")


def _script(blocks: list[_Block]) -> str:
    return "".join(block.text for block in blocks if not block.attributes.get("file"))


def _check(front: FrontMatter, blocks: list[_Block]) -> Check | None:
    script = _script(blocks)
    return check_of(front, script, _files(blocks)) if script.strip() else None


def check_of(front: FrontMatter, script: str, files: tuple[TaskFile, ...]) -> Check:
    """The check a task describes."""
    return Check(
        script=script,
        files=files,
        protect=tuple(front.protect),
        max_files_changed=front.expect.max_files_changed,
        timeout_s=front.verifier.timeout_sec,
    )


def _solution(blocks: list[_Block]) -> Solution | None:
    return Solution(script=_script(blocks), files=_files(blocks)) if blocks else None
