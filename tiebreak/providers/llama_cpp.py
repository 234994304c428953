"""The embedded model, or any GGUF file: llama.cpp in a process of its own, reached over loopback."""

from __future__ import annotations

import asyncio
import contextlib
import importlib.util
import os
import secrets
import signal
import sys
from asyncio.subprocess import DEVNULL, PIPE, Process
from collections.abc import Sequence
from pathlib import Path
from typing import ClassVar

import msgspec

from tiebreak.core import embedded
from tiebreak.core.errors import FailureKind, MissingExtra, MissingModel, ProviderError
from tiebreak.core.extras import installing
from tiebreak.core.message import Likelihood, Message, Reply
from tiebreak.core.model import ModelRef, Request
from tiebreak.core.protocols import Endpoint, Listener
from tiebreak.providers.openai import Compatible

_START_S = 120.0
_STOP_S = 3.0
_PASSED_ON = ("PATH", "HOME", "LANG", "LD_LIBRARY_PATH", "CUDA_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES", "SYSTEMROOT")
"""All of our environment that the model's process gets: no key is among it."""


class LlamaCpp:
    """GGUF models served by llama.cpp, one process per model."""

    name: ClassVar[str] = "llama_cpp"
    local: ClassVar[bool] = True
    tells_likelihood: ClassVar[bool] = True
    unsupported: ClassVar[frozenset[str]] = Compatible.unsupported | {"image", "file", "audio"}

    @classmethod
    def dialects(cls, base_url: str) -> frozenset[str]:
        """What llama.cpp's server takes as it is."""
        return Compatible.dialects(base_url)

    def __init__(self, endpoint: Endpoint) -> None:
        self._endpoint = endpoint
        self._processes: dict[str, Process] = {}
        self._servers: dict[str, _Server] = {}

    async def open(self, model: ModelRef) -> None:
        """Start the model's process and wait until the weights are loaded."""
        path = weights(model.name)
        key = secrets.token_hex(16)
        process = await asyncio.create_subprocess_exec(
            sys.executable,
            *("-m", "tiebreak.providers.llama_cpp_server", str(path)),
            *("--alias", Path(model.name).stem, "--slots", str(self._endpoint.max_connections)),
            *("--context", str(model.context_window or 4096)),
            *(("--threads", str(self._endpoint.threads)) if self._endpoint.threads else ()),
            stdin=PIPE,
            stdout=PIPE,
            stderr=DEVNULL,
            start_new_session=True,
            env=_environment() | {"TIEBREAK_SERVER_KEY": key},
        )
        self._processes[model.name] = process
        url = await _address(process, path)
        endpoint = Endpoint(base_url=url, api_key=key, max_connections=self._endpoint.max_connections)
        self._servers[model.name] = _Server(endpoint)

    async def generate(self, request: Request, listener: Listener | None = None) -> Reply:
        """Ask the model's process for one chat completion."""
        try:
            return await self._servers[request.model].generate(request, listener)
        except ProviderError as error:
            code = self._processes[request.model].returncode
            if code is None:
                raise
            raise ProviderError(f"the model's process ended with code {code}", kind=FailureKind.NOT_FOUND) from error

    async def likelihood(self, model: str, messages: Sequence[Message], continuation: str, *, raw: bool = False) -> Likelihood:
        """How likely the model finds a continuation as its answer to the messages, or `raw` of their bare text.

        The server gives log-probabilities of generated tokens only, so the continuation is generated: a grammar of
        token ids allows just these. (A grammar of text would let it spell the words in other tokens.)
        """
        server = self._servers[model]
        prompt = "\n\n".join(message.text for message in messages) if raw else await _templated(server, messages)
        before, wanted = await _tokens(server, prompt, special=True), await _tokens(server, continuation, special=False)
        if not wanted:
            return Likelihood(tokens=(), logprobs=(), prompt_tokens=len(before))
        grammar = "root ::= " + " ".join(f"<[{token}]>" for token in wanted)
        body = {"prompt": before, "n_predict": len(wanted), "n_probs": 1, "temperature": 0, "grammar": grammar}
        try:
            made = msgspec.json.decode(await server.post("/completion", body), type=_Completion).completion_probabilities
        except ProviderError as error:
            # llama.cpp's grammar loses its way in tokens that are only a part of a letter.
            raise ProviderError(f"the likelihood of {continuation!r} cannot be told", kind=FailureKind.BAD_REQUEST) from error
        if [token.id for token in made] != wanted:
            raise ProviderError(f"the likelihood of {continuation!r} cannot be told", kind=FailureKind.BAD_REQUEST)
        return Likelihood(tokens=tuple(wanted), logprobs=tuple(token.logprob for token in made), prompt_tokens=len(before))

    async def list_models(self) -> Sequence[str]:
        """The embedded model, where its package is installed."""
        return (embedded.NAME,) if embedded.is_ready() else ()

    async def close(self) -> None:
        """End the processes; nothing of them stays behind."""
        for server in self._servers.values():
            await server.close()
        for process in self._processes.values():
            await _end(process)
        self._servers.clear()
        self._processes.clear()


