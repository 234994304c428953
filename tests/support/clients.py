"""The official clients as stand-ins for agents: each holds a conversation with tools, whole or streamed."""

from __future__ import annotations

import json
import warnings
from dataclasses import dataclass, field
from typing import Any

TOOLS = {
    "read_file": {"type": "object", "properties": {"path": {"type": "string"}}, "required": ["path"]},
    "edit": {
        "type": "object",
        "properties": {"path": {"type": "string"}, "old": {"type": "string"}, "new": {"type": "string"}},
        "required": ["path", "old", "new"],
    },
    "question": {"type": "object", "properties": {"question": {"type": "string"}}},
}


@dataclass
class Turn:
    """What a client understood of one answer."""

    text: str
    calls: list[tuple[str, str, dict[str, Any]]]
    sent: int
    cached: int
    made: int
    finish: str


@dataclass
class Client:
    """One conversation."""

    url: str
    key: str = "dummy"
    model: str = "any"
    streamed: bool = False
    history: list[Any] = field(default_factory=list)
    pieces: list[float] = field(default_factory=list)

    async def ask(self, prompt: str | None = None) -> Turn:
        raise NotImplementedError

    def answer(self, turn: Turn, result: str) -> None:
        """Add the results of a turn's calls."""
        raise NotImplementedError

    async def work(self, prompt: str) -> list[Turn]:
        """Go on until the model calls no more tools."""
        turns = [await self.ask(prompt)]
        while turns[-1].calls:
            self.answer(turns[-1], f"result {len(turns)}")
            turns.append(await self.ask())
        return turns


class Chat(Client):
    async def ask(self, prompt: str | None = None) -> Turn:
        import openai

        if prompt is not None:
            self.history.append({"role": "user", "content": prompt})
        tools = [{"type": "function", "function": {"name": name, "parameters": form}} for name, form in TOOLS.items()]
        asked: dict[str, Any] = {"model": self.model, "messages": self.history, "tools": tools}
        async with openai.AsyncOpenAI(api_key=self.key, base_url=f"{self.url}/v1", max_retries=0) as client:
            if self.streamed:
                options = {"include_usage": True}
                async with client.chat.completions.stream(**asked, stream_options=options) as stream:
                    async for _ in stream:
                        pass
                    reply: Any = await stream.get_final_completion()
            else:
                reply = await client.chat.completions.create(**asked)
        message, usage = reply.choices[0].message, reply.usage
        self.history.append(message.model_dump(exclude_none=True, exclude={"parsed"}))
        calls = [(call.id, call.function.name, json.loads(call.function.arguments)) for call in message.tool_calls or ()]
        for call in self.history[-1].get("tool_calls", ()):
            call["function"].pop("parsed_arguments", None)
        cached = usage.prompt_tokens_details.cached_tokens
        finish = reply.choices[0].finish_reason
        return Turn(message.content or "", calls, usage.prompt_tokens, cached, usage.completion_tokens, finish)

    def answer(self, turn: Turn, result: str) -> None:
        self.history += [{"role": "tool", "tool_call_id": call_id, "content": result} for call_id, _, _ in turn.calls]


class Responses(Client):
    async def ask(self, prompt: str | None = None) -> Turn:
        import openai

        if prompt is not None:
            self.history.append({"role": "user", "content": prompt})
        tools: list[Any] = [{"type": "function", "name": name, "parameters": form} for name, form in TOOLS.items()]
        tools.append({"type": "custom", "name": "apply_patch", "description": "a tool only OpenAI's models know"})
        asked: dict[str, Any] = {"model": self.model, "input": self.history, "tools": tools, "store": False}
        async with openai.AsyncOpenAI(api_key=self.key, base_url=f"{self.url}/v1", max_retries=0) as client:
            if self.streamed:
                async with client.responses.stream(**asked) as stream:
                    async for _ in stream:
                        pass
                    reply: Any = await stream.get_final_response()
            else:
                reply = await client.responses.create(**asked)
        calls = []
        for item in reply.output:
            self.history.append(item.model_dump(exclude_none=True, exclude={"parsed_arguments", "status"}, warnings=False))
            if item.type == "function_call":
                calls.append((item.call_id, item.name, json.loads(item.arguments)))
        for item in self.history:
            for part in item["content"] if isinstance(item.get("content"), list) else ():
                part.pop("parsed", None)
        usage = reply.usage
        cached = usage.input_tokens_details.cached_tokens
        return Turn(reply.output_text, calls, usage.input_tokens, cached, usage.output_tokens, reply.status)

    def answer(self, turn: Turn, result: str) -> None:
        self.history += [{"type": "function_call_output", "call_id": call_id, "output": result} for call_id, _, _ in turn.calls]


