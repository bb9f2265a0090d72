"""What a launch starts, without starting it: `--dry-run`, the environment, the meeting point; and what failures report."""

from __future__ import annotations

import json
import shlex
import subprocess
import sys
from dataclasses import asdict
from types import SimpleNamespace

import pytest

from accel_runtime import launch, launch_plan
from accel_runtime.launch_arguments import parse
from accel_runtime.launch_notes import Note, Notes
from accel_runtime.launch_report import failed
from accel_runtime.megatron_plugin import default_megatron_plugin
from accel_runtime.settings import offered as offers


@pytest.fixture(autouse=True)
def own_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    monkeypatch.delenv("PYTHONHASHSEED", raising=False)


@pytest.fixture
def every_strategy(monkeypatch):
    monkeypatch.setattr("accel_runtime.launch_arguments.offered", lambda switch: True)


def test_a_dry_run_of_one_process_is_plain_python(capsys):
    assert launch.main(["--dry-run", "--cpu", "--mixed_precision", "bf16", __file__, "--name", "two words"]) == 0
    words = shlex.split(capsys.readouterr().out)
    assert words == [
        "ACCELERATE_MIXED_PRECISION=bf16",
        "ACCELERATE_USE_CPU=true",
        "PYTHONHASHSEED=0",
        sys.executable,
        "-u",
        __file__,
        "--name",
        "two words",
    ]


def test_a_tpu_is_one_process(capsys, tmp_path):
    file = tmp_path / "tpu.yaml"
    file.write_text("distributed_type: TPU\nnum_processes: 8\n")
    for asked in (["--tpu"], ["--config_file", str(file)]):
        assert launch.main(["--dry-run", *asked, __file__]) == 0
        assert "ACCELERATE_TORCH_DEVICE=xla" in capsys.readouterr().out
    for also in (["--cpu"], ["--num_processes", "8"]):
        assert launch.main(["--tpu", *also, __file__]) == 2
        assert len(capsys.readouterr().err.splitlines()) == 1


def test_a_dry_run_of_several_is_torchrun(capsys):
    assert (
        launch.main(
            ["--dry-run", "--cpu", "--num_processes", "2", "--num_cpu_threads_per_process", "3", __file__, "-x"]
        )
        == 0
    )
    line = capsys.readouterr().out
    assert "OMP_NUM_THREADS=3" in line
    assert line.rstrip().endswith(
        f"torchrun --nnodes 1 --nproc-per-node 2 --rdzv-backend c10d --rdzv-endpoint localhost:0 {__file__} -x"
    )


def test_a_dry_run_on_the_second_of_two_machines(capsys, monkeypatch):
    monkeypatch.setattr(launch_plan, "address_towards", lambda host: "10.0.0.2")
    monkeypatch.setattr(launch_plan, "interface_towards", lambda host: None)
    machines = [
        "--cpu",
        "--num_machines",
        "2",
        "--machine_rank",
        "1",
        "--main_process_ip",
        "10.0.0.1",
        "--main_process_port",
        "1234",
    ]
    assert launch.main(["--dry-run", *machines, "--num_processes", "4", __file__]) == 0
    assert (
        "--nproc-per-node 2 --rdzv-backend static --node-rank 1 --master-addr 10.0.0.1 --master-port 1234 --rdzv-conf timeout=900"
        in capsys.readouterr().out
    )
    assert launch.main(["--dry-run", *machines, "--rdzv_backend", "c10d", __file__]) == 0
    assert (
        "--rdzv-backend c10d --rdzv-endpoint 10.0.0.1:1234 --local-addr 10.0.0.2 --rdzv-conf is_host=false"
        in capsys.readouterr().out
    )


