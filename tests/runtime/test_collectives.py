"""Collectives on nested data: values, shapes, and errors that reach every process."""

from __future__ import annotations

from collections import namedtuple

import pytest
import torch
from torch.utils.data import DataLoader

from accel_runtime import agreement
from accel_runtime import collectives as c
from accel_runtime.world import World

from .ranks import run_ranks
from .training import accelerated, data

Pair = namedtuple("Pair", "x y")


def on(n, fn):
    return run_ranks(lambda: fn(World.from_environment()), n)


@pytest.mark.parametrize("n", [1, 2, 3])
def test_gather_keeps_types_order_and_containers(n):
    def body(world):
        r = world.rank
        data = {
            "p": Pair(torch.full((2, 3), r), [torch.tensor([r == 0, True])]),
            "c": torch.full((1, 2), complex(r, 1)),
            "h": torch.full((3,), r, dtype=torch.bfloat16),
            "e": torch.empty(0, 4),
            "s": torch.tensor(float(r)),
        }
        return c.gather(world, data)

    for got in on(n, body):
        ranks = torch.arange(n)
        assert isinstance(got["p"], Pair)
        assert got["p"].x.equal(ranks.repeat_interleave(2)[:, None].expand(-1, 3))
        assert got["p"].y[0].tolist() == [flag for r in range(n) for flag in (r == 0, True)]
        assert got["c"].tolist() == [[complex(r, 1)] * 2 for r in range(n)]
        assert got["h"].dtype is torch.bfloat16 and got["h"].tolist() == [float(r) for r in range(n) for _ in range(3)]
        assert got["e"].shape == (0, 4)
        assert got["s"].shape == (() if n == 1 else (n,))


def test_gather_of_one_tensor_and_of_more_tensors_than_the_first_header_holds():
    def body(world):
        one = c.gather(world, torch.arange(5) + 10 * world.rank)
        many = c.gather(world, [torch.full((1, 1, 1), i + world.rank) for i in range(40)])
        return one, [t.flatten().tolist() for t in many]

    for one, many in on(2, body):
        assert one.tolist() == [0, 1, 2, 3, 4, 10, 11, 12, 13, 14]
        assert many == [[i, i + 1] for i in range(40)]


def test_different_shapes_are_named_on_every_process():
    def body(world):
        with pytest.raises(ValueError, match=r"process 0 has \[3\] float32; process 1 has \[4\] float32") as caught:
            c.gather(world, torch.zeros(3 + world.rank))
        c.barrier(world)
        return str(caught.value)

    first, second = on(2, body)
    assert first == second and "pad_across_processes" in first


def test_different_calls_and_keys_are_errors_on_every_process():
    def body(world):
        with pytest.raises(ValueError, match=r"different collective operations: ranks \[0\] against \[1\]"):
            c.gather(world, torch.zeros(2)) if world.is_main else c.reduce(world, torch.zeros(2))
        with pytest.raises(ValueError, match="different structures or keys"):
            c.gather(world, {"a" if world.is_main else "b": torch.zeros(2)})
        with pytest.raises(c.DistributedOperationException, match=r"process 1 has \[1, 1\]"):
            c.pad_across_processes(world, torch.zeros([1] * (1 + world.rank)))
        with pytest.raises(TypeError, match="got str; use gather_object"):
            c.gather(world, ["text"])

    on(2, body)


def test_gather_rows_allows_different_lengths():
    def body(world):
        return c.gather_rows(world, (torch.full((world.rank, 2), world.rank), torch.arange(world.rank)))

    for rows, numbers in on(3, body):
        assert rows.tolist() == [[1, 1], [2, 2], [2, 2]]
        assert numbers.tolist() == [0, 0, 1]


@pytest.mark.parametrize("n", [1, 2, 3])
def test_reduce(n):
    def body(world):
        r = world.rank
        return c.reduce(world, [torch.tensor([r, 1]), torch.tensor(2.0 * r), torch.tensor(True)], "mean" if n > 1 else "sum")

    for integers, scalar, flag in on(n, body):
        assert integers.tolist() == [(n - 1) / 2, 1]
        assert scalar.item() == n - 1
        assert flag.item() == 1
    sums = on(2, lambda world: c.reduce(world, torch.tensor([1, 2]), "sum", scale=2))
    assert sums[0].tolist() == [4, 8]
    assert [t.item() for t in on(2, lambda world: c.reduce(world, torch.tensor(world.rank), "max"))] == [1, 1]


