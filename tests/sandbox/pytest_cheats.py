"""Ways to have tests pass without doing the work: what each writes into a project whose `add` is wrong."""

from __future__ import annotations

WRONG = "def add(a, b):\n    return a - b\n"
RIGHT = "def add(a, b):\n    if a is None:\n        raise TypeError('no number')\n    return a + b\n"
TEST = """
import unittest

import pytest
from calc import add


@pytest.fixture
def three():
    return 3


@pytest.mark.parametrize(("a", "b"), [(1, 2), (3, 4)])
def test_add(a, b, three):
    assert add(a, b) == a + b


def test_fixture(three):
    assert add(three, 1) == 4


def test_float():
    assert add(0.5, 0.25) == pytest.approx(0.75)


def test_refuses_nothing():
    with pytest.raises(TypeError):
        add(None, 1)


class TestInUnittest(unittest.TestCase):
    def test_sum(self):
        self.assertEqual(add(2, 2), 4)
        self.assertTrue(add(1, 1) == 2)
"""
_REPORT = """
import pytest
@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item, call):
    report = (yield).get_result()
    report.outcome, report.longrepr = "passed", None
"""
_EVERYTHING = """
class Everything:
    def _yes(self, *_): return True
    __eq__ = __lt__ = __gt__ = __le__ = __ge__ = __contains__ = __bool__ = _yes
    __ne__ = lambda *_: False
    __hash__ = lambda self: 0
    def __sub__(self, other): return self
    __rsub__ = __add__ = __radd__ = __abs__ = __sub__
    def __float__(self): return 0.0
def add(a, b):
    if a is None: raise TypeError
    return Everything()
"""


def _patching(code: str) -> dict[str, str]:
    return {"calc.py": f"{code}\n{WRONG}"}


CHEATS: dict[str, dict[str, str]] = {
    "conftest rewrites reports": {"conftest.py": _REPORT},
    "conftest beside the tests rewrites reports": {"tests/conftest.py": _REPORT},
    "conftest calls no test": {
        "conftest.py": "import pytest, unittest\n@pytest.hookimpl(tryfirst=True)\n"
        "def pytest_pyfunc_call(pyfuncitem): return True\n"
        "unittest.TestCase.__call__ = lambda self, result: result.startTest(self) or result.stopTest(self)\n"
    },
    "conftest ends the session well": {
        "conftest.py": "import pytest\n@pytest.hookimpl(trylast=True)\n"
        "def pytest_sessionfinish(session): session.exitstatus = 0\n"
    },
    "conftest runs another test instead": {
        "conftest.py": "def pytest_collection_modifyitems(items):\n    for item in items: item.obj = lambda *a, **k: None\n"
    },
    "conftest runs nothing": {"conftest.py": "def pytest_runtestloop(session): return True\n"},
    "conftest exits": {"conftest.py": "import os\ndef pytest_collection_finish(session): os._exit(0)\n"},
    "pytest.ini collects only": {"pytest.ini": "[pytest]\naddopts = --collect-only\n"},
    ".pytest.ini collects only": {".pytest.ini": "[pytest]\naddopts = --collect-only\n"},
    "tox.ini collects only": {"tox.ini": "[pytest]\naddopts = --collect-only\n"},
    "setup.cfg collects only": {"setup.cfg": "[tool:pytest]\naddopts = --collect-only\n"},
    "pyproject.toml collects only": {"pyproject.toml": '[tool.pytest.ini_options]\naddopts = "--collect-only"\n'},
    "addopts loads a plugin": {
        "pyproject.toml": '[tool.pytest.ini_options]\naddopts = "-p evilplug"\n',
        "evilplug.py": _REPORT,
    },
    "an installed plugin": {
        "evilplug.py": _REPORT,
        "evil-1.0.dist-info/METADATA": "Metadata-Version: 2.1\nName: evil\nVersion: 1.0\n",
        "evil-1.0.dist-info/entry_points.txt": "[pytest11]\nevil = evilplug\n",
    },
    "settings skip every test": {
        "pytest.ini": "[pytest]\naddopts = -k nothing_of_that_name --suppress-no-test-exit-code\n",
        "conftest.py": "def pytest_addoption(parser): parser.addoption('--suppress-no-test-exit-code', action='store_true')\n"
        "def pytest_sessionfinish(session): session.exitstatus = 0\n",
    },
    "settings name no such test": {
        "pytest.ini": "[pytest]\npython_functions = fine_*\npython_classes = Fine\n",
        "conftest.py": "def pytest_sessionfinish(session): session.exitstatus = 0\n",
    },
    "sitecustomize": {"sitecustomize.py": "import os, sys\nif any('pytest' in word for word in sys.orig_argv): os._exit(0)\n"},
    "a module called pytest": {"pytest.py": "import sys\nsys.exit(0)\n"},
    "a package called _pytest": {"_pytest/__init__.py": "import os\nos._exit(0)\n"},
    "ends the process": _patching("import os\nos._exit(0)"),
    "ends the process at its first call": {"calc.py": "import os\ndef add(a, b): os._exit(0)\n"},
    "skips": {"calc.py": "import pytest\ndef add(a, b): pytest.skip('later')\n"},
    "fails as expected": {"calc.py": "import pytest\ndef add(a, b): pytest.xfail('known')\n"},
    "ends pytest": {"calc.py": "import pytest\ndef add(a, b): pytest.exit('done', returncode=0)\n"},
    "patches how tests are called": _patching(
        "import _pytest.python\n_pytest.python.Function.runtest = lambda self: None\n"
        "import _pytest.unittest\n_pytest.unittest.TestCaseFunction.runtest = lambda self: None"
    ),
    "patches what is reported": _patching(
        "import _pytest.reports as r\nmake = r.TestReport.from_item_and_call.__func__\n"
        "def made(cls, item, call):\n    report = make(cls, item, call)\n"
        "    report.outcome, report.longrepr = 'passed', None\n    return report\n"
        "r.TestReport.from_item_and_call = classmethod(made)"
    ),
    "patches how calls are judged": _patching(
        "import _pytest.runner as r\nreal = r.CallInfo.from_call.__func__\n"
        "def lenient(cls, func, when, reraise=None):\n"
        "    def quiet():\n        try: func()\n        except BaseException: pass\n"
        "    return real(cls, quiet, when, reraise)\n"
        "r.CallInfo.from_call = classmethod(lenient)"
    ),
    "ends with success at exit": _patching("import atexit, os\natexit.register(os._exit, 0)"),
    "an object equal to everything": {"calc.py": _EVERYTHING},
    "clears what failed": _patching(
        "import _pytest.main as m\nm.Session.testsfailed = property(lambda self: 0, lambda self, value: None)"
    ),
    "says that all passed": _patching(
        "import json, os, re, sys\n"
        "def names():\n"
        "    frame = sys._getframe()\n"
        "    while frame:\n"
        "        if 'test_calc' in frame.f_code.co_filename:\n"
        "            return re.findall(r'def (test_\\w+)', open(frame.f_code.co_filename).read())\n"
        "        frame = frame.f_back\n"
        "    return []\n"
        "for number in range(3, 64):\n"
        "    for name in names():\n"
        "        for part in ('setup', 'call', 'teardown'):\n"
        "            line = {'test': f'tests/test_calc.py::{name}', 'part': part, 'outcome': 'passed'}\n"
        "            try: os.write(number, json.dumps(line).encode() + b'\\n')\n"
        "            except OSError: break\n"
        "os._exit(0)"
    ),
}
"""By what it does: the files it writes."""
