"""Packages of the dependency group `full`, which only `make test-all` installs."""

from __future__ import annotations

import importlib
import os

import pytest


def need_packages(*names: str) -> None:
    """Without one of these, the test, or the module that is being imported, is listed as not run; under CI that is an error."""
    for name in names:
        if os.environ.get("CI"):
            importlib.import_module(name)
        else:
            pytest.importorskip(name, reason=f"needs {name}, which `make test-all` installs", exc_type=ImportError)
