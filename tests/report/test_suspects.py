"""Samples that rank nobody, and labels that look wrong, found in a planted run."""

from pathlib import Path

import numpy as np
from support.command import run
from support.made import Planted, write_run

from tiebreak.report.suspects import audit_run
from tiebreak.store.reader import StoreReader


def planted(tmp_path: Path) -> Path:
    """Forty samples; the last two are labelled wrong: the strong model loses them and the weak one wins."""
    rng = np.random.default_rng(4)
    strong = [1.0] * 38 + [0.0] * 2
    middle = [float(x) for x in rng.random(38) < 0.8] + [0.0, 0.0]
    weak = [0.0] * 20 + [1.0] * 18 + [1.0, 1.0]
    middle[:5] = [0.0] * 5
    contestants = [Planted(label=label, planted=scores) for label, scores in zip("smw", (strong, middle, weak), strict=True)]
    return write_run(tmp_path / "run", contestants, 40)


def test_planted_wrong_labels_come_first(tmp_path: Path) -> None:
    with StoreReader(planted(tmp_path)) as reader:
        found = audit_run(reader)
        ids = [sample for (sample,) in reader.rows("SELECT sample FROM samples ORDER BY place")]
    assert found is not None
    assert found.asked == 40
    assert {suspect.sample for suspect in found.suspects[:2]} == set(ids[-2:])
    assert all(suspect.right == ("w",) and suspect.wrong == ("s", "m") for suspect in found.suspects[:2])
    assert not set(found.all_right) & set(ids[-2:])
    assert found.all_wrong == ()


def test_command_says_it(tmp_path: Path) -> None:
    planted(tmp_path)
    done = run("audit", "run", cwd=tmp_path)
    assert done.returncode == 3
    assert "s and m wrong, w right" in " ".join((done.stdout + done.stderr).split())
    assert "change the file and run again" in done.stdout
