"""Models in a company's own cloud account: exact addresses, headers and signatures, against servers that check them."""

from __future__ import annotations

import contextlib
import hashlib
import hmac
import json
import re
from collections.abc import AsyncIterator
from urllib.parse import quote, unquote

import pytest
from aiohttp import web
from support.command import run
from support.packages import need_packages

from tiebreak.core.errors import FailureKind, ProviderError
from tiebreak.core.message import Finish, Message, Reply, TextPart, Tool, system, user
from tiebreak.core.model import ModelRef, Request
from tiebreak.core.protocols import Endpoint
from tiebreak.registry import Catalog, provider_class
from tiebreak.wire import converse

SECRET = "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY"


class Seen:
    """What a server was sent, and what it says."""

    def __init__(self, reply: object, status: int = 200) -> None:
        self.reply, self.status = reply, status
        self.requests: list[tuple[str, str, dict[str, str], bytes]] = []

    async def answer(self, request: web.Request) -> web.Response:
        body = await request.read()
        self.requests.append((request.method, request.raw_path, dict(request.headers), body))
        reply = self.reply(request, body) if callable(self.reply) else self.reply
        return web.json_response(reply, status=self.status)


@contextlib.asynccontextmanager
async def serving(seen: Seen) -> AsyncIterator[str]:
    app = web.Application()
    app.router.add_route("*", "/{path:.*}", seen.answer)
    runner = web.AppRunner(app)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    try:
        yield f"http://127.0.0.1:{runner.addresses[0][1]}"
    finally:
        await runner.cleanup()


async def ask(name: str, model: str, url: str, *, key: str = "", **request) -> Reply:
    provider = provider_class(name)(Endpoint(base_url=url, api_key=key))
    try:
        await provider.open(ModelRef(provider=name, name=model, label=f"{name}/{model}"))
        return await provider.generate(Request(model=model, messages=(system("Be brief."), user("?")), **request))
    finally:
        await provider.close()


# --- Azure ------------------------------------------------------------------------------------------


CHAT = {"choices": [{"message": {"role": "assistant", "content": "ready"}, "finish_reason": "stop"}]}


@pytest.mark.parametrize("place", ["", "/", "/openai/v1"])
async def test_azure_has_its_own_header_and_the_deployment_as_model(place):
    seen = Seen(CHAT)
    async with serving(seen) as url:
        assert (await ask("azure", "my-gpt", url + place, key="azure-key")).text == "ready"
    ((_, path, headers, body),) = seen.requests
    assert path == "/openai/v1/chat/completions"
    assert headers["api-key"] == "azure-key"
    assert "Authorization" not in headers
    assert json.loads(body)["model"] == "my-gpt"


async def test_azure_takes_a_token_as_bearer():
    seen = Seen(CHAT)
    async with serving(seen) as url:
        await ask("azure", "my-gpt", url, key="eyJ0eXAi.token.signed")
    assert seen.requests[0][2]["Authorization"] == "Bearer eyJ0eXAi.token.signed"
    assert "api-key" not in seen.requests[0][2]


async def test_azure_without_a_resource_says_what_to_set():
    with pytest.raises(ProviderError, match="set AZURE_OPENAI_ENDPOINT=https://<your resource>"):
        await ask("azure", "my-gpt", "", key="k")


@pytest.mark.parametrize(
    ("model", "set_already", "told"),
    [
        ("azure/my-gpt", {"AZURE_OPENAI_API_KEY": "k"}, "set AZURE_OPENAI_ENDPOINT=https://<resource>.openai.azure.com"),
        ("azure/my-gpt", {"AZURE_OPENAI_ENDPOINT": "https://r.openai.azure.com"}, "set AZURE_OPENAI_API_KEY"),
        ("vertex/gemini-2.5-flash", {}, "set GOOGLE_CLOUD_PROJECT, and run gcloud auth application-default login"),
        ("bedrock/amazon.nova-lite-v1:0", {}, "set AWS_BEARER_TOKEN_BEDROCK, or AWS_ACCESS_KEY_ID"),
        ("bedrock/amazon.nova-lite-v1:0", {"AWS_BEARER_TOKEN_BEDROCK": "k"}, "set AWS_REGION, as in AWS_REGION=eu-central-1"),
    ],
)
def test_what_is_missing_is_named_where_the_models_are(tmp_path, model, set_already, told):
    """Before anything is made or sent."""
    (tmp_path / "q.jsonl").write_text('{"input": "?", "target": "A"}\n')
    done = run("run", "--model", model, "--dataset", "q.jsonl", "--output", "out", "--yes", cwd=tmp_path, **set_already)
    assert done.returncode == 1
    assert told in " ".join((done.stdout + done.stderr).split())
    assert not (tmp_path / "out").exists()


