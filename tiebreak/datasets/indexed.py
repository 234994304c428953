"""Files of records, reached by position: a run of a million samples holds none of them in memory."""

from __future__ import annotations

import hashlib
from array import array
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any

from tiebreak.core.digest import digest_of_texts, order_key, positions_by
from tiebreak.core.errors import DatasetError
from tiebreak.core.sample import Sample
from tiebreak.datasets.profile import Profile
from tiebreak.datasets.records import Records, checked_rows, open_records

Row = Mapping[str, Any]
ToSample = Callable[[Row, int], Sample]
"""Makes a sample of a record and its number; raises ValueError saying what is wrong with which field."""


_KEPT_BYTES = 12_000_000
_MEDIA = frozenset({"image", "file", "audio"})
_MOST_LAYOUTS = 1_000
_SAMPLE_BYTES = 1_000
"""About what a sample weighs besides its text."""


class IndexedFile:
    """A dataset whose samples are read from their place in their file when they are needed; the first few are kept."""

    def __init__(
        self,
        path: Path | Sequence[Path],
        to_sample: ToSample,
        *,
        name: str,
        about: str = "",
        form: str = "",
        public_since: int | None = None,
        below: str = "",
        has_shots: bool = False,
        encoding: str = "",
        is_read: Callable[[str], bool] | None = None,
        opened: Callable[[Path], Records] | None = None,
    ) -> None:
        self.name = name
        self.about = about
        self.form = form
        self.public_since = public_since
        self.has_shots = has_shots
        self._to_sample = to_sample
        paths = [path] if isinstance(path, Path) else path
        opened = opened or partial(open_records, below=below, encoding=encoding)
        self._files: list[Records] = [opened(p) for p in paths]
        self._first = array("Q")
        """Position of each file's first record."""
        self._places = array("Q")
        self.shuffle = array("Q")
        self.categories = array("I")
        self.profile: Profile | None = None
        """Of all samples, where they are too many to be read again for an audit."""
        self._kept: list[Sample] = []
        """The first samples, as many as weigh little: a small dataset is read only once."""
        self._room = _KEPT_BYTES
        self.needs: frozenset[str] = frozenset()
        self._ignored: dict[str, None] = {}
        self._is_read = is_read
        self._layouts: set[tuple[str, ...]] = set()
        self._index()

    def __len__(self) -> int:
        return len(self._places)

    @property
    def ignored(self) -> list[str]:
        """Columns that nothing is made of."""
        return list(self._ignored)

    def __getitem__(self, position: int) -> Sample:
        if 0 <= position < len(self._kept):
            return self._kept[position]
        file = self._file_of(position)
        last = position + 1 == (self._first[file + 1] if file + 1 < len(self._first) else len(self._places))
        row = self._files[file].read(self._places[position], None if last else self._places[position + 1])
        return self._to_sample(row, position + 1)

    def _file_of(self, position: int) -> int:
        file = len(self._first) - 1
        while self._first[file] > position:
            file -= 1
        return file

    def _index(self) -> None:
        """Read the files once: check every record, remember where each begins."""
        numbers: dict[str, int] = {}
        scorers: dict[str, None] = {}
        digest, media = hashlib.blake2b(digest_size=16), hashlib.blake2b(digest_size=16)
        for records in self._files:
            self._first.append(len(self._places))
            for place, row in checked_rows(records):
                self._note_ignored(row)
                try:
                    sample = self._to_sample(row, len(self._places) + 1)
                except ValueError as error:
                    raise DatasetError(f"{records.path}, {records.where(place)}: {error}") from None
                self._places.append(place)
                self.shuffle.append(order_key(sample.id))
                self.categories.append(numbers.setdefault(sample.category, len(numbers)))
                scorers |= dict.fromkeys(sample.scorers)
                if sample.exchange is not None:
                    self.needs |= sample.needs
                    media.update("".join(part.digest for part in sample.media).encode())
                self._keep(sample)
            digest.update(records.digest.digest())
        if not self._places:
            raise DatasetError(f"{self._files[0].path}: the dataset is empty")
        self._refuse_duplicates()
        self.scorers = tuple(scorers)
        self.digest = self._files[0].digest.hexdigest() if len(self._files) == 1 else digest.hexdigest()
        if not self.needs.isdisjoint(_MEDIA):
            # Images and files are in files of their own, which may change by themselves.
            self.digest = digest_of_texts((self.digest, media.hexdigest()))

    def _note_ignored(self, row: Row) -> None:
        """Remember columns that nothing is made of; rows mostly have the same ones."""
        if self._is_read is None or (columns := tuple(row)) in self._layouts or len(self._layouts) >= _MOST_LAYOUTS:
            return
        self._layouts.add(columns)
        self._ignored |= dict.fromkeys(name for name in columns if not self._is_read(name))

    def _keep(self, sample: Sample) -> None:
        if self._room > 0:
            self._room -= _SAMPLE_BYTES + 2 * len(sample.prompt) + _media_bytes(sample)
            self._kept.append(sample)
            return
        if self.profile is None:
            self.profile = Profile(self._kept)
        self.profile.add(sample)

    def _refuse_duplicates(self) -> None:
        """Two samples of one id cannot be told apart in a result."""
        for first, second in pairwise(positions_by(self.shuffle)):
            if self.shuffle[first] == self.shuffle[second]:
                here, there = (self._files[self._file_of(p)].where(self._places[p]) for p in (first, second))
                places = f"lines {here[5:]} and {there[5:]}" if here.startswith("line ") else f"{here} and {there}"
                raise DatasetError(
                    f"{self._files[self._file_of(second)].path}: the id {self[second].id!r} is used twice, "
                    f"on {places}; every id must be its own"
                )


def _media_bytes(sample: Sample) -> int:
    """What a sample holds of its images and files; those that lie in files weigh nothing."""
    return 0 if sample.exchange is None else sum(len(part.data_base64) for part in sample.media)
