"""What functions answer that ask for ranks: `get_rank`, `is_main_process`, `is_dist_avail_and_initialized`."""

from __future__ import annotations

import ast
from collections.abc import Callable
from typing import TYPE_CHECKING

from accel_migrate.facts.rank_names import Meaning
from accel_migrate.facts.rank_tests import stands_for_one

if TYPE_CHECKING:
    from accel_migrate.facts.ranks import Ranks


class Answers:
    """What a function returns, told from its `if`s: `if not dist.is_initialized(): return False`, then `return True`."""

    def __init__(self, ranks: Ranks) -> None:
        self.ranks = ranks

    def of_block(self, block: list[ast.stmt]) -> Meaning | bool | str | None:
        """A meaning, True or False, `""` for a constant that stands in for one process; None where that is unknown."""
        for index, statement in enumerate(block):
            if isinstance(statement, ast.Return):
                return self._returned(statement.value)
            if isinstance(statement, ast.If):
                return self._either(statement.test, statement.body, statement.orelse or block[index + 1 :])
            if isinstance(statement, ast.With | ast.Try | ast.For | ast.While | ast.Match):
                return None
        return None

    def _returned(self, value: ast.expr | None) -> Meaning | bool | str | None:
        if isinstance(value, ast.Constant) and isinstance(value.value, bool):
            return value.value
        if value is None:
            return None
        return "" if stands_for_one(value) else self.ranks.of(value)

    def _either(self, test: ast.expr, body: list[ast.stmt], rest: list[ast.stmt]) -> Meaning | bool | str | None:
        first, second, condition = self.of_block(body), self.of_block(rest), self.ranks.of(test)
        if "" in (first, second):
            return second if first == "" else first
        if condition is None or first is None or second is None:
            return None
        if first is False:
            return condition.opposite() if second is True else self._combined(self.ranks.all_of, condition.opposite(), second)
        if first is True:
            return condition if second is False else self._combined(self.ranks.any_of, condition, second)
        return first if first == second else None

    def _combined(self, join: Callable[[list[Meaning | None]], Meaning | None], condition: Meaning, other: Meaning | bool | str) -> Meaning | None:
        return join([condition, other]) if isinstance(other, Meaning) else None
