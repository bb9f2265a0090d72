"""Configuration files: what is understood, and that every problem names its line."""

from __future__ import annotations

from pathlib import Path

import pytest

from accel_runtime.settings import reading
from accel_runtime.settings.errors import LaunchError
from accel_runtime.settings.foreign import UNUSED
from accel_runtime.settings.table import SETTINGS


def content(folder: Path, text: str, name: str = "accel.yaml") -> reading.Content:
    file = folder / name
    file.write_text(text)
    return reading.read(file)


@pytest.mark.parametrize(
    ("text", "line", "message"),
    [
        (
            "num_processes: 2\nnum_procesess: 3\n",
            2,
            "there is no num_procesess (did you mean num_processes?): in `num_procesess: 3`",
        ),
        ("# why\n\nnum_processes: two\n", 3, "num_processes: 'two' is not an integer from 1 up"),
        ("num_processes: 2\nuse_cpu: true\nnum_processes: 4\n", 3, "num_processes stands in line 1 already"),
        ("num_processes: [2, 3]\n", 1, "num_processes must be one value"),
        ("main_process_port: 99999\n", 1, "'99999' is not a port"),
        ("use_cpu: perhaps\n", 1, "'perhaps' is neither true nor false"),
        ("distributed_type: FSDP\nfsdp_config:\n  fsdp_version: 3\n", 3, "fsdp_version: '3' is not one of 1, 2"),
        (
            "distributed_type: FSDP\nfsdp_config:\n  num_processes: 3\n",
            3,
            "there is no num_processes in fsdp_config (it stands outside of it)",
        ),
        ("fsdp_version: 2\n", 1, "there is no fsdp_version (it stands in fsdp_config)"),
        ("distributed_type: FSDP\nfsdp_config: 2\n", 2, "fsdp_config must be a mapping"),
        ("mixed_precision: fp61\n", 1, "mixed_precision: 'fp61' is not one of no"),
    ],
)
def test_every_problem_has_its_line(tmp_path, text, line, message):
    problem = content(tmp_path, text).problems[0]
    assert problem.line == line and message in str(problem)


def test_all_problems_are_found_and_the_first_is_raised(tmp_path):
    file = tmp_path / "accel.yaml"
    file.write_text("a: 1\nnum_processes: 0\nb: 2\n")
    with pytest.raises(LaunchError, match=r"accel.yaml:1: there is no a: in `a: 1` \(2 more: accel config check "):
        reading.usable(file)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            '{"train_batch_size": 8, "zero_optimization": {"stage": 2}}',
            "DeepSpeed's own configuration: pass it as --use_deepspeed --deepspeed_config_file",
        ),
        ("compute_environment: AMAZON_SAGEMAKER\n", "only LOCAL_MACHINE"),
        ("- 1\n", ":1: the file must hold a YAML mapping"),
        ("a: 1\n b: 2\n", ":2: not valid YAML: mapping values are not allowed here: in `b: 2`"),
        ("a: &b [*b]\n*c\n", "not valid YAML"),
    ],
)
def test_what_is_no_configuration_of_a_launch(tmp_path, text, message):
    with pytest.raises(LaunchError) as raised:
        content(tmp_path, text)
    assert message in str(raised.value) and "\n" not in str(raised.value)


def test_files_that_are_not_there_or_not_text(tmp_path):
    with pytest.raises(LaunchError, match=r"cannot read .*: No such file"):
        reading.read(tmp_path / "no.yaml")
    (tmp_path / "x").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(LaunchError, match="it is not UTF-8"):
        reading.read(tmp_path / "x")


def test_an_empty_file_says_nothing(tmp_path):
    assert content(tmp_path, "").values == content(tmp_path, "# only a comment\n").values == {}


def test_json_is_read_too(tmp_path):
    assert (
        content(tmp_path, '{"num_processes": 2, "distributed_type": "MULTI_GPU"}', "a.json").values["num_processes"]
        == 2
    )


def test_accelerates_files_of_several_years(tmp_path):
    first = content(
        tmp_path,
        "compute_environment: LOCAL_MACHINE\ndistributed_type: MULTI_GPU\nfp16: true\nmain_process_ip: null\nnum_processes: 4\n",
    )
    assert first.values == {"distributed_type": "MULTI_GPU", "mixed_precision": "fp16", "num_processes": 4}
    second = content(
        tmp_path,
        "distributed_type: FSDP\ndowncast_bf16: 'no'\nfsdp_config:\n  min_num_params: 2000\n  sharding_strategy: 2\n"
        "  fsdp_backward_prefetch_policy: BACKWARD_PRE\n  offload_params: true\ndynamo_config: {}\ntpu_env: []\n",
    )
    assert not second.problems and not second.unused
    assert second.values == {
        "distributed_type": "FSDP",
        "use_fsdp": True,
        "fsdp_min_num_params": 2000,
        "fsdp_sharding_strategy": "SHARD_GRAD_OP",
        "fsdp_backward_prefetch": "BACKWARD_PRE",
        "fsdp_offload_params": True,
    }


def test_sections_of_strategies_that_are_off_say_nothing(tmp_path):
    text = "distributed_type: 'NO'\nfsdp_config:\n  fsdp_version: 2\ndeepspeed_config:\n  zero_stage: 3\n"
    assert content(tmp_path, text).values == {"distributed_type": "NO", "num_processes": 1}


def test_a_cpu_type_trains_on_the_cpu_and_sizes_turn_parallelism_on(tmp_path):
    assert content(tmp_path, "distributed_type: MULTI_CPU\nuse_cpu: false\n").values["cpu"] is True
    assert (
        content(tmp_path, "parallelism_config:\n  parallelism_config_tp_size: 2\n").values["use_parallelism_config"]
        is True
    )


def test_what_is_asked_for_in_vain_is_said_and_what_asks_for_nothing_is_not(tmp_path):
    asked = content(
        tmp_path,
        "dynamo_config:\n  dynamo_backend: INDUCTOR\nenable_cpu_affinity: true\nmpirun_config:\n  mpirun_hostfile: /h\n",
    )
    assert [remark.line for remark in asked.unused] == [1, 3, 4]
    assert "torch.compile(model)" in str(asked.unused[0])
    nothing = content(
        tmp_path,
        "dynamo_config:\n  dynamo_backend: 'NO'\n  dynamo_mode: default\nenable_cpu_affinity: false\nmpirun_config: {}\n",
    )
    assert not nothing.unused and not nothing.problems


def test_no_setting_is_also_called_unused():
    assert not {key for section, key in (s.place for s in SETTINGS.values()) if not section} & set(UNUSED)
