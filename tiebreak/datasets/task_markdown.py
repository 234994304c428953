"""A coding task written as one Markdown file: front matter, the prompt, then what the agent is not told."""

from __future__ import annotations

import re
import shlex
from dataclasses import dataclass
from typing import TYPE_CHECKING

import msgspec
import yaml

from tiebreak.core.plain_yaml import load_plain
from tiebreak.core.task import Check, Solution, Task, TaskFile, TaskLimits

if TYPE_CHECKING:
    from markdown_it.token import Token

SECTIONS = ("workspace", "verify", "solution", "cheat")
_SERVER_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_]{0,31}")
_MOST_LINES = 20_000
_LONGEST_INFO = 1_000
"""Of a file, and of what stands behind a fence: so much is read in less than a second, whatever it says."""


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


class PackagesPart(msgspec.Struct, forbid_unknown_fields=True):
    """Lock files, or packages written NAME==VERSION."""

    pip: list[str] = msgspec.field(default_factory=list)
    npm: list[str] = msgspec.field(default_factory=list)


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
    repo: str = ""
    """A git repository; the workspace is one of its commits."""
    commit: str = ""
    test_patch: str = ""
    """A file with the patch that brings the hidden tests."""
    solution_patch: str = ""
    fail_to_pass: list[str] = msgspec.field(default_factory=list)
    pass_to_pass: list[str] = msgspec.field(default_factory=list)
    packages: PackagesPart = msgspec.field(default_factory=PackagesPart)
    python: str = ""
    """The interpreter of a virtual environment on this machine."""
    setup: str = ""
    mcp: dict[str, str] = msgspec.field(default_factory=dict)
    """Servers by name, and the command that starts each."""


@dataclass(frozen=True, slots=True)
class _Block:
    """A fenced block: what stands behind its opening fence, on which line, and its text."""

    info: str
    line: int
    text: str

    @property
    def attributes(self) -> dict[str, str]:
        words = shlex.split(self.info)
        return {key: value for key, _, value in (word.partition("=") for word in words[1:] if "=" in word)}


def read_markdown(text: str) -> tuple[FrontMatter, str, Task]:
    """The task a Markdown file describes. Raises ValueError saying what is wrong and on which line."""
    if text.count("\n") > _MOST_LINES:
        raise ValueError(f"more than {_MOST_LINES:,} lines; a task with large files is written as a folder")
    front, body, skipped = split_front_matter(text)
    prompt, blocks = _split(body, skipped)
    if not prompt:
        raise ValueError("there is no prompt: write what is to be done before the first of the task's sections")
    workspace, verify, solution, cheat = (blocks[name] for name in SECTIONS)
    if any(not block.attributes.get("file") for block in workspace):
        line = next(block.line for block in workspace if not block.attributes.get("file"))
        raise ValueError(f"line {line}: a block of ## Workspace needs a name, as in ```python file=src/a.py")
    script = _script(verify)
    task = Task(
        title=front.title,
        tags=tuple(front.tags),
        files=_files(workspace),
        check=check_of(front, script, _files(verify)) if script.strip() else None,
        solution=_solution(solution),
        cheat=_solution(cheat),
        limits=limits_of(front),
        needs=tuple(front.needs),
        mcp=servers_of(front),
    )
    return front, prompt, task


def split_front_matter(text: str) -> tuple[FrontMatter, str, int]:
    """The fields, the rest of the text, and how many lines the fields took."""
    if not text.startswith("---\n"):
        return FrontMatter(), text, 0
    head, closed, body = text[4:].partition("\n---\n")
    if not closed:
        raise ValueError("line 1: the front matter that begins here is never closed by a line of ---")
    return _parse_front(head), body, head.count("\n") + 3


def _parse_front(text: str) -> FrontMatter:
    """The fields of a front matter, checked."""
    try:
        data = load_plain(text) or {}
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


def servers_of(front: FrontMatter) -> tuple[tuple[str, str], ...]:
    """The servers a task offers. Agents make the names of tools from theirs."""
    for name, command in front.mcp.items():
        if not _SERVER_NAME.fullmatch(name) or not command.strip():
            raise ValueError(f"mcp: {name!r} must be a name of letters, digits and _, with the command that starts the server")
    return tuple(front.mcp.items())


def _split(body: str, skipped: int) -> tuple[str, dict[str, list[_Block]]]:
    """The prompt, and the fenced blocks of each section; a heading inside a fence is no heading."""
    blocks: dict[str, list[_Block]] = {name: [] for name in SECTIONS}
    lines = body.split("\n")
    prompt_lines, section = len(lines), ""
    tokens = _tokens(body)
    for place, token in enumerate(tokens):
        first, end = token.map or (0, 0)
        if token.level > 0:
            continue
        if token.type == "heading_open" and token.markup == "##":
            heading = tokens[place + 1].content.lower()
            if heading in SECTIONS:
                section, prompt_lines = heading, min(prompt_lines, first)
        elif token.type == "fence":
            line = skipped + first + 1
            if len(token.info) > _LONGEST_INFO:
                raise ValueError(f"line {line}: more than {_LONGEST_INFO:,} characters behind the fence")
            _check_closed(lines[first:end], token.markup, line)
            if section:
                blocks[section].append(_Block(token.info, line, token.content))
    return "\n".join(lines[:prompt_lines]).strip(), blocks


def _tokens(body: str) -> list[Token]:
    """The blocks of a text as CommonMark has them, except that HTML is text: a tag left open would swallow the sections."""
    from markdown_it import MarkdownIt

    return MarkdownIt("commonmark").disable(["html_block", "inline"]).parse(body)


def _check_closed(lines: list[str], fence: str, number: int) -> None:
    """Refuse a block that ends with the file, or with the fence that closes a later block: CommonMark allows both."""
    longer = rf" {{0,3}}{re.escape(fence)}{re.escape(fence[0])}*"
    if len(lines) < 2 or not re.fullmatch(rf"{longer}\s*", lines[-1]):
        raise ValueError(f"line {number}: the block that begins here is never closed by a line of {fence}")
    for place, line in enumerate(lines[1:-1], start=number + 1):
        if re.match(rf"{longer}\s*[^\s{fence[0]}]", line):
            raise ValueError(
                f"line {number}: the block that begins here is never closed: on line {place} another one begins inside it. "
                f"Around text with fences of its own, write a longer fence: {fence}{fence[0]}"
            )


def _files(blocks: list[_Block]) -> tuple[TaskFile, ...]:
    return tuple(
        TaskFile(path=block.attributes["file"], content=block.text.encode(), executable="7" in block.attributes.get("mode", ""))
        for block in blocks
        if block.attributes.get("file")
    )


def _script(blocks: list[_Block]) -> str:
    return "".join(block.text for block in blocks if not block.attributes.get("file"))


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