def test_the_printed_torchrun_command_is_one_that_torchrun_takes(capsys):
    from torch.distributed.run import get_args_parser

    assert (
        launch.main(
            [
                "--dry-run",
                "--cpu",
                "--num_processes",
                "2",
                "--max_restarts",
                "1",
                "--log_dir",
                "logs",
                __file__,
                "--a",
                "b",
            ]
        )
        == 0
    )
    words = shlex.split(capsys.readouterr().out)
    arguments = get_args_parser().parse_args(words[words.index("torchrun") + 1 :])
    assert (arguments.nproc_per_node, arguments.max_restarts, arguments.log_dir) == ("2", 1, "logs")
    assert (arguments.training_script, arguments.training_script_args) == (__file__, ["--a", "b"])


def test_only_what_is_given_of_a_strategy_reaches_the_processes(every_strategy):
    options = parse(
        [
            "--cpu",
            "--use_fsdp",
            "--fsdp_offload_params",
            "False",
            "--fsdp_transformer_layer_cls_to_wrap",
            "Block",
            __file__,
        ]
    )
    environment = launch_plan.make(options).environment
    fsdp = {name: value for name, value in environment.items() if "FSDP" in name}
    assert fsdp == {
        "ACCELERATE_USE_FSDP": "true",
        "FSDP_OFFLOAD_PARAMS": "false",
        "FSDP_TRANSFORMER_CLS_TO_WRAP": "Block",
    }


def test_sizes_and_deepspeed_by_accelerates_variables(every_strategy):
    options = parse(
        [
            "--cpu",
            "--use_parallelism_config",
            "--parallelism_config_tp_size",
            "2",
            "--use_deepspeed",
            "--zero_stage",
            "2",
            __file__,
        ]
    )
    environment = launch_plan.make(options).environment
    assert environment["PARALLELISM_CONFIG_TP_SIZE"] == environment["ACCELERATE_DEEPSPEED_ZERO_STAGE"] == "2"
    assert environment["ACCELERATE_USE_PARALLELISM_CONFIG"] == environment["ACCELERATE_USE_DEEPSPEED"] == "true"


def test_degrees_of_megatron_by_accelerates_flags(monkeypatch):
    asked = {"tp_degree": "2", "use_distributed_optimizer": "true", "num_micro_batches": "4", "gradient_clipping": "1.0"}
    flags = [text for name, value in asked.items() for text in (f"--megatron_lm_{name}", value)]
    environment = launch_plan.make(parse(["--cpu", "--use_megatron_lm", *flags, __file__])).environment
    for name in [name for name in environment if "MEGATRON" in name]:
        monkeypatch.setenv(name, environment[name])
    with pytest.warns(UserWarning, match="MegatronLMPlugin: num_micro_batches changes nothing") as caught:
        plugin = default_megatron_plugin()
    assert (plugin.tp_degree, plugin.pp_degree, plugin.use_distributed_optimizer) == (2, 1, True)
    assert "gradient_clipping" not in str(caught[0].message)


def test_a_strategy_that_the_runtime_lacks_is_refused(capsys, monkeypatch):
    monkeypatch.setattr(offers, "_HOMES", dict.fromkeys(offers._HOMES, "no_such_strategy"))
    assert launch.main(["--use_deepspeed", __file__]) == 2
    assert capsys.readouterr().err.startswith("accel launch: --use_deepspeed: the runtime does not have this strategy")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--fsdp_version", "2"], "--fsdp_version needs --use_fsdp"),
        (["--zero_stage", "2"], "--zero_stage needs --use_deepspeed"),
        (["--module", "--no_python"], "exclude each other"),
        (["--tee", "3"], "--tee needs --log_dir"),
        (["--log_dir", "logs", "--tee", "7", "--num_processes", "2", "--cpu"], "--tee: '7' is not 0, 1, 2, 3"),
        (["--rdzv_conf", "timeout", "--num_processes", "2", "--cpu"], "--rdzv_conf: 'timeout' is not of the form"),
        (["--dynamo_backend", "inductor"], "models are compiled in the script"),
        (["--config_file", "none.yaml"], "cannot read none.yaml: No such file"),
    ],
)
def test_what_cannot_be_is_one_line_and_exit_code_2(arguments, message, capsys):
    assert launch.main([*arguments, __file__]) == 2
    error = capsys.readouterr().err
    assert message in error and error.count("\n") == 1


