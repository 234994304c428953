"""A real Ray cluster of three nodes, each in a network namespace of its own, that can be killed, frozen and cut off."""

from __future__ import annotations

import contextlib
import itertools
import os
import secrets
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from support.command import ROOT, clean_environment
from support.server import FakeServer

HEALTH = {
    "RAY_health_check_initial_delay_ms": "1000",
    "RAY_health_check_period_ms": "1000",
    "RAY_health_check_timeout_ms": "3000",
    "RAY_health_check_failure_threshold": "4",
    "RAY_raylet_start_wait_time_s": "60",
}
"""Ray notices a lost node within some ten seconds instead of half a minute."""
_START_S = 180
_LAST_LINES = 15
_numbers = itertools.count()
_STARTS = 3
"""Ray gives up a start after a while, which on a busy computer is no fault of anybody's."""


def namespaces_work() -> bool:
    """Whether this process may make network namespaces."""
    if os.geteuid() or not shutil.which("ip"):
        return False
    name = f"tb{os.getpid()}probe"
    made = subprocess.run(["ip", "netns", "add", name], capture_output=True, check=False).returncode == 0
    if made:
        subprocess.run(["ip", "netns", "del", name], capture_output=True, check=False)
    return made


class RayNetwork:
    """Three nodes on a bridge; the first is the head, and where drivers run."""

    def __init__(self, nodes: int = 3) -> None:
        self.count = nodes
        # Names and a network of our own, so that two of these can be up at once, and one after another.
        number = next(_numbers)
        self.tag = f"t{os.getpid() % 100_000}{number % 100:02}"
        self.net = f"10.{78 + os.getpid() % 100}.{(os.getpid() // 100 + number) % 250}"
        self.folder = Path(tempfile.mkdtemp(prefix="tiebreak-ray-"))
        self.token = self.folder / "token"

    @property
    def host(self) -> str:
        """The address at which this process can be reached from the nodes."""
        return f"{self.net}.1"

    def address(self, node: int) -> str:
        return f"{self.net}.{10 + node}"

    def __enter__(self) -> RayNetwork:
        self.token.write_text(secrets.token_hex(16))
        self.token.chmod(0o600)
        try:
            self._wire()
            # One after another: nodes on one file system choose their sockets' names by what is there already.
            for node in range(self.count):
                self._start_ray(node)
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        for node in range(self.count):
            self.kill(node)
            self._ip("netns", "del", self._name(node), check=False)
        self._ip("link", "del", self._bridge, check=False)
        shutil.rmtree(self.folder, ignore_errors=True)

    def environment(self, **more: str) -> dict[str, str]:
        """What a driver needs to know; the nodes know the same, but no keys."""
        ray = {
            "RAY_AUTH_MODE": "token",
            "RAY_AUTH_TOKEN_PATH": str(self.token),
            "RAY_USAGE_STATS_ENABLED": "0",
            "RAY_ADDRESS": f"{self.address(0)}:6379",
            "PYTHONPATH": str(ROOT),
        }
        return clean_environment(**ray, **HEALTH, **more)

    def start(self, *arguments: str, cwd: Path, **environment: str) -> subprocess.Popen[str]:
        """Start tiebreak on the head node and leave it running."""
        command = ["ip", "netns", "exec", self._name(0), sys.executable, str(ROOT / "run_benchmarks.py"), *arguments]
        return subprocess.Popen(
            command,
            cwd=cwd,
            env=self.environment(**environment),
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )

    def run(self, *arguments: str, cwd: Path, timeout: float = 120, **environment: str) -> tuple[int, str]:
        """Run tiebreak on the head node to its end: its code and what it printed."""
        process = self.start(*arguments, cwd=cwd, **environment)
        try:
            out, _ = process.communicate(timeout=timeout)
        except BaseException:
            os.killpg(process.pid, signal.SIGKILL)
            process.communicate()
            raise
        return process.returncode, out

    def last_words(self, process: subprocess.Popen[str], out: str) -> str:
        """What a driver said last, and Ray in it: where Ray ends the process, the driver itself has no word."""
        logs = (self.folder / "ray").glob(f"session_*/logs/python-core-driver-*_{process.pid}.log")
        lines = [line for log in logs for line in log.read_text(errors="replace").splitlines()[-_LAST_LINES:]]
        return "\n".join((out[-6000:], f"--- Ray in the driver, which ended with {process.returncode}:", *lines))

    # --- faults

    def kill(self, node: int) -> None:
        """Every process of a node is gone at once."""
        for _ in range(3):
            self._signal(node, signal.SIGKILL)

    def freeze(self, node: int) -> None:
        self._signal(node, signal.SIGSTOP)

    def thaw(self, node: int) -> None:
        self._signal(node, signal.SIGCONT)

    def cut(self, node: int) -> None:
        self._ip("link", "set", self._cable(node), "down")

    def mend(self, node: int) -> None:
        self._ip("link", "set", self._cable(node), "up")

    def kill_worker(self, node: int) -> bool:
        """The run's worker on a node is gone; whether there was one."""
        workers = [pid for pid in self.pids(node) if "WorkerActor" in _title(pid)]
        for pid in workers:
            _send(pid, signal.SIGKILL)
        return bool(workers)

    def bring_back(self, node: int) -> None:
        """A node whose Ray is gone, or has been declared dead and left, is started anew."""
        if not any("raylet" in _title(pid).split(" ")[0] for pid in self.pids(node)):
            self.kill(node)
            self._start_ray(node)

    def pids(self, node: int) -> list[int]:
        """Every process of a node."""
        listed = subprocess.run(["ip", "netns", "pids", self._name(node)], capture_output=True, text=True, check=False)
        return [int(pid) for pid in listed.stdout.split()]

    # --- how it is made

    @property
    def _bridge(self) -> str:
        return f"{self.tag}br"

    def _name(self, node: int) -> str:
        return f"{self.tag}n{node}"

    def _cable(self, node: int) -> str:
        return f"{self.tag}v{node}"

    def _wire(self) -> None:
        self._ip("link", "add", self._bridge, "type", "bridge")
        self._ip("addr", "add", f"{self.host}/24", "dev", self._bridge)
        self._ip("link", "set", self._bridge, "up")
        for node in range(self.count):
            inside = ("-n", self._name(node))
            self._ip("netns", "add", self._name(node))
            self._ip("link", "add", self._cable(node), "type", "veth", "peer", "name", "eth0", "netns", self._name(node))
            self._ip("link", "set", self._cable(node), "master", self._bridge, "up")
            self._ip(*inside, "addr", "add", f"{self.address(node)}/24", "dev", "eth0")
            self._ip(*inside, "link", "set", "eth0", "up")
            self._ip(*inside, "link", "set", "lo", "up")
            self._ip(*inside, "route", "add", "default", "via", self.host)

    def _start_ray(self, node: int) -> None:
        ray = str(Path(sys.executable).parent / "ray")
        place = ["--head", "--port=6379", "--include-dashboard=false", f"--temp-dir={self.folder / 'ray'}"]
        if node:
            place = [f"--address={self.address(0)}:6379"]
        command = ["ip", "netns", "exec", self._name(node), ray, "start", *place]
        command += [f"--node-ip-address={self.address(node)}", "--num-cpus=0", "--disable-usage-stats"]
        command += ["--object-store-memory=100000000"]
        environment = self.environment()
        del environment["RAY_ADDRESS"]
        log = self.folder / f"start-{node}.log"
        for _ in range(_STARTS):
            with log.open("w") as file:
                done = subprocess.run(command, env=environment, stdout=file, stderr=file, check=False, timeout=_START_S)
            if done.returncode == 0:
                return
            self.kill(node)
        raise AssertionError(log.read_text())

    def _signal(self, node: int, number: signal.Signals) -> None:
        for pid in self.pids(node):
            _send(pid, number)

    def _ip(self, *words: str, check: bool = True) -> None:
        subprocess.run(["ip", *words], check=check, capture_output=True, timeout=30)


