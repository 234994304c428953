"""The front door for Python: this is `tiebreak.multi_runner` itself, so that what is patched here is patched there."""

from __future__ import annotations

import sys

from tiebreak import multi_runner
from tiebreak.multi_runner import *  # noqa: F403 -- for type checkers, which do not see the next line

sys.modules[__name__] = multi_runner
