"""What of a request in an agent's own words is passed on to the provider.

A provider of the agent's own dialect is sent the agent's body, so that nothing is lost in translation. But a body can
also name other models, dearer tiers, several answers at once, or tools that the provider runs on the network: the
contestant would then be another, or reach what its sandbox keeps it from. So only what is known is passed on.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from tiebreak.wire import chat, gemini, messages, responses
from tiebreak.wire.writing import ENCODER

_CHAT = """
    model messages tools tool_choice parallel_tool_calls functions function_call temperature top_p top_k min_p max_tokens
    max_completion_tokens stop seed stream stream_options response_format reasoning_effort reasoning verbosity
    frequency_penalty presence_penalty repetition_penalty logit_bias logprobs top_logprobs user prompt_cache_key
    safety_identifier thinking enable_thinking chat_template_kwargs
"""
_RESPONSES = """
    model input instructions tools tool_choice parallel_tool_calls temperature top_p max_output_tokens reasoning text include
    store stream stream_options truncation prompt_cache_key prompt_cache_retention metadata client_metadata user
    safety_identifier top_logprobs
"""
_MESSAGES = """
    model messages system max_tokens tools tool_choice temperature top_k top_p stop_sequences stream thinking metadata
    output_config output_format context_management cache_control
"""
_GEMINI = "contents systemInstruction tools toolConfig generationConfig safetySettings labels"
_FIELDS: Mapping[str, frozenset[str]] = {
    chat.FORMAT: frozenset(_CHAT.split()),
    responses.FORMAT: frozenset(_RESPONSES.split()),
    messages.FORMAT: frozenset(_MESSAGES.split()),
    gemini.FORMAT: frozenset(_GEMINI.split()),
}
"""Fields of a body, by dialect. In Google's, `system_instruction` and the like are spelled as in the list."""
_RUN_BY_AGENTS = {
    chat.FORMAT: ("function", "custom"),
    responses.FORMAT: ("function", "custom", "local_shell", "apply_patch"),
    messages.FORMAT: ("custom", "bash_", "text_editor_", "computer_", "memory_"),
}
"""Types of tools that the agent itself carries out, or what their names begin with."""


def passed_on(dialect: str, body: bytes) -> tuple[bytes, list[str]]:
    """The body without what is not passed on, and the names of that."""
    request = msgspec.json.decode(body)
    known, left_out = _FIELDS[dialect], []
    for name in [name for name in request if _camel(name) not in known and name not in known]:
        del request[name]
        left_out.append(name)
    left_out += _without_tools(request, _gemini_tool if dialect == gemini.FORMAT else _typed_tool(dialect))
    left_out += _without_candidates(request)
    return (ENCODER.encode(request), left_out) if left_out else (body, [])


def _without_candidates(request: dict[str, Any]) -> list[str]:
    """Google's way to ask for several answers at once."""
    configs = [request.get(name) for name in ("generationConfig", "generation_config")]
    names = ("candidateCount", "candidate_count")
    return [name for config in configs if isinstance(config, dict) for name in names if config.pop(name, None) is not None]


def _camel(name: str) -> str:
    first, *rest = name.split("_")
    return first + "".join(word.capitalize() for word in rest)


Check = Callable[[dict[str, Any]], tuple[dict[str, Any] | None, list[str]]]
"""A tool as it is passed on, None when it is not, and the names of what was left out."""


def _without_tools(request: dict[str, Any], check: Check) -> list[str]:
    tools = request.get("tools")
    if not isinstance(tools, list):
        return []
    kept, left_out = [], []
    for tool in tools:
        passed, names = check(tool) if isinstance(tool, dict) else (None, ["a tool"])
        left_out += names
        if passed:
            kept.append(passed)
    if left_out:
        request["tools"] = kept
    return left_out


def _typed_tool(dialect: str) -> Check:
    def check(tool: dict[str, Any]) -> tuple[dict[str, Any] | None, list[str]]:
        kind = str(tool.get("type", _RUN_BY_AGENTS[dialect][0]))
        if any(kind == own or (own.endswith("_") and kind.startswith(own)) for own in _RUN_BY_AGENTS[dialect]):
            return tool, []
        return None, [f"the tool {kind[:50]}"]

    return check


def _gemini_tool(tool: dict[str, Any]) -> tuple[dict[str, Any] | None, list[str]]:
    own = {name: value for name, value in tool.items() if name in ("functionDeclarations", "function_declarations")}
    return own, [f"the tool {name[:50]}" for name in tool if name not in own]