class _Server(Compatible):
    """llama.cpp's own server. On this machine a new connection costs nothing, and it closes old ones as it likes."""

    chat_path: ClassVar[str] = "/v1/chat/completions"

    def headers(self) -> dict[str, str]:
        """One request per connection."""
        return super().headers() | {"Connection": "close"}


class _Prompt(msgspec.Struct):
    prompt: str


class _Tokens(msgspec.Struct):
    tokens: list[int]


class _Token(msgspec.Struct):
    id: int
    logprob: float


class _Completion(msgspec.Struct):
    completion_probabilities: list[_Token] = []


async def _templated(server: _Server, messages: Sequence[Message]) -> str:
    """The messages as the model was taught to read them."""
    turns = [{"role": message.role, "content": message.text} for message in messages]
    return msgspec.json.decode(await server.post("/apply-template", {"messages": turns}), type=_Prompt).prompt


async def _tokens(server: _Server, text: str, *, special: bool) -> list[int]:
    body = {"content": text, "add_special": special}
    return msgspec.json.decode(await server.post("/tokenize", body), type=_Tokens).tokens


def weights(name: str) -> Path:
    """The file that holds a model's weights."""
    if importlib.util.find_spec(embedded.RUNTIME) is None:
        raise MissingExtra(f"llama_cpp needs {embedded.RUNTIME}, which is not installed: {installing('demo')}")
    if name == embedded.NAME:
        path = embedded.find_weights()
        if path is None:
            raise MissingExtra(f"the weights of {name!r} are not here yet; `tiebreak demo` fetches them")
        return path
    path = Path(name).expanduser()
    if not path.is_file():
        raise MissingModel(f"there is no file {name!r}; name a GGUF file, or the embedded {embedded.NAME!r}")
    return path


def _environment() -> dict[str, str]:
    kept = {name: os.environ[name] for name in _PASSED_ON if name in os.environ}
    root = Path(__file__).resolve().parents[2]
    return kept | {"PYTHONPATH": str(root), "PYTHONSAFEPATH": "1"}


async def _address(process: Process, path: Path) -> str:
    """Where the started process listens; it says so once the weights are loaded."""
    assert process.stdout is not None
    try:
        line = await asyncio.wait_for(process.stdout.readline(), _START_S)
    except TimeoutError:
        await _end(process)
        raise ProviderError(f"{path.name} was not loaded within {_START_S:.0f} s", kind=FailureKind.TIMEOUT) from None
    word, _, rest = line.decode("utf-8", "replace").strip().partition(" ")
    if word != "listening":
        await _end(process)
        raise ProviderError(f"{path.name} could not be loaded: {rest or 'the process ended'}", kind=FailureKind.NOT_FOUND)
    return rest


async def _end(process: Process) -> None:
    """Ask the process to leave by closing its input, then make it."""
    if process.stdin is not None:
        process.stdin.close()
    try:
        await asyncio.wait_for(process.wait(), _STOP_S)
    except TimeoutError:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        await process.wait()