# --- Vertex AI --------------------------------------------------------------------------------------


def service_account(folder, token_url: str) -> str:
    """A service account's file with a key made here."""
    from cryptography.hazmat.primitives import serialization
    from cryptography.hazmat.primitives.asymmetric import rsa

    key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    pem = key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()).decode()
    account = {
        **{"type": "service_account", "project_id": "p", "private_key_id": "1", "private_key": pem},
        **{"client_email": "me@p.iam.gserviceaccount.com", "client_id": "1", "token_uri": token_url},
    }
    (folder / "account.json").write_text(json.dumps(account))
    return str(folder / "account.json")


GEMINI = {"candidates": [{"content": {"role": "model", "parts": [{"text": "ready"}]}, "finishReason": "STOP"}]}
CLAUDE = {"content": [{"type": "text", "text": "ready"}], "stop_reason": "end_turn", "model": "claude"}


@pytest.fixture
async def vertex(tmp_path, monkeypatch):
    """A server that gives tokens and answers, and the address of a project there."""
    need_packages("google.auth", "requests")

    def reply(request: web.Request, body: bytes) -> object:
        if request.path == "/token":
            return {"access_token": f"token-{len(seen.requests)}", "expires_in": 3600, "token_type": "Bearer"}
        return GEMINI if "publishers/google" in request.path else CLAUDE

    seen = Seen(reply)
    async with serving(seen) as url:
        monkeypatch.setenv("GOOGLE_APPLICATION_CREDENTIALS", service_account(tmp_path, f"{url}/token"))
        yield seen, f"{url}/v1/projects/p/locations/europe-west4"


async def test_vertex_fetches_a_token_once_and_asks_for_gemini(vertex):
    seen, url = vertex
    provider = provider_class("vertex")(Endpoint(base_url=url, api_key="p"))
    await provider.open(ModelRef(provider="vertex", name="gemini-2.5-flash", label="m"))
    for _ in range(2):
        reply = await provider.generate(Request(model="gemini-2.5-flash", messages=(user("?"),)))
        assert reply.text == "ready"
    await provider.close()
    token, *asked = seen.requests
    assert token[1] == "/token"
    assert len(asked) == 2
    for _, path, headers, body in asked:
        assert path == "/v1/projects/p/locations/europe-west4/publishers/google/models/gemini-2.5-flash:generateContent"
        assert headers["Authorization"] == "Bearer token-1"
        assert "contents" in json.loads(body)


async def test_vertex_asks_claude_in_claudes_own_format(vertex):
    seen, url = vertex
    assert (await ask("vertex", "claude-sonnet-4-5@20250929", url, settings={"max_tokens": 9})).text == "ready"
    _, path, _, body = seen.requests[-1]
    assert unquote(path).endswith("/publishers/anthropic/models/claude-sonnet-4-5@20250929:rawPredict")
    sent = json.loads(body)
    assert (sent["anthropic_version"], sent["max_tokens"], sent["system"]) == ("vertex-2023-10-16", 9, "Be brief.")
    assert "model" not in sent


async def test_vertex_refused_credentials_are_told_without_the_key(vertex):
    seen, url = vertex
    seen.status = 401
    with pytest.raises(ProviderError, match="Google Cloud refused the credentials") as told:
        await ask("vertex", "gemini-2.5-flash", url)
    assert told.value.kind is FailureKind.AUTH
    assert "PRIVATE KEY" not in str(told.value)


async def test_vertex_without_credentials_says_how_to_get_them(tmp_path, monkeypatch):
    need_packages("google.auth")
    monkeypatch.setenv("GOOGLE_APPLICATION_CREDENTIALS", str(tmp_path / "none.json"))
    with pytest.raises(ProviderError, match="gcloud auth application-default login"):
        await ask("vertex", "gemini-2.5-flash", "http://127.0.0.1:9/v1")