class Messages(Client):
    async def ask(self, prompt: str | None = None) -> Turn:
        import anthropic

        if prompt is not None:
            self.history.append({"role": "user", "content": prompt})
        tools = [{"name": name, "input_schema": form} for name, form in TOOLS.items()]
        asked: dict[str, Any] = {"model": self.model, "max_tokens": 32000, "messages": self.history, "tools": tools}
        async with anthropic.AsyncAnthropic(api_key=self.key, base_url=self.url, max_retries=0, timeout=60) as client:
            if self.streamed:
                async with client.messages.stream(**asked) as stream:
                    async for _ in stream:
                        pass
                    reply: Any = await stream.get_final_message()
            else:
                reply = await client.messages.create(**asked)
        self.history.append({"role": "assistant", "content": [_block(block) for block in reply.content]})
        calls = [(block.id, block.name, block.input) for block in reply.content if block.type == "tool_use"]
        text = "".join(block.text for block in reply.content if block.type == "text")
        usage = reply.usage
        cached = usage.cache_read_input_tokens or 0
        return Turn(text, calls, usage.input_tokens + cached, cached, usage.output_tokens, reply.stop_reason)

    def answer(self, turn: Turn, result: str) -> None:
        blocks = [{"type": "tool_result", "tool_use_id": call_id, "content": result} for call_id, _, _ in turn.calls]
        self.history.append({"role": "user", "content": blocks})


def _block(block: Any) -> Any:
    kept = {"text": ("type", "text"), "tool_use": ("type", "id", "name", "input"), "thinking": ("type", "thinking", "signature")}
    found = block.model_dump()
    return {name: found[name] for name in kept[block.type]}


class Gemini(Client):
    async def ask(self, prompt: str | None = None) -> Turn:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return await self._ask(prompt)

    async def _ask(self, prompt: str | None) -> Turn:
        from google import genai
        from google.genai import types

        if prompt is not None:
            self.history.append(types.Content(role="user", parts=[types.Part(text=prompt)]))
        functions = [types.FunctionDeclaration(name=name, parameters_json_schema=form) for name, form in TOOLS.items()]
        config = types.GenerateContentConfig(
            tools=[types.Tool(function_declarations=functions)],
            automatic_function_calling=types.AutomaticFunctionCallingConfig(disable=True),
        )
        client = genai.Client(api_key=self.key, http_options={"base_url": self.url})
        asked: dict[str, Any] = {"model": self.model, "contents": self.history, "config": config}
        try:
            if self.streamed:
                replies = [reply async for reply in await client.aio.models.generate_content_stream(**asked)]
            else:
                replies = [await client.aio.models.generate_content(**asked)]
        finally:
            await client.aio.aclose()
        parts = [part for reply in replies for part in reply.candidates[0].content.parts or ()]
        self.history.append(types.Content(role="model", parts=[part for part in parts if part.text or part.function_call]))
        found = [part.function_call for part in parts if part.function_call]
        calls = [(call.id or "", call.name, dict(call.args or {})) for call in found]
        text = "".join(part.text for part in parts if part.text and not part.thought)
        usage, last = replies[-1].usage_metadata, replies[-1].candidates[0]
        cached = usage.cached_content_token_count or 0
        made = (usage.candidates_token_count or 0) + (usage.thoughts_token_count or 0)
        return Turn(text, calls, usage.prompt_token_count, cached, made, last.finish_reason.value)

    def answer(self, turn: Turn, result: str) -> None:
        from google.genai import types

        parts = [
            types.Part(function_response=types.FunctionResponse(id=call_id or None, name=name, response={"output": result}))
            for call_id, name, _ in turn.calls
        ]
        self.history.append(types.Content(role="user", parts=parts))


CLIENTS = {"chat": Chat, "responses": Responses, "messages": Messages, "gemini": Gemini}
FINISH = {
    "chat": ("tool_calls", "stop"),
    "responses": ("completed", "completed"),
    "messages": ("tool_use", "end_turn"),
    "gemini": ("STOP", "STOP"),
}
"""How an answer with calls ends, and one without."""