class PrintedNetwork(RayNetwork):
    """Nodes that are made by the very lines of docs/cluster.md; each machine has a home, and so a token, of its own."""

    def __init__(self, head: str, other: str, **environment: str) -> None:
        super().__init__(nodes=2)
        self.lines = (head, other)
        self.environment_of_shells = environment
        """What is set in every shell: also when a node's Ray is started."""
        self.server = FakeServer(host=self.host)

    def home(self, node: int) -> Path:
        """Where the token of a machine is."""
        return self.folder / f"home-{node}"

    def shell(self, node: int, line: str, *, cwd: Path, timeout: float = _START_S, **environment: str) -> tuple[int, str]:
        """Type a line on a machine: its exit code and what was said."""
        # All machines share this one's disk: Ray's folder is kept apart from the one of whoever else uses Ray here.
        ray = {
            "RAY_AUTH_MODE": "token",
            "RAY_TMPDIR": str(self.folder),
            "RAY_USAGE_STATS_ENABLED": "0",
            "HOME": str(self.home(node)),
        }
        with tempfile.TemporaryFile("w+") as said:
            done = subprocess.run(
                ["ip", "netns", "exec", self._name(node), "bash", "-c", line],
                cwd=cwd, env=clean_environment(**{**ray, **HEALTH, **self.environment_of_shells, **environment}),
                stdout=said, stderr=subprocess.STDOUT, check=False, timeout=timeout,
            )  # fmt: skip
            said.seek(0)
            return done.returncode, said.read()

    def _wire(self) -> None:
        super()._wire()
        self.server.__enter__()
        self.environment_of_shells |= self.server.environment()

    def __exit__(self, *_: object) -> None:
        self.server.__exit__()
        super().__exit__()

    def _start_ray(self, node: int) -> None:
        self.home(node).mkdir(exist_ok=True)
        if node:
            token = self.home(node) / ".ray" / "auth_token"
            token.parent.mkdir(exist_ok=True)
            shutil.copyfile(self.home(0) / ".ray" / "auth_token", token)
        else:
            code, said = self.shell(0, "ray get-auth-token --generate", cwd=self.folder)
            assert code == 0, said
        line = self.lines[1].replace("HEAD", self.address(0)) if node else self.lines[0]
        for _ in range(_STARTS):
            code, said = self.shell(node, line, cwd=self.folder)
            if code == 0:
                return
            self.kill(node)
        raise AssertionError(said)


def _send(pid: int, number: signal.Signals) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, number)


def _title(pid: int) -> str:
    """The command line of a process; of one that is gone, nothing."""
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
    except OSError:
        return ""


def wait_until(true, *, seconds: float) -> bool:
    """Look ten times a second whether something has come true."""
    ends = time.monotonic() + seconds
    while time.monotonic() < ends:
        if true():
            return True
        time.sleep(0.1)
    return False
