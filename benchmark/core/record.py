"""The base of the records every trial makes."""

from __future__ import annotations

import msgspec


class Record(msgspec.Struct, frozen=True):
    """A frozen record that is made in a tenth of the time of a frozen dataclass; a trial makes some twenty."""
