"""Files that appear whole, and names that are safe everywhere."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tiebreak.core.files import atomic_writer, slug


def test_a_file_appears_with_all_its_text(tmp_path):
    """After the block the file is there; its folder was made."""
    path = tmp_path / "deep" / "er" / "file.txt"
    with atomic_writer(path) as file:
        file.write("grüezi\n".encode())
        assert not path.exists()
    assert path.read_text(encoding="utf-8") == "grüezi\n"
    assert path.stat().st_mode & 0o777 == 0o644


def test_a_failed_write_leaves_the_old_file_and_nothing_else(tmp_path):
    """An error in the middle changes nothing."""
    path = tmp_path / "file.txt"
    path.write_text("old")
    with pytest.raises(RuntimeError), atomic_writer(path) as file:
        file.write(b"half of the n")
        raise RuntimeError("power cut")
    assert path.read_text() == "old"
    assert [p.name for p in tmp_path.iterdir()] == ["file.txt"]


def test_an_interrupt_leaves_nothing_behind(tmp_path):
    """Ctrl-C counts as an error too."""
    with pytest.raises(KeyboardInterrupt), atomic_writer(tmp_path / "file.txt"):
        raise KeyboardInterrupt
    assert list(tmp_path.iterdir()) == []


def test_a_target_that_cannot_be_replaced_leaves_no_temporary_file(tmp_path):
    """When the last step fails the temporary file goes too."""
    (tmp_path / "taken").mkdir()
    with pytest.raises(OSError), atomic_writer(tmp_path / "taken") as file:
        file.write(b"x")
    assert [p.name for p in tmp_path.iterdir()] == ["taken"]


@pytest.mark.parametrize(
    ("name", "file_name"),
    [
        ("gpt-4o-mini", "gpt-4o-mini"),
        ("openai/gpt-4o", "openai_gpt-4o"),
        ("ollama/qwen2.5-coder:7b", "ollama_qwen2.5-coder_7b"),
        ("my_model+v2", "my_model+v2"),
    ],
)
def test_usual_names_stay_readable(name, file_name):
    """A model's name is recognised in its file's."""
    assert slug(name) == file_name


@pytest.mark.parametrize("name", ["con", "NUL", "com1.txt", "aux", "", ".", "..", "../../etc/passwd", "a\0b", "x" * 300, "名前"])
def test_unusual_names_get_a_hash(name):
    """A name some system refuses becomes one that it takes."""
    assert re.fullmatch(r".+-[0-9a-f]{8}", slug(name))


@given(st.text())
def test_any_name_becomes_a_safe_file_name(name):
    """Only harmless characters, never hidden, never too long, always the same."""
    made = slug(name)
    assert re.fullmatch(r"[A-Za-z0-9+-][A-Za-z0-9._+-]{0,119}", made)
    assert made == slug(name)


def _separators_alike(name):
    return name.replace("/", "_").replace(":", "_")


@given(st.text(max_size=12), st.text(max_size=12))
def test_different_names_get_different_files(one, other):
    """Names that differ in more than their separators never share a file."""
    if _separators_alike(one) != _separators_alike(other):
        assert slug(one) != slug(other)


@given(st.text())
def test_any_name_can_really_be_written(tmp_path_factory, name):
    """The file system agrees."""
    folder = tmp_path_factory.mktemp("slug")
    with atomic_writer(folder / slug(name)) as file:
        file.write(b"x")
    assert (folder / slug(name)).parent == folder
    assert (folder / slug(name)).read_text() == "x"


def test_what_a_killed_writer_left_behind_is_removed_and_a_living_one_left_alone(tmp_path):
    target = tmp_path / "report.json"
    (tmp_path / ".report.json.dead.tmp").write_bytes(b"half")
    (tmp_path / ".other.json.dead.tmp").write_bytes(b"half")
    with atomic_writer(target) as first:
        first.write(b"first")
        with atomic_writer(target) as second:
            second.write(b"second")
    assert target.read_bytes() == b"first"
    assert sorted(path.name for path in tmp_path.iterdir()) == [".other.json.dead.tmp", "report.json"]
