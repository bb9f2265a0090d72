"""The tf32 switch: argument, environment and launch; what a device without it says. No device here multiplies in tf32."""

from __future__ import annotations

import warnings

import pytest
import torch

from accel_runtime import Accelerator, launch_plan, tf32
from accel_runtime.launch_arguments import parse

from .ranks import RanksFailed, run_ranks


def _settings() -> tuple[str, bool]:
    return torch.get_float32_matmul_precision(), torch.backends.cudnn.allow_tf32


def _made(given=None, device_has_it=True):
    tf32.has_tf32 = lambda device: device_has_it  # in a child process only
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        Accelerator(cpu=True, tf32=given)
    return _settings(), [str(w.message) for w in caught]


@pytest.mark.parametrize(
    ("given", "variable", "expected"),
    [(True, None, ("high", True)), (False, None, ("highest", False)), (None, "true", ("high", True)), (None, "no", ("highest", False)),
     (False, "true", ("highest", False)), (None, None, ("highest", True))],
)  # fmt: skip
def test_the_argument_goes_before_the_launch(given, variable, expected):
    env = {"ACCELERATE_TF32": variable} if variable else None
    assert run_ranks(_made, 1, given, env=env) == [(expected, [])]


def test_a_device_without_it_says_so_once_and_keeps_its_settings():
    first, second = run_ranks(_made, 2, True, False)
    assert first == (("highest", True), ["tf32=True changes nothing: the CPU does not multiply in tf32, float32 stays what it is."])
    assert second == (("highest", True), [])
    assert not tf32.has_tf32(torch.device("cpu"))


def test_the_scripts_own_settings_by_torchs_newer_names_are_taken_over():
    def body():
        if not hasattr(torch.backends, "fp32_precision"):
            return _settings(), _settings()
        torch.backends.fp32_precision = "ieee"
        on = _made(True)[0]
        torch.backends.cuda.matmul.fp32_precision = "tf32"
        return on, _made(False)[0]

    assert run_ranks(body, 1)[0] in [(("high", True), ("highest", False)), (("highest", True),) * 2]


def test_a_variable_that_says_neither():
    with pytest.raises(RanksFailed, match="ACCELERATE_TF32 is 'maybe': it must be 'true' or 'false'"):
        run_ranks(_made, 1, env={"ACCELERATE_TF32": "maybe"})


@pytest.mark.parametrize(("text", "value"), [("true", "true"), ("no", "false")])
def test_launch_and_file(text, value, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "a.py").touch()
    assert launch_plan.make(parse(["--cpu", "--tf32", text, "a.py"])).environment["ACCELERATE_TF32"] == value
    (tmp_path / "accel.yaml").write_text(f"use_cpu: true\ntf32: {text}\n")
    assert launch_plan.make(parse(["a.py"])).environment["ACCELERATE_TF32"] == value
    (tmp_path / "accel.yaml").write_text("use_cpu: true\n")
    assert "ACCELERATE_TF32" not in launch_plan.make(parse(["a.py"])).environment
