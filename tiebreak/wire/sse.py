"""Cutting a stream of bytes into the payloads it carries, however the network sliced it."""

from __future__ import annotations


class Lines:
    """Whole lines out of chunks; a line ends with LF, CR LF or CR."""

    __slots__ = ("_after_cr", "_pieces", "_started")

    def __init__(self) -> None:
        self._pieces: list[bytes] = []
        self._after_cr = False
        self._started = False

    def feed(self, data: bytes) -> list[bytes]:
        """The lines that this chunk completes."""
        if b"\r" in data or self._after_cr:
            data = self._plain(data)
        if b"\n" not in data:
            # Kept in pieces: joining them at every chunk would make a long line cost its length squared.
            self._pieces.append(data)
            return []
        if self._pieces:
            data = b"".join((*self._pieces, data))
        lines = data.split(b"\n")
        rest = lines.pop()
        self._pieces = [rest] if rest else []
        if not self._started:
            self._started = True
            lines[0] = lines[0].removeprefix(b"\xef\xbb\xbf")
        return lines

    def rest(self) -> list[bytes]:
        """What came after the last line's end."""
        line = b"".join(self._pieces)
        self._pieces = []
        return [line] if line else []

    def _plain(self, data: bytes) -> bytes:
        """The chunk with LF alone; a CR LF may be cut between two chunks."""
        if self._after_cr and data:
            data = data.removeprefix(b"\n")
            self._after_cr = False
        if data.endswith(b"\r"):
            self._after_cr = True
        return data.replace(b"\r\n", b"\n").replace(b"\r", b"\n")


class Events:
    """The data of each server-sent event. Event names are not read: every format repeats them in the data."""

    __slots__ = ("_data", "_lines")

    def __init__(self) -> None:
        self._lines = Lines()
        self._data: list[bytes] = []

    def feed(self, data: bytes) -> list[bytes]:
        """The data of the events that this chunk completes."""
        return self._dispatched(self._lines.feed(data))

    def rest(self) -> list[bytes]:
        """The data of a last event that lacks its closing empty line, as some servers leave it."""
        return self._dispatched([*self._lines.rest(), b""])

    def _dispatched(self, lines: list[bytes]) -> list[bytes]:
        found = []
        for line in lines:
            if line.startswith(b"data:"):
                self._data.append(line[6:] if line.startswith(b"data: ") else line[5:])
            elif not line and self._data:
                found.append(self._data[0] if len(self._data) == 1 else b"\n".join(self._data))
                self._data = []
        return found


def event(payload: bytes, name: bytes = b"") -> bytes:
    """One server-sent event; the payload is JSON on one line."""
    head = b"event: " + name + b"\n" if name else b""
    return head + b"data: " + payload + b"\n\n"
