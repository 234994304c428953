"""Calling the work in another process: data stays data, and the work reaches nothing of the tests."""

from __future__ import annotations

import collections
import json
import math
import socket
import struct
import subprocess
import sys
import threading
from datetime import date, datetime, timedelta
from decimal import Decimal
from fractions import Fraction
from pathlib import Path

import pytest

import tiebreak
from tiebreak.sandbox import remote

SCRIPT = Path(tiebreak.__file__).parent / "sandbox" / "remote.py"
WORK = """
import threading

def same(value): return value
def kinds(value): return repr(type(value)), repr(value)
def fill(rows, table=None):
    rows.append([1]); rows[0].append(2)
    if table is not None: table["b"] = table.pop("a")
def raises(kind, *args): raise kind(*args)
def calls(function, *args): return function(*args)
def in_thread(function):
    thread = threading.Thread(target=function); thread.start(); thread.join()
def reach(thing, name): return getattr(thing, name)
def change(thing, name, value): setattr(thing, name, value)
def total(numbers): return sum(numbers)

class WorkError(ValueError):
    def __init__(self, message, place):
        super().__init__(message); self.place = place
    def __str__(self): return f"at {self.place}"
def fails(): raise WorkError("no", 7)
def caught(function):
    try: return function()
    except BaseException as error: return type(error).__name__

class Counter:
    def __init__(self, start): self.value = start
    def __len__(self): return self.value
    def __eq__(self, other): return isinstance(other, Counter) and self.value == other.value
    def __add__(self, number): return Counter(self.value + number)
    def __enter__(self): return self
    def __exit__(self, *_): self.value = -1
    def __iter__(self): return iter(range(self.value))

class Everything:
    def _yes(self, *_): return True
    def _same(self, *_): return self
    __eq__ = __gt__ = __lt__ = __ge__ = __le__ = __contains__ = _yes
    __sub__ = __rsub__ = __add__ = _same
    __abs__ = __round__ = __float__ = __int__ = lambda *_: 0
    __hash__ = lambda self: 0
class Text(str):
    __eq__ = lambda *_: True
    __hash__ = str.__hash__
class Number(int):
    __eq__ = lambda *_: True
    __hash__ = int.__hash__
"""


@pytest.fixture
def peer(tmp_path):
    (tmp_path / "work.py").write_text(WORK)
    ours, theirs = socket.socketpair()
    command = [sys.executable, "-I", "-B", str(SCRIPT), str(theirs.fileno())]
    with theirs:
        process = subprocess.Popen(command, pass_fds=(theirs.fileno(),), cwd=tmp_path)
    peer = remote.Peer(ours, "tests", guarded=True)
    peer.start()
    yield peer
    peer.close()
    process.wait(20)
    ours.close()


@pytest.fixture
def work(peer):
    return peer.request("import", "work")


Point = collections.namedtuple("Point", "x y")
VALUES = [
    *(None, True, 0, -1, 10**40, -(2**63), 1.5, -0.0, math.inf, "", "é\ud800\0"),
    *(b"\0\xff", bytearray(b"x"), 1 + 2j, ..., range(1, 9, 2)),
    *([1, [2, (3,)]], (1, (2,)), {1, 2}, frozenset({"a"}), {"b": 1, "a": {2: [None]}, (1, 2): 3}, Point(1, 2)),
    *(Decimal("0.10"), Fraction(1, 3), datetime(2026, 1, 2, 3, 4, 5, 6), date(2026, 1, 2), timedelta(days=1, microseconds=5)),
]  # fmt: skip


@pytest.mark.parametrize("value", VALUES, ids=[f"{n}-{type(value).__name__}" for n, value in enumerate(VALUES)])
def test_data_goes_there_and_back(work, value):
    """As what it is, in the order it has."""
    found = work.same(value)
    assert found == value and repr(found) == repr(value)
    assert type(found) is type(value) or isinstance(value, Point)
    kind, shown = work.kinds(value)
    assert isinstance(value, Point) or (kind, shown) == (repr(type(value)), repr(value))


def test_what_a_call_changes_is_changed_here(work):
    """Lists and dicts, also inside of others, and the very same objects."""
    inner = ["given"]
    rows, table = [inner], {"a": 1, "z": 2}
    work.fill(rows, table=table)
    assert rows == [["given", 2], [1]] and rows[0] is inner
    assert list(table.items()) == [("z", 2), ("b", 1)]


def test_exceptions_arrive_with_their_class_text_and_attributes(work):
    """Also those the work defined; the traceback of the work is a note."""
    with pytest.raises(work.WorkError) as raised:
        work.fails()
    assert isinstance(raised.value, ValueError) and str(raised.value) == "at 7" and raised.value.place == 7
    assert "def fails" in raised.value.__notes__[0] or "raise WorkError" in raised.value.__notes__[0]
    with pytest.raises(FileNotFoundError) as missing:
        work.raises(FileNotFoundError, 2, "gone", "f")
    assert (missing.value.errno, missing.value.filename) == (2, "f")
    with pytest.raises(AttributeError):
        _ = work.nothing


def test_functions_of_the_tests_can_be_called(work):
    """With what they return and raise, from any thread, and in turn calling the work."""
    assert work.calls(lambda a, b: work.same(a) + b, 1, 2) == 3
    assert work.total(number * 2 for number in range(4)) == 12
    with pytest.raises(LookupError, match="mine"):
        work.calls(lambda: work.raises(LookupError, "mine"))

    class OwnError(Exception):
        pass

    def fail():
        raise OwnError("own", 1)

    with pytest.raises(OwnError) as raised:
        work.calls(fail)
    assert raised.value.args == ("own", 1)
    ran = []
    work.in_thread(lambda: ran.append(work.same(5)))
    threads = [threading.Thread(target=lambda n=n: ran.append(work.same(n))) for n in range(8)]
    [thread.start() for thread in threads]
    [thread.join() for thread in threads]
    assert sorted(ran) == [0, 1, 2, 3, 4, 5, 5, 6, 7]


