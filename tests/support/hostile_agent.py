"""Agents that mean no good: each runs one program in the sandbox, with the gateway in reach."""

from __future__ import annotations

from typing import ClassVar

from tiebreak.core.protocols import TaskContext
from tiebreak.core.sample import Sample
from tiebreak.core.trial import Output
from tiebreak.core.work import Command

_HEAD = r"""
import gzip, http.client, json, socket, sys, time
base, model, key = sys.argv[1:4]
host, port = base.removeprefix("http://").rsplit(":", 1)

def body(**more):
    message = {"role": "user", "content": "hi"}
    return json.dumps({"model": model, "messages": [message], **more}).encode()

def post(data, read=True, path="/v1/chat/completions", **headers):
    connection = http.client.HTTPConnection(host, int(port), timeout=30)
    connection.request("POST", path, data, {"Authorization": "Bearer " + key, "Content-Type": "application/json", **headers})
    if not read:
        return connection
    response = connection.getresponse()
    answer = response.status, response.read()
    connection.close()
    return answer
"""


class Hostile:
    """Runs its program once."""

    uses_gateway: ClassVar[bool] = True
    program: ClassVar[str] = ""

    async def run(self, sample: Sample, context: TaskContext) -> Output:
        """Whatever the program prints is what the agent says."""
        gateway = context.gateway
        argv = ("python3", "-c", _HEAD + self.program, gateway.base_url, gateway.model, gateway.key)
        finished = await context.workspace.run(Command(argv=argv, gateway=True, timeout_s=90))
        await context.review(finished.output)
        return Output(text=finished.output)


class HangsUp(Hostile):
    """Reads the first bytes of six streams and leaves."""

    program = r"""
for _ in range(6):
    connection = post(body(stream=True), read=False)
    connection.sock.recv(40)
    connection.close()
"""


class Spends(Hostile):
    """Asks for very long answers, several of them, of other models, at the dearest rate, with the provider's own search."""

    program = r"""
more = {"max_tokens": 100_000, "n": 5, "models": ["dear"], "fallbacks": ["dear"], "service_tier": "priority", "best_of": 9}
tools = [{"type": "function", "function": {"name": "f", "parameters": {}}}, {"type": "web_search"}]
print(post(body(**more, tools=tools, web_search_options={}))[0])
"""


class Garbles(Hostile):
    """Sends what is no request, in every form."""

    program = r"""
for data in (b"[1,2]", b"3", b"null", b"{", b'"x"', b"\xff\xfe", b"[" * 100_000, b""):
    print(post(data)[0])
print(post(gzip.compress(b"x" * 1000)[:40], **{"Content-Encoding": "gzip"})[0])
"""


class Starves(Hostile):
    """Opens connections and says nothing, and sends bodies that grow a thousand times."""

    program = r"""
silent = []
for _ in range(300):
    one = socket.create_connection((host, int(port)), timeout=10)
    one.send(b"POST /v1/chat/completions HTTP/1.1\r\n")
    silent.append(one)
time.sleep(0.5)
for one in silent:
    one.close()
time.sleep(0.5)
bomb = gzip.compress(b"\0" * (60 << 20), 9)
print(len(bomb), [post(bomb, **{"Content-Encoding": "gzip"})[0] for _ in range(3)])
print(post(body())[0])
"""


class Keyless(Hostile):
    """Tries the gateway without the trial's key."""

    program = r"""
key = "dummy"
print(post(body())[0])
"""
