"""How a cluster is joined when Ray is late, or refuses: a made-up Ray says so at once, where the real one takes a minute."""

from types import SimpleNamespace

import pytest

from tiebreak.cluster import ray as joining
from tiebreak.core.errors import UsageError


class MadeUpRay:
    def __init__(self, *errors: Exception) -> None:
        self.errors, self.tries, self.put_away = list(errors), 0, 0

    def init(self, **_given: object) -> None:
        self.tries += 1
        if self.errors:
            raise self.errors.pop(0)

    def shutdown(self) -> None:
        self.put_away += 1


@pytest.fixture
def joined(monkeypatch):
    def join(ray: MadeUpRay) -> bool:
        monkeypatch.setattr(joining, "optional", lambda name, **_: ray if name == "ray" else SimpleNamespace())
        with joining.connected() as cluster:
            return cluster.is_own

    monkeypatch.setattr(joining, "_REST_S", 0)
    monkeypatch.setenv("RAY_ADDRESS", "auto")
    return join


@pytest.mark.parametrize("late", [1, 2])
def test_a_cluster_that_is_late_is_joined(joined, late):
    ray = MadeUpRay(*[Exception("The current node timed out during startup.")] * late)
    assert joined(ray) is False
    assert (ray.tries, ray.put_away) == (late + 1, late + 1)


@pytest.mark.parametrize(
    ("error", "tries"),
    [
        (RuntimeError("Invalid auth token"), 1),
        (RuntimeError("Version mismatch: the cluster has 2.9"), 1),
        (TimeoutError("late"), 3),
    ],
)
def test_a_cluster_that_cannot_be_joined_is_a_sentence(joined, error, tries):
    ray = MadeUpRay(error, error, error)
    with pytest.raises(UsageError, match=f"at auto .RAY_ADDRESS. cannot be used: {error}. Look at it with: ray status"):
        joined(ray)
    assert ray.tries == tries
