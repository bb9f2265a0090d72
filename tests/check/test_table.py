"""The table of precision and recall counts what it is told."""

from __future__ import annotations

from check.table import Tally


def test_shares_are_of_what_was_wanted_and_of_what_came() -> None:
    tally = Tally()
    tally.add(["a"], ["a", "b"])
    tally.add(["a"], ["c"], also_true=["c"])
    tally.add([], ["a"])
    assert list(tally.lines("abc"))[2:] == [
        "| a | 2 | 1 | 50 % | 1 | 50 % |",
        "| b | 0 | 0 | - | 1 | 0 % |",
        "| c | 0 | 0 | - | 0 | - |",
        "| all | 2 | 1 | 50 % | 2 | 33 % |",
    ]
