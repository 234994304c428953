"""Optional packages: imported where they are used, and named with the command that installs them where they are missing."""

from __future__ import annotations

import importlib
import importlib.util
import shutil
import sys
from pathlib import Path
from typing import Any

from tiebreak.core.errors import MissingExtra


def optional(module: str, *, extra: str, needed_by: str) -> Any:
    """A module of an optional package."""
    try:
        return importlib.import_module(module)
    except ImportError:
        package = module.partition(".")[0]
        raise MissingExtra(f"{needed_by} needs {package}, which is not installed: {installing(extra)}") from None


def installing(extra: str) -> str:
    """The command that installs an extra into the environment this program runs in."""
    wanted = f"'tiebreak[{extra}]'"
    if {"uv", "tools"} <= set(Path(sys.prefix).parts):
        return f"uv tool install --reinstall {wanted}"
    if importlib.util.find_spec("pip") is None and shutil.which("uv"):
        return f"uv pip install --python {sys.executable} {wanted}"
    return f"{sys.executable} -m pip install {wanted}"
