"""Optional packages: imported where they are used, and named with the extra that brings them where they are missing."""

from __future__ import annotations

import importlib
from typing import Any

from tiebreak.core.errors import MissingExtra


def optional(module: str, *, extra: str, needed_by: str) -> Any:
    """A module of an optional package."""
    try:
        return importlib.import_module(module)
    except ImportError:
        package = module.partition(".")[0]
        raise MissingExtra(f"{needed_by} needs {package}, which is not installed: pip install 'tiebreak[{extra}]'") from None
