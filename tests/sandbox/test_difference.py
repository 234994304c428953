"""Changes are found whatever was done to hide them, and in bounded time."""

from __future__ import annotations

import difflib
import random
import time

import pytest

from tiebreak.core.task import TaskFile
from tiebreak.sandbox import tree
from tiebreak.sandbox.difference import differences
from tiebreak.sandbox.shortest_edit import shortest_edit


def applied(before, after, edit):
    result, place = [], 0
    for _, begin, end, new_begin, new_end in edit:
        result += before[place:begin] + after[new_begin:new_end]
        place = end
    return result + before[place:]


def test_the_edit_leads_from_one_text_to_the_other_and_is_no_longer_than_difflibs():
    """For any two texts."""
    chance = random.Random(4)
    for _ in range(500):
        before = [chance.choice("abc\n") for _ in range(chance.randrange(30))]
        after = [chance.choice("abc\n") for _ in range(chance.randrange(30))]
        edit = shortest_edit(before, after)
        assert applied(before, after, edit) == after
        other = [
            code for code in difflib.SequenceMatcher(None, before, after, autojunk=False).get_opcodes() if code[0] != "equal"
        ]
        length = [sum(e - b + f - d for _, b, e, d, f in each) for each in (edit, other)]
        assert length[0] <= length[1]


def test_a_diff_is_one_that_patch_would_take(tmp_path):
    """Line numbers and counts as difflib writes them, for edits with one shortest way."""
    before = [f"line {n}\n" for n in range(60)]
    after = [*before[:3], "new\n", *before[3:20], *before[22:50], "other\n", *before[51:], "end"]
    (tmp_path / "f").write_text("".join(after))
    changes = differences(tmp_path, {"f": TaskFile(path="f", content="".join(before).encode())})
    wanted = "".join(difflib.unified_diff(before, after, "a/f", "b/f"))
    assert changes.diff == f"{wanted}\n\\ No newline at end of file\n"
    assert (changes.lines_added, changes.lines_removed) == (3, 3)


@pytest.mark.parametrize("line", [b"\n", b"a\n\n"])
def test_files_full_of_line_breaks_take_seconds(tmp_path, line):
    """32 files of 2 MB each took minutes."""
    for number in range(32):
        (tmp_path / str(number)).write_bytes(line * ((2 << 20) // len(line)))
    start = {str(n): TaskFile(path=str(n), content=b"x\n\n" * 300_000) for n in range(3)}
    began = time.process_time()
    changes = differences(tmp_path, start)
    assert changes.files_changed == 32
    assert changes.lines_added > 32 << 19
    assert time.process_time() - began < 15


@pytest.mark.parametrize(
    "hide",
    [
        lambda root: ((root / "tests").rename(root / "x"), (root / "tests").symlink_to("x")),
        lambda root: ((root / "tests" / "t.py").rename(root / "t.py"), (root / "tests" / "t.py").symlink_to("../t.py")),
    ],
)
def test_a_file_behind_a_link_is_not_the_file(tmp_path, hide):
    """Renaming a folder and linking to it changes everything in it."""
    (tmp_path / "tests").mkdir()
    (tmp_path / "tests" / "t.py").write_text("given\n")
    hide(tmp_path)
    assert "tests/t.py" in differences(tmp_path, {"tests/t.py": TaskFile(path="tests/t.py", content=b"given\n")}).files


def test_a_crowd_hides_no_change(tmp_path, monkeypatch):
    """What is not met on the way through a folder that is too full is looked up."""
    monkeypatch.setattr(tree, "MOST_ENTRIES", 10)
    for number in range(30):
        (tmp_path / f"a{number}").write_text("")
    (tmp_path / "kept").write_text("given\n")
    (tmp_path / "z").write_text("changed\n")
    start = {name: TaskFile(path=name, content=b"given\n") for name in ("kept", "z")}
    files = differences(tmp_path, start).files
    assert "z" in files and "kept" not in files
