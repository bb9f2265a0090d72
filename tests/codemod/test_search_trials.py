"""Searches for settings that train in each trial."""

from __future__ import annotations

import pytest

from codemod.marked import STEP, script
from codemod.memory import migrated

BODY = "".join(f"    {line}\n" for line in STEP.splitlines())
SEARCHES = {
    "optuna": "import optuna\nstudy = optuna.create_study(direction='minimize')\nstudy.optimize(objective, n_trials=3)\n",
    "hyperopt": "from hyperopt import fmin\nfmin(fn=objective, space=[1, 2])\n",
}


@pytest.mark.parametrize("search", SEARCHES)
def test_a_search_whose_trials_train_is_reported(search: str) -> None:
    result = migrated(script(f"def objective(trial):\n{BODY}    return 0\n\n\n{SEARCHES[search]}"))
    assert [f.rule for f in result.findings] == ["search-trials"]


def test_a_search_that_trains_nothing_is_not() -> None:
    code = f"def objective(trial):\n    return trial.number\n\n\n{SEARCHES['optuna']}{STEP}"
    assert "search-trials" not in {f.rule for f in migrated(script(code)).findings}