def test_reduce_refuses_unknown_reductions():
    with pytest.raises(ValueError, match="must be 'mean', 'sum', 'max', 'min' or 'none'"):
        c.reduce(World(), torch.zeros(1), "median")


def test_broadcast_writes_in_place():
    def body(world):
        data = {"a": torch.full((2,), world.rank), "b": torch.tensor(float(world.rank))}
        returned = c.broadcast(world, data, from_process=1)
        assert returned["a"] is data["a"]
        return data["a"].tolist(), data["b"].item()

    assert on(3, body) == [([1, 1], 1.0)] * 3


def test_objects():
    def body(world):
        r = world.rank
        entries = c.broadcast_object_list(world, [r, {"r": r}], from_process=1)
        mine = c.scatter_object(world, ["a", {"b": 1}] if world.is_main else None)
        return entries, mine, c.gather_object(world, [r, str(r)])

    assert on(2, body) == [([1, {"r": 1}], "a", [0, "0", 1, "1"]), ([1, {"r": 1}], {"b": 1}, [0, "0", 1, "1"])]
    assert c.gather_object(World(), ["x"]) == ["x"]


def test_pad_across_processes():
    def body(world):
        t = torch.full((2, 1 + world.rank), 1.0)
        padded = c.pad_across_processes(world, {"t": t, "scalar": torch.tensor(3)}, dim=1, pad_index=-1)
        first = c.pad_across_processes(world, t, dim=-1, pad_first=True)
        return padded["t"].tolist(), padded["scalar"].item(), first.tolist()

    assert on(2, body) == [([[1, -1]] * 2, 3, [[0, 1]] * 2), ([[1, 1]] * 2, 3, [[1, 1]] * 2)]


@pytest.mark.parametrize("rows", [3, 1])
def test_rows_of_different_widths_are_refused_on_every_process(rows):
    """Padded to the longest sample of each process; with one row in all, process 1 only borrows it."""

    def program(trainer):
        (x, _) = next(iter(trainer.prepare(DataLoader(data(rows), rows))))
        with pytest.raises(ValueError, match=r"process 0 has \[\d, 4\] float32; process 1 has \[\d, 5\] float32; pad them with pad_across_processes"):
            trainer.gather_for_metrics(x[:, : 4 + trainer.process_index])
        padded = trainer.pad_across_processes(x[:, : 4 + trainer.process_index], dim=1)
        return {"shape": list(trainer.gather_for_metrics(padded).shape)}

    assert [got["shape"] for got in accelerated(program, 2)] == [[rows, 5]] * 2


def _messages(monkeypatch):
    """The sizes of the messages that leave from now on, in bytes."""
    sent = []
    for name in ("_all_gather_two", "all_gather_numbers"):
        plain = getattr(agreement, name)
        monkeypatch.setattr(agreement, name, lambda *args, plain=plain: (sent.append(plain), plain(*args))[1])
    plain = c.all_gather_into
    monkeypatch.setattr(c, "all_gather_into", lambda *args, **kwargs: (sent.append(plain), plain(*args, **kwargs))[1])
    return sent


def test_what_was_gathered_before_takes_one_message(monkeypatch):
    def body(world):
        sent = _messages(monkeypatch)
        shapes = [(300, 7), (2, 3), (50_000,), (200, 200, 5)]
        counts = []
        for turn in range(3):
            before = len(sent)
            for shape in shapes:
                got = c.gather(world, torch.full(shape, world.rank + turn))
                assert got.equal(torch.cat([torch.full(shape, rank + turn) for rank in range(world.size)]))
            c.reduce(world, torch.ones(1))
            counts.append(len(sent) - before)
        return counts

    for counts in on(2, body):
        assert counts[0] > 5 and counts[2] == 5


def test_a_shape_that_differs_from_last_time_is_found_and_the_next_ones_are_right():
    def body(world):
        for turn in range(6):
            mine = torch.arange(600) + world.rank
            if turn == 3:
                with pytest.raises(ValueError, match=r"process 0 has \[600\] int64; process 1 has \[599\] int64"):
                    c.gather(world, mine[world.rank :])
            assert c.gather_rows(world, mine[: 5 + turn * world.rank]).tolist() == [*range(5), *range(1, 6 + turn)]
            if turn == 4:
                with pytest.raises(ValueError, match="different collective operations"):
                    c.gather(world, mine) if world.is_main else c.broadcast(world, mine)
            assert c.gather(world, {"a": mine, "b": mine[:3] > 0})["a"].tolist() == [*range(600), *range(1, 601)]

    on(2, body)