@pytest.mark.parametrize(("location", "host"), [("", "aiplatform"), ("us-east5", "us-east5-aiplatform")])
def test_vertex_is_reached_where_the_project_is(location, host, monkeypatch):
    monkeypatch.setenv("GOOGLE_CLOUD_LOCATION", location)
    provider = provider_class("vertex")(Endpoint(api_key="my-project"))
    assert provider.base_url == f"https://{host}.googleapis.com/v1/projects/my-project/locations/{location or 'global'}"


# --- Bedrock ----------------------------------------------------------------------------------------


ANSWER = {
    "output": {"message": {"role": "assistant", "content": [{"text": "ready"}]}},
    "stopReason": "end_turn",
    "usage": {"inputTokens": 11, "outputTokens": 3, "cacheReadInputTokens": 100, "cacheWriteInputTokens": 7},
    "metrics": {"latencyMs": 5},
}
MODEL = "eu.anthropic.claude-sonnet-4-5-20250929-v1:0"


@pytest.fixture
def region(monkeypatch):
    for name in ("AWS_BEARER_TOKEN_BEDROCK", "AWS_PROFILE", "AWS_SESSION_TOKEN"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AWS_REGION", "eu-central-1")
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "AKIDEXAMPLE")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", SECRET)
    monkeypatch.setenv("AWS_CONFIG_FILE", "/nowhere")
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", "/nowhere")
    return monkeypatch


async def test_bedrock_with_an_api_key_sends_it_as_bearer(region):
    region.setenv("AWS_BEARER_TOKEN_BEDROCK", "bedrock-key")
    seen = Seen(ANSWER)
    async with serving(seen) as url:
        reply = await ask("bedrock", MODEL, url, settings={"max_tokens": 9, "temperature": 0})
    assert (reply.text, reply.model) == ("ready", MODEL)
    assert (reply.usage.input_tokens, reply.usage.cached_tokens, reply.usage.cache_write_tokens) == (118, 100, 7)
    ((method, path, headers, body),) = seen.requests
    assert (method, path) == ("POST", f"/model/{quote(MODEL, safe='')}/converse")
    assert headers["Authorization"] == "Bearer bedrock-key"
    assert json.loads(body) == {
        "messages": [{"role": "user", "content": [{"text": "?"}]}],
        "system": [{"text": "Be brief."}],
        "inferenceConfig": {"maxTokens": 9, "temperature": 0},
    }


@pytest.mark.parametrize("session_token", ["", "a-session"])
async def test_bedrock_signs_with_the_accounts_credentials(region, session_token):
    """The signature is computed here again, from what arrived alone."""
    need_packages("botocore")
    if session_token:
        region.setenv("AWS_SESSION_TOKEN", session_token)
    seen = Seen(ANSWER)
    async with serving(seen) as url:
        assert (await ask("bedrock", MODEL, url)).text == "ready"
    method, path, headers, body = seen.requests[0]
    assert headers.get("X-Amz-Security-Token", "") == session_token
    found = re.fullmatch(
        r"AWS4-HMAC-SHA256 Credential=AKIDEXAMPLE/(\d{8})/eu-central-1/bedrock/aws4_request, "
        r"SignedHeaders=([a-z0-9;-]+), Signature=([0-9a-f]{64})",
        headers["Authorization"],
    )
    assert found is not None
    day, names, signature = found.groups()
    assert "host" in names.split(";")
    given = {name.lower(): value for name, value in headers.items()}
    canonical = "\n".join(
        [
            method,
            quote(path, safe="/~"),
            "",
            *(f"{name}:{given[name].strip()}" for name in names.split(";")),
            "",
            names,
            hashlib.sha256(body).hexdigest(),
        ]
    )
    scope = f"{day}/eu-central-1/bedrock/aws4_request"
    told = f"AWS4-HMAC-SHA256\n{given['x-amz-date']}\n{scope}\n{hashlib.sha256(canonical.encode()).hexdigest()}"
    key = f"AWS4{SECRET}".encode()
    for part in (day, "eu-central-1", "bedrock", "aws4_request", told):
        key = hmac.new(key, part.encode(), hashlib.sha256).digest()
    assert key.hex() == signature