def test_objects_stay_where_they_are(work):
    """Attributes, operators, identity, context managers, iteration, isinstance."""
    counter = work.Counter(2)
    assert (counter.value, len(counter), list(counter)) == (2, 2, [0, 1])
    counter.value = 3
    assert counter == work.Counter(3) and counter != work.Counter(4) and work.same(counter) is counter
    assert (counter + 1).value == 4
    with counter as entered:
        assert entered is counter
    assert counter.value == -1 and isinstance(counter, work.Counter) and not isinstance(3, work.Counter)


def test_an_object_equal_to_everything_equals_nothing(work):
    """It arrives as an object, and data is equal to data alone."""
    liar = work.Everything()
    assert liar != 42 and liar != "x" and liar not in ([], [42], (None,)) and not any(each == liar for each in (42, "x", None))
    with pytest.raises(TypeError):
        assert liar > 42
    with pytest.raises(TypeError, match="calculated with data"):
        abs(liar - 12.5)
    with pytest.raises(TypeError, match="calculated with data"):
        round(12.5 - liar, 7)
    with pytest.raises(remote.RemoteError, match="equal to everything"):
        assert liar == work.Counter(1)
    with pytest.raises(remote.RemoteError, match="contains everything"):
        assert "error" in liar


def test_subclasses_of_data_are_plain_data(work):
    """Whatever they override stays behind."""
    for value, plain in ((work.calls(work.Text, "a"), "a"), (work.calls(work.Number, 3), 3)):
        assert type(value) is type(plain) and value == plain and value != "b" and value != 4


SECRET = "what is expected"


def generator():
    yield SECRET


class Handed:
    """An object of the tests that the work is given."""

    def __init__(self):
        self.open, self._closed = 1, SECRET

    def method(self):
        return 2


REACHES = [
    *[(lambda: 1, name) for name in ("__globals__", "__code__", "__closure__", "__class__", "__dict__", "__call__")],
    *[(Handed(), name) for name in ("_closed", "__class__", "__dict__", "__init__", "__reduce_ex__")],
    *[(generator(), name) for name in ("gi_frame", "gi_code", "gi_yieldfrom")],
    *[(Handed().method, name) for name in ("__func__", "__self__", "im_func")],
    *[(Handed, name) for name in ("mro", "method", "__subclasses__")],
    *[(print, name) for name in ("__self__", "__module__")],
]


@pytest.mark.parametrize(("thing", "name"), REACHES, ids=[f"{type(thing).__name__}.{name}" for thing, name in REACHES])
def test_the_work_reaches_nothing_it_was_not_handed(thing, name):
    """From a function, an object, a generator or a class there is no way to the tests' own module."""
    ours, theirs = socket.socketpair()
    with ours, theirs:
        peer = remote.Peer(ours, "tests", guarded=True)
        peer.start()
        number = peer.encode(thing)["object"][0]
        for request in (("get", number, name), ("call", number, name, {"tuple": []}, {"dict": []})):
            if request[0] == "call" and name == "__call__":
                continue
            raw(theirs, "work1", *request)
            reply = answered(theirs)
            assert reply[1] == "error", reply


def test_what_was_handed_can_be_used(work):
    """Public attributes and methods, and no others; methods cannot be replaced."""
    handed = Handed()
    assert work.reach(handed, "open") == 1 and work.calls(handed.method) == 2
    work.change(handed, "open", 5)
    assert handed.open == 5
    for name in ("method", "_closed"):
        with pytest.raises(AttributeError):
            work.change(handed, name, 1)
    with pytest.raises(remote.RemoteError):
        work.same(sys)


def raw(sock, *message):
    data = json.dumps(message).encode()
    sock.sendall(struct.pack("!I", len(data)) + data)


def answered(sock):
    size = struct.unpack("!I", sock.recv(4, socket.MSG_WAITALL))[0]
    return json.loads(sock.recv(size, socket.MSG_WAITALL))


@pytest.mark.parametrize(
    "message",
    [
        ("import", "os"),
        ("get", 0, "__globals__"),
        ("get", 99, "x"),
        ("call", 0, "__getattribute__", {"tuple": ["__globals__"]}, {"dict": []}),
        ("call", 0, "__reduce__", {"tuple": []}, {"dict": []}),
        ("set", 0, "__code__", 1),
        ("del", 0, "x"),
        ("nonsense",),
    ],
)
def test_a_work_that_speaks_the_protocol_itself_gains_nothing(message):
    """Every request that is not a rightful one is answered with an error."""
    ours, theirs = socket.socketpair()
    with ours, theirs:
        peer = remote.Peer(ours, "tests", guarded=True)
        peer.start()
        peer.encode(lambda: SECRET)
        raw(theirs, "work1", *message)
        reply = answered(theirs)
        assert reply[:2] == ["work1", "error"] and SECRET not in json.dumps(reply)


def test_a_work_that_ends_early_is_an_error(peer, work):
    """For the call that waits, and for every later one."""
    with pytest.raises(remote.RemoteError, match="ended"):
        peer.request("import", "os")._exit(0)
    with pytest.raises(remote.RemoteError, match="ended"):
        work.same(1)
