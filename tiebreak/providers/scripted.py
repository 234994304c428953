"""A test double: a model whose answers are written down beforehand."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path
from typing import ClassVar

import msgspec

from tiebreak.core.errors import ConfigError, FailureKind, MissingModel, ProviderError
from tiebreak.core.message import Finish, Reply, Usage
from tiebreak.core.model import ModelRef, Request
from tiebreak.core.protocols import Endpoint, Listener


class Line(msgspec.Struct, forbid_unknown_fields=True):
    """One answer, or one failure, of the script."""

    text: str = ""
    when: str = ""
    """Said when the prompt contains this text; empty: said in turn."""
    thinking: str = ""
    finish: Finish = Finish.STOP
    delay_s: float = 0.0
    error: FailureKind | None = None
    times: int | None = None
    """How often this line may be used; None: always."""


class Script(msgspec.Struct, forbid_unknown_fields=True):
    """The file's form: lines tried in order, the first that fits is said."""

    answers: list[Line | str]
    default: str = ""


class Scripted:
    """Answers from a JSON file: scripted/FILE."""

    name: ClassVar[str] = "scripted"

    def __init__(self, endpoint: Endpoint) -> None:
        del endpoint
        self._scripts: dict[str, Script] = {}
        self._used: dict[int, int] = {}
        self.calls = 0

    async def open(self, model: ModelRef) -> None:
        """Read the script."""
        self._scripts[model.name] = _read(Path(model.name))

    async def generate(self, request: Request, listener: Listener | None = None) -> Reply:
        """Say the first line that fits."""
        self.calls += 1
        line = self._next(self._scripts[request.model], request.messages[-1].text)
        if line.delay_s:
            await asyncio.sleep(line.delay_s)
        if line.error is not None:
            raise ProviderError(line.text or f"scripted {line.error}", kind=line.error)
        usage = Usage(input_tokens=sum(len(m.text.split()) for m in request.messages), output_tokens=len(line.text.split()))
        return Reply(text=line.text, thinking=line.thinking, finish=line.finish, usage=usage, model=request.model)

    def _next(self, script: Script, prompt: str) -> Line:
        for line in script.answers:
            assert isinstance(line, Line)
            used = self._used.get(id(line), 0)
            if line.when in prompt and (line.times is None or used < line.times):
                self._used[id(line)] = used + 1
                return line
        return Line(text=script.default)

    async def list_models(self) -> Sequence[str]:
        """Scripts are named by path; none is known beforehand."""
        return ()

    async def close(self) -> None:
        """Nothing to let go of."""


def _read(path: Path) -> Script:
    try:
        if path.exists() and not path.is_file():  # /dev/zero would never end
            raise MissingModel(f"the script {str(path)!r} is not a file")
        script = msgspec.json.decode(path.read_bytes(), type=Script)
    except OSError as error:
        raise MissingModel(f"the script {str(path)!r} cannot be read: {error.strerror}") from None
    except msgspec.DecodeError as error:
        raise ConfigError(f"{path}: not a script of answers: {error}") from None
    script.answers = [Line(text=line, times=1) if isinstance(line, str) else line for line in script.answers]
    return script
