"""Datasets of the Hugging Face hub: `hf:owner/name[@revision][:config][:split]`, pinned, checked, kept in its cache."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any

from tiebreak.core.errors import DatasetError
from tiebreak.core.extras import optional
from tiebreak.core.run import Source
from tiebreak.datasets.files import reader_of
from tiebreak.datasets.indexed import IndexedFile
from tiebreak.datasets.records import is_records

_NAME = re.compile(
    r"hf:(?P<repo>[\w.-]+/[\w.-]+|[\w.-]+)(?:@(?P<revision>[\w./-]+))?(?::(?P<config>[^:]*))?(?::(?P<split>[^:]+))?"
)
_CONVERTED = "refs/convert/parquet"
"""Where the hub keeps a Parquet copy of datasets that are made by a script."""
_SPLITS = ("test", "validation", "dev", "train")


@dataclass(frozen=True, slots=True, kw_only=True)
class Address:
    """A dataset of the hub, as it is named."""

    repo: str
    revision: str = "main"
    config: str = ""
    split: str = ""

    @classmethod
    def parse(cls, name: str) -> Address:
        """Read `hf:owner/name[@revision][:config][:split]`; one word behind the name is a split if it is called like one."""
        found = _NAME.fullmatch(name)
        if found is None:
            raise DatasetError(f"{name!r} should read hf:owner/name, then :config, then :split, where there are several")
        config, split = found["config"] or "", found["split"] or ""
        if config in _SPLITS and not split:
            config, split = "", config
        return cls(repo=found["repo"], revision=found["revision"] or "main", config=config, split=split)


def load(name: str, source: Source | None = None) -> IndexedFile:
    """A dataset of the hub as rows in the usual forms."""
    paths, revision = fetch(Address.parse(name))
    about = f"from the hub, revision {revision[:12]}"
    return IndexedFile(paths, reader_of((source or Source()).fields), name=name, about=about)


def fetch(address: Address) -> tuple[list[Path], str]:
    """The dataset's files on this machine, checked, and the commit they are of."""
    hub = optional("huggingface_hub", extra="hub", needed_by="a dataset of the hub")
    try:
        return _fetched(hub, address)
    except hub.errors.RepositoryNotFoundError:
        raise DatasetError(f"the hub has no dataset {address.repo!r}, or wants a token for it: set HF_TOKEN") from None
    except hub.errors.RevisionNotFoundError:
        raise DatasetError(f"the dataset {address.repo!r} has no revision {address.revision!r}") from None
    except DatasetError:
        raise
    except Exception as error:
        # The library lets through whatever its own HTTP library raises, which changes from version to version.
        reason = str(error).strip().partition("\n")[0]
        raise DatasetError(
            f"the hub cannot be reached for {address.repo!r} ({type(error).__name__}: {reason}); "
            "connect, or name a local copy: --data PATH for a registered dataset, --dataset PATH for any file"
        ) from None


def _fetched(hub: Any, address: Address) -> tuple[list[Path], str]:
    api = hub.HfApi()
    for revision in dict.fromkeys((address.revision, _CONVERTED if address.revision == "main" else address.revision)):
        commit = api.dataset_info(address.repo, revision=revision).sha
        entries = list(api.list_repo_tree(address.repo, recursive=True, revision=commit, repo_type="dataset"))
        files = {entry.path: entry for entry in entries if hasattr(entry, "size")}
        chosen = choose(list(files), address)
        if chosen:
            break
    if not chosen:
        raise DatasetError(f"{address.repo!r} has no file of samples that can be read; convert it and name the file")
    return [_downloaded(hub, address, files[path], commit) for path in chosen], commit


def choose(paths: Sequence[str], address: Address) -> list[str]:
    """The files of the wanted configuration and split, by the ways in which the hub's files are named."""
    found = sorted(path for path in paths if is_records(Path(path)))
    folders = sorted({path.partition("/")[0] for path in found if "/" in path})
    if address.config:
        found = [path for path in found if address.config in _parts(path)] or [p for p in found if address.config in p]
    elif len(folders) > 1 and not address.split and not {"data", "default"} & set(folders):
        raise DatasetError(f"{address.repo!r} has several configurations: add one of :{', :'.join(folders)}")
    for split in (address.split,) if address.split else _SPLITS:
        chosen = [path for path in found if split in _words(path)]
        if chosen:
            return chosen
    if address.split and found:
        raise DatasetError(f"{address.repo!r} has no split {address.split!r}; its files are {', '.join(found[:8])}")
    return found


def _parts(path: str) -> tuple[str, ...]:
    return PurePosixPath(path).parts


def _words(path: str) -> set[str]:
    """What a path says that may be a split: `data/test-00000-of-00001.parquet`, `main/test/0000.parquet`, `test.jsonl`."""
    return {word for part in _parts(path) for word in re.split(r"[-_.]", part)}


def _downloaded(hub: Any, address: Address, entry: Any, commit: str) -> Path:
    """The file in the cache; what is not what the hub says it is is refused."""
    path = Path(hub.hf_hub_download(address.repo, entry.path, repo_type="dataset", revision=commit))
    wanted = getattr(entry.lfs, "sha256", None) if entry.lfs else None
    with path.open("rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest() if wanted else None
    if digest != wanted:
        raise DatasetError(f"{path}: not what the hub says it is (its checksum differs); delete the file and fetch it again")
    return path
