"""Samples travel whole, what is large travels once, and a path of another machine never does."""

import base64

import pytest
from msgspec.structs import replace

from tiebreak.cluster.messages import Attempt, encode, orders
from tiebreak.cluster.parcels import Depot, Packer
from tiebreak.core.errors import DatasetError
from tiebreak.core.media import media_part, with_bytes
from tiebreak.core.message import Message, TextPart, user
from tiebreak.core.sample import Exchange, Sample
from tiebreak.registry import load_dataset

PIXEL = base64.b64decode("iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==")


def travelled(sample, packer, depot):
    """A sample after its way, with how many parcels went with it."""
    parcels, data, digest = packer.pack(sample)
    for parcel in parcels:
        depot.keep(parcel)
    order = Attempt(lease=1, label="m", sample=data, parcel=digest, repeat=0, asked="", trial="t")
    (order,) = orders(encode([order]))
    return depot.unpack(order.sample, order.parcel), len(parcels)


@pytest.mark.parametrize("name", ["truthfulness", "warmup", "tasks:benchmark/tasks/easy"])
def test_every_sample_arrives_as_it_was(name, tmp_path):
    dataset, packer, depot = load_dataset(name), Packer(), Depot(tmp_path)
    for position in range(len(dataset)):
        sample = dataset[position]
        arrived, _ = travelled(sample, packer, depot)
        assert arrived == sample
        assert arrived.asked_digest == sample.asked_digest


def test_what_is_large_travels_once(tmp_path):
    sample, packer, depot = Sample(id="long", messages=(user("word " * 10_000),)), Packer(), Depot(tmp_path)
    assert travelled(sample, packer, depot) == (sample, 1)
    assert travelled(sample, packer, depot) == (sample, 0)
    assert travelled(sample, Packer(), depot) == (sample, 1), "another node has not been sent it"


def test_an_image_travels_by_its_bytes_and_not_by_its_path(tmp_path):
    here, there = tmp_path / "here", tmp_path / "there"
    here.mkdir()
    there.mkdir()
    (here / "dot.png").write_bytes(PIXEL)
    part = media_part(PIXEL, name="dot.png", path=str(here / "dot.png"))
    shown = Message(role="user", parts=(TextPart("What is it?"), part))
    sample = Sample(id="dot", messages=(shown,), exchange=Exchange(turns=(shown,)))
    packer, depot = Packer(), Depot(there)
    assert str(here).encode() not in packer.pack(sample)[1]
    arrived, again = travelled(sample, Packer(), depot)
    assert again == 1
    (here / "dot.png").unlink()
    assert arrived.asked_digest == sample.asked_digest
    assert arrived.media[0].path.startswith(str(there))
    assert with_bytes(arrived.messages)[0].media[0].data_base64 == base64.b64encode(PIXEL).decode()
    assert travelled(replace(sample, id="again"), packer, depot)[1] == 0


def test_a_damaged_parcel_is_refused(tmp_path):
    parcel = Packer().pack(Sample(id="long", messages=(user("word " * 10_000),)))[0][0]
    with pytest.raises(ValueError, match="damaged on its way"):
        Depot(tmp_path).keep(replace(parcel, data=parcel.data[:-1]))
    with pytest.raises(ValueError, match="is no digest"):
        Depot(tmp_path).unpack(b"", "../../etc/passwd")


def test_a_file_that_is_gone_keeps_no_other_from_travelling(tmp_path):
    """What was to go with it is sent with the next sample that has it."""
    there = tmp_path / "there.png"
    there.write_bytes(PIXEL)
    first = media_part(PIXEL, name="there.png", path=str(there))
    second = replace(first, digest="0" * 64, path=str(tmp_path / "gone.png"))
    both, one = (Sample(id="q", messages=(Message(role="user", parts=parts),)) for parts in ((first, second), (first,)))
    packer, depot = Packer(), Depot(tmp_path / "depot")
    (tmp_path / "depot").mkdir()
    with pytest.raises(DatasetError):
        packer.pack(both)
    arrived, parcels = travelled(one, packer, depot)
    assert (parcels, arrived.media[0].digest) == (1, first.digest)
