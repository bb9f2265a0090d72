"""What each library's Accelerator takes: the tables are those of the constructors, and what is passed over is said."""

from __future__ import annotations

import inspect
from importlib import import_module

import pytest

from accel_migrate.check.check import Wanted, check
from accel_migrate.check.rules.accelerator_arguments import ID, KNOWN
from codemod.memory import program


@pytest.mark.parametrize("library", KNOWN)
def test_the_table_is_the_constructors_signature(library: str) -> None:
    pytest.importorskip(library)
    names = set(inspect.signature(import_module(library).Accelerator.__init__).parameters) - {"self"}
    assert KNOWN[library] == names


@pytest.mark.parametrize(
    ("library", "arguments", "severities"),
    [
        pytest.param("accelerate", "split_batches=True", ["warning"], id="passed over by Accelerate"),
        pytest.param("accel_runtime", "split_batches=True", [], id="the exact mode of accel_runtime"),
        pytest.param("accelerate", "split_batches=False", [], id="what it does anyway"),
        pytest.param("accelerate", "logging_dir='logs'", ["warning"], id="of an older version"),
        pytest.param("accelerate", "deepspeed_plugin={'zero_stage': 2}", ["error"], id="settings for a plugin"),
        pytest.param("accelerate", "deepspeed_plugin={'a': plugin(), 'b': plugin()}", [], id="plugins by name"),
        pytest.param("accel_runtime", "deepspeed_plugin={'zero_stage': 2}", [], id="settings that accel_runtime takes"),
        pytest.param("accel_runtime", "torch_tp_plugin=plugin()", ["error"], id="a plugin that accel_runtime lacks"),
        pytest.param("accelerate", "**settings", [], id="not to be seen"),
    ],
)
def test_arguments(library: str, arguments: str, severities: list[str]) -> None:
    text = f"from {library} import Accelerator\n\naccelerator = Accelerator({arguments})\n"
    faults = check(program(text), Wanted(select=frozenset({ID}))).faults
    assert [fault.severity.value for fault in faults] == severities