def test_the_projects_own_file_is_read_without_being_named(tmp_path, capsys):
    (tmp_path / "accel.yaml").write_text("num_processes: 3\nuse_cpu: true\ndynamo_backend: inductor\n")
    assert launch.main(["--dry-run", __file__]) == 0
    out, err = capsys.readouterr()
    assert "--nproc-per-node 3" in out and err.startswith("accel launch: accel.yaml:3: dynamo_backend is not used")


def test_nothing_of_torch_is_imported_to_say_what_is_wrong(tmp_path):
    code = "import sys\nfrom accel_runtime import launch\nassert launch.main(['missing.py']) == 2\nassert 'torch' not in sys.modules"
    root = str(launch_plan.Path(launch.__file__).parents[1])
    assert (
        subprocess.run(
            [sys.executable, "-c", code], env={"PYTHONPATH": root}, capture_output=True, timeout=60
        ).returncode
        == 0
    )


def failures(folder, *notes: tuple[int, Note | None]) -> tuple[str, int]:
    for pid, (_, note) in enumerate(notes):
        if note is not None:
            (folder / str(pid)).write_text(json.dumps(asdict(note)))
    return failed(
        {rank: SimpleNamespace(pid=rank, exitcode=code) for rank, (code, _) in enumerate(notes)},
        Notes(str(folder)),
        len(notes),
    )


def test_what_the_first_process_has_shown_is_not_repeated(tmp_path):
    shown = Note(1, traceback="Traceback\n  x\nKeyError: 'a'\n", shown=True)
    text, code = failures(
        tmp_path,
        (1, Note(2, traceback="Traceback\n  y\nKeyError: 'a'\n")),
        (1, shown),
        (1, Note(3, left_alone=True, traceback="Z")),
    )
    assert code == 1
    assert text.splitlines() == [
        "the same on process 0",
        "accel launch: process 1 of 3 failed first, with exit code 1; the others were stopped",
    ]


LOST = Note(2, left_alone=True, traceback="Traceback\nRuntimeError: Connection closed\n")


def test_a_killed_process_is_named_and_one_that_lost_it_says_nothing(tmp_path):
    text, code = failures(tmp_path, (-9, None), (1, LOST))
    lines = text.splitlines()
    assert code == 137 and len(lines) == 2
    assert lines[0].startswith("accel launch: process 0 of 2 failed first, killed by signal 9 (SIGKILL)") and "dmesg" in lines[1]


def test_a_lost_connection_is_shown_where_nothing_else_tells_the_cause(tmp_path):
    text, code = failures(tmp_path, (-6, None), (1, LOST))
    assert code == 134 and text.splitlines()[:3] == ["process 1:", "Traceback", "RuntimeError: Connection closed"]


def test_two_causes_are_both_shown(tmp_path):
    first = Note(1, traceback="Traceback\nKeyError: 'a'\n", shown=True)
    text, _ = failures(tmp_path, (1, first), (1, Note(2, traceback="Traceback\nValueError: b\n")))
    assert text.splitlines()[:3] == ["process 1:", "Traceback", "ValueError: b"]


def test_what_many_say_is_said_once_with_their_numbers(tmp_path):
    same = "Traceback\nKeyError: 'a'\n"
    notes = [(3, Note(2 + rank, traceback=same)) for rank in range(6)]
    notes[4] = (3, Note(1, traceback=same, shown=True))
    text, code = failures(tmp_path, *notes)
    assert (text.splitlines()[0], code) == ("the same on processes 0-3, 5", 3)
    notes[2] = (3, Note(9, traceback="Traceback\nValueError: b\n"))
    assert failures(tmp_path, *notes)[0].splitlines() == [
        "KeyError: 'a', as above, on processes 0, 1, 3, 5",
        "process 2:",
        "Traceback",
        "ValueError: b",
        "accel launch: process 4 of 6 failed first, with exit code 3; the others were stopped",
    ]