async def test_bedrock_without_region_or_credentials_says_what_to_set(region):
    need_packages("botocore")
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        region.delenv(name)
    region.setenv("AWS_EC2_METADATA_DISABLED", "true")
    async with serving(Seen(ANSWER)) as url:
        with pytest.raises(ProviderError, match="set AWS_BEARER_TOKEN_BEDROCK, or AWS_ACCESS_KEY_ID"):
            await ask("bedrock", MODEL, url)
    region.delenv("AWS_REGION")
    with pytest.raises(ProviderError, match="set AWS_REGION, as in AWS_REGION=eu-central-1"):
        await ask("bedrock", MODEL, "")


async def test_bedrock_errors_never_show_the_secret(region):
    need_packages("botocore")
    seen = Seen({"message": f"The security token {SECRET} is invalid"}, status=403)
    async with serving(seen) as url:
        with pytest.raises(ProviderError) as told:
            await ask("bedrock", MODEL, url)
    assert told.value.kind is FailureKind.AUTH
    assert SECRET not in str(told.value)


TOOL = Tool(name="weather", description="Tells it.", parameters={"type": "object", "properties": {"city": {"type": "string"}}})


def test_converse_is_as_amazons_own_client_has_it():
    """botocore's model of the service accepts every request, and has every field we read."""
    need_packages("botocore")
    import base64

    from botocore.session import Session
    from botocore.validate import ParamValidator
    from support.media import pdf, png

    from tiebreak.core.media import media_part, with_bytes

    shape = Session().get_service_model("bedrock-runtime").operation_model("Converse").input_shape
    reply = converse.decode(json.dumps(USED).encode())
    shown = Message(role="user", parts=(media_part(png(), name="a.png"), media_part(pdf(), name="a_b.pdf"), TextPart("?")))
    answered = Message(role="tool", parts=(TextPart("sunny"),), tool_call_id="t1", failed=True)
    talk = with_bytes([system("Be brief."), shown, reply.as_message(), answered])
    settings = {"max_tokens": 5, "temperature": 0.5, "top_p": 0.9, "stop": "X", "reasoning_effort": 1024}
    body = converse.encode(Request(model="m", messages=talk, tools=(TOOL,), tool_choice="required", settings=settings))

    def with_raw_bytes(value):
        if isinstance(value, dict):
            raw = {"bytes", "redactedContent"}
            return {k: base64.b64decode(v) if k in raw else with_raw_bytes(v) for k, v in value.items()}
        return [with_raw_bytes(one) for one in value] if isinstance(value, list) else value

    assert ParamValidator().validate({"modelId": "m", **with_raw_bytes(body)}, shape).generate_report() == ""
    assert [turn["role"] for turn in body["messages"]] == ["user", "assistant", "user"]
    assert body["messages"][0]["content"][1]["document"]["name"] == "a b pdf"
    assert body["messages"][2]["content"][0]["toolResult"]["status"] == "error"
    assert body["toolConfig"]["toolChoice"] == {"any": {}}
    output = Session().get_service_model("bedrock-runtime").operation_model("Converse").output_shape
    assert {"output", "stopReason", "usage", "metrics"} <= set(output.members)
    stops = set(output.members["stopReason"].enum)
    assert stops >= {"end_turn", "tool_use", "max_tokens", "stop_sequence", "guardrail_intervened", "content_filtered"}


USED = {
    "output": {
        "message": {
            "role": "assistant",
            "content": [
                {"reasoningContent": {"reasoningText": {"text": "Hm.", "signature": "c2ln"}}},
                {"reasoningContent": {"redactedContent": "aGlk"}},
                {"text": "Let me see."},
                {"toolUse": {"toolUseId": "t1", "name": "weather", "input": {"city": "Paris"}}},
            ],
        }
    },
    "stopReason": "tool_use",
}


def test_converse_replies_are_read():
    reply = converse.decode(json.dumps(USED).encode())
    assert (reply.text, reply.thinking, reply.finish) == ("Let me see.", "Hm.", Finish.TOOL)
    assert [(call.id, call.name, call.parsed()) for call in reply.tool_calls] == [("t1", "weather", {"city": "Paris"})]
    blocked = {"output": {"message": {"content": []}}, "stopReason": "guardrail_intervened"}
    assert converse.decode(json.dumps(blocked).encode()).finish is Finish.FILTERED
    with pytest.raises(ProviderError):
        converse.decode(b'{"output": 3}')


def test_names_with_a_date_are_names():
    model = Catalog().resolve("vertex/claude-sonnet-4-5@20250929@temperature=0")
    assert (model.name, model.settings) == ("claude-sonnet-4-5@20250929", {"temperature": 0})
