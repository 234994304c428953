"""Datasets of the hub, from a hub on this machine."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from support.hub import COMMIT, FakeHub
from support.packages import need_packages

from tiebreak.core.errors import DatasetError
from tiebreak.datasets.hub import Address, choose

ROWS = b'{"id": "a", "question": "1+1?", "answer": "2"}\n{"id": "b", "question": "2+2?", "answer": "4"}\n'
CODE = """
import json, sys
from tiebreak.core.errors import BenchmarkError
from tiebreak.registry import load_dataset
try:
    d = load_dataset(sys.argv[1])
    print(json.dumps({"ids": [d[i].id for i in range(len(d))], "about": d.about, "digest": d.digest}))
except BenchmarkError as error:
    print(json.dumps({"error": str(error)}))
"""


def fetched(name, url, home):
    """What a process of its own makes of a name: the library reads its address when it is imported."""
    need_packages("huggingface_hub")
    environment = {"PATH": os.environ["PATH"], "HF_ENDPOINT": url, "HF_HOME": str(home), "HF_HUB_DISABLE_TELEMETRY": "1"}
    environment |= {"HF_HUB_DOWNLOAD_TIMEOUT": "5", "HF_HUB_ETAG_TIMEOUT": "5", "HF_HUB_DISABLE_XET": "1"}
    root = Path(__file__).resolve().parents[2]
    done = subprocess.run(
        [sys.executable, "-c", CODE, name], cwd=root, env=environment, capture_output=True, text=True, timeout=120, check=True
    )
    return json.loads(done.stdout.splitlines()[-1])


def test_a_dataset_is_fetched_once_pinned_and_kept(tmp_path):
    """The second time the file comes from the cache; the commit is said."""
    with FakeHub({"me/sums": {"README.md": b"#", "main/test.jsonl": ROWS, "main/train.jsonl": ROWS}}) as hub:
        first = fetched("hf:me/sums:main:test", hub.url, tmp_path)
        second = fetched("hf:me/sums@main:main", hub.url, tmp_path)
        downloads = [path for path in hub.asked if path.endswith("main/test.jsonl")]
    assert first["ids"] == second["ids"] == ["a", "b"]
    assert COMMIT[:12] in first["about"]
    assert first["digest"] == second["digest"]
    assert len(downloads) <= 2  # asked about, then fetched


def test_a_file_that_is_not_what_the_hub_says_is_refused(tmp_path):
    with FakeHub({"me/sums": {"test.jsonl": ROWS}}, wrong_checksums=True) as hub:
        assert "checksum differs" in fetched("hf:me/sums", hub.url, tmp_path)["error"]


def test_an_unknown_dataset_and_an_unreachable_hub_are_one_sentence(tmp_path):
    with FakeHub({}) as hub:
        assert "no dataset 'me/none'" in fetched("hf:me/none", hub.url, tmp_path)["error"]
    error = fetched("hf:me/sums", "http://127.0.0.1:9", tmp_path)["error"]
    assert "cannot be reached" in error
    assert "\n" not in error


@pytest.mark.parametrize(
    ("name", "address"),
    [
        ("hf:me/sums", Address(repo="me/sums")),
        ("hf:me/sums:test", Address(repo="me/sums", split="test")),
        ("hf:me/sums:main:test", Address(repo="me/sums", config="main", split="test")),
        ("hf:me/sums@abc:main", Address(repo="me/sums", revision="abc", config="main")),
    ],
)
def test_names_say_configuration_split_and_revision(name, address):
    assert Address.parse(name) == address


def test_a_name_that_makes_no_sense_is_refused():
    with pytest.raises(DatasetError, match="should read hf:owner/name"):
        Address.parse("hf:a b")


@pytest.mark.parametrize(
    ("paths", "address", "chosen"),
    [
        (["data/test-00000-of-00001.parquet", "data/train-0.parquet"], "hf:x/y", ["data/test-00000-of-00001.parquet"]),
        (["main/test-0.parquet", "socratic/test-0.parquet"], "hf:x/y:main", ["main/test-0.parquet"]),
        (["main/validation/0000.parquet", "main/train/0000.parquet"], "hf:x/y:main", ["main/validation/0000.parquet"]),
        (["a.jsonl", "README.md"], "hf:x/y", ["a.jsonl"]),
    ],
)
def test_the_files_of_a_split_are_found(paths, address, chosen):
    assert choose(paths, Address.parse(address)) == chosen


def test_several_configurations_must_be_chosen_from():
    with pytest.raises(DatasetError, match=r"add one of :main, :socratic"):
        choose(["main/test-0.parquet", "socratic/test-0.parquet"], Address.parse("hf:x/y"))
