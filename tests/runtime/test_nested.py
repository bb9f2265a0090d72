"""Nested batches: containers keep their classes, everything else passes through."""

from __future__ import annotations

from collections import OrderedDict, UserDict, defaultdict, namedtuple
from dataclasses import dataclass, field
from types import MappingProxyType

import pytest
import torch
from torch.nn.utils.rnn import pack_sequence

from accel_runtime import nested

Pair = namedtuple("Pair", "x y")


@dataclass(frozen=True)
class Sample:
    x: torch.Tensor
    name: str = "s"
    made: list = field(default_factory=list, init=False)


class Encoding(UserDict):
    """Like a tokenizer's result: carries more than its items."""

    def __init__(self, data, encodings=None):
        super().__init__(data)
        self.encodings = encodings


def batches():
    x = torch.arange(4)
    yield {"x": x, "n": 3}
    yield OrderedDict(x=x)
    yield defaultdict(list, x=x)
    yield MappingProxyType({"x": x})
    yield Encoding({"x": x}, encodings="kept")
    yield Pair(x, ["a", "b", "c", "d"])
    yield [x, (x, None)]
    yield Sample(x)


@pytest.mark.parametrize("data", list(batches()), ids=lambda data: type(data).__name__)
def test_classes_are_kept(data):
    doubled = nested.map_tensors(lambda t: 2 * t, data)
    assert type(doubled) is type(data) and doubled is not data
    assert next(nested.leaves(doubled)).tolist() == [0, 2, 4, 6]
    assert next(nested.leaves(data)).tolist() == [0, 1, 2, 3]
    assert nested.map_tensors(lambda t: t, data) is data
    assert nested.skeleton(doubled) == nested.skeleton(data)
    assert nested.find_batch_size(data) == 4
    first, second = nested.slice_rows(data, 0, 1), nested.slice_rows(data, 1, 4)
    joined = nested.concatenate([first, second])
    assert type(joined) is type(data) and next(nested.leaves(joined)).equal(torch.arange(4))


def test_what_containers_carry_is_kept():
    assert nested.slice_rows(Encoding({"x": torch.arange(2)}, "kept"), 0, 1).encodings == "kept"
    assert nested.slice_rows(defaultdict(list, x=torch.arange(2)), 0, 1)["new"] == []


def test_rows_are_cut_where_there_is_one_entry_per_sample():
    batch = {
        "x": torch.arange(6).view(3, 2),
        "names": ["a", "b", "c"],
        "boxes": [{"box": torch.zeros(i)} for i in range(3)],
        "columns": [torch.arange(3), torch.arange(3)],
        "table": torch.zeros(7),
        "scalar": torch.tensor(1.0),
        "word": "abc",
    }
    part = nested.slice_rows(batch, 1, 3)
    assert part["x"].tolist() == [[2, 3], [4, 5]] and part["names"] == ["b", "c"]
    assert [len(b["box"]) for b in part["boxes"]] == [1, 2]
    assert [c.tolist() for c in part["columns"]] == [[1, 2], [1, 2]]
    assert part["table"] is batch["table"] and part["scalar"] is batch["scalar"] and part["word"] == "abc"
    whole = nested.concatenate([nested.slice_rows(batch, 0, 1), part])
    assert whole["names"] == ["a", "b", "c"] and whole["word"] == "abc"


def test_batch_size_of_data_without_tensors():
    assert nested.find_batch_size({"names": ["a", "b"]}) == 2
    assert nested.find_batch_size("word") is None and nested.find_batch_size({"n": 3}) is None
    assert nested.find_batch_size([torch.tensor(1.0), torch.zeros(5)]) == 5


def test_moving():
    packed = pack_sequence([torch.ones(2), torch.ones(1)])
    moved = nested.send_to_device({"packed": packed, "x": torch.ones(1), "stay": torch.ones(1), "n": 1}, "meta", skip_keys="stay")
    assert moved["packed"].data.device.type == moved["x"].device.type == "meta"
    assert moved["packed"].batch_sizes.device.type == moved["stay"].device.type == "cpu" and moved["n"] == 1


def test_batches_of_different_structure_are_not_joined():
    with pytest.raises(ValueError, match=r"they have \[1, 2\] entries in a dict"):
        nested.concatenate([{"x": torch.ones(1)}, {"x": torch.ones(1), "y": torch.ones(1)}])


def test_skeletons_tell_keys_apart():
    one = torch.ones(1)
    assert nested.skeleton({"a": one}) != nested.skeleton({"b": one}) != nested.skeleton([one])
    assert list(nested.others([1, {"a": "s"}, one])) == [1, "s"]
