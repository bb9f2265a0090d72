"""`accel config`: files that are written, checked and brought up to date, and the questions."""

from __future__ import annotations

import pytest

from accel_runtime.commands import config, questions
from accel_runtime.settings import reading
from accel_runtime.settings.comments import own
from accel_runtime.settings.errors import LaunchError
from accel_runtime.settings.offered import SWITCH_OF
from accel_runtime.settings.table import SETTINGS
from accel_runtime.settings.writing import written


@pytest.fixture(autouse=True)
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


EXAMPLES = {
    "TEXT": "text with: a colon",
    "FILE": "ds.json",
    "N": 3,
    "PORT": 1234,
    "SECONDS": 0.5,
    "X": 1.5,
    "all|0,1,...": "0,1",
    "true|false": True,
    "": True,
}


def test_every_setting_is_written_so_that_it_reads_as_the_same(here):
    values = {
        s.name: s.kind.choices[0] if s.kind.shown not in EXAMPLES else EXAMPLES[s.kind.shown]
        for s in SETTINGS.values()
        if s.in_file
    }
    of = {"FSDP": "fsdp_config", "DEEPSPEED": "deepspeed_config", "MEGATRON_LM": "megatron_lm_config"}
    for kind, switch in SWITCH_OF.items():
        if kind == "XLA":
            values.pop("num_processes")  # always one
        file = here / f"{kind}.yaml"
        file.write_text(written({**values, "distributed_type": kind}))
        content = reading.read(file)
        assert not content.problems and not content.old and not content.unused
        off = {section for other, section in of.items() if other != kind}
        expected = {name: value for name, value in values.items() if SETTINGS[name].section not in off}
        assert content.values == {**expected, "distributed_type": kind, switch: True, "use_parallelism_config": True}


def test_default_writes_what_is_given_and_never_over_a_file(here, capsys):
    assert (
        config.main(
            [
                "default",
                "--num_processes",
                "2",
                "--mixed_precision",
                "no",
                "--use_fsdp",
                "--fsdp_offload_params",
                "true",
            ]
        )
        == 0
    )
    assert reading.read(here / "accel.yaml").values == {
        "num_processes": 2,
        "mixed_precision": "no",
        "distributed_type": "FSDP",
        "use_fsdp": True,
        "fsdp_offload_params": True,
    }
    assert config.main(["default"]) == 2
    assert "accel.yaml is there already" in capsys.readouterr().err
    assert config.main(["default", "--force"]) == 0
    assert reading.read(here / "accel.yaml").values == {}


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["defaults"], "invalid choice: 'defaults'"),
        (["default", "--num_processes", "x"], "'x' is not an integer"),
        (["default", "--config_file", "no/such/accel.yaml"], "cannot write no/such/accel.yaml: No such file"),
        (["check"], "cannot read accel.yaml"),
        (["update", "none.yaml"], "cannot read none.yaml"),
        ([], "asking needs a terminal"),
    ],
)
def test_bad_usage_is_one_line_and_exit_code_2(arguments, message, capsys):
    assert config.main(arguments) == 2
    error = capsys.readouterr().err
    assert message in error and error.count("\n") == 1


def test_check_names_every_problem(here, capsys):
    (here / "accel.yaml").write_text("a: 1\nnum_processes: 2\nb: 2\nenable_cpu_affinity: true\n")
    assert config.main(["check"]) == 1
    assert [line.split(" ")[0] for line in capsys.readouterr().out.splitlines()] == [
        "accel.yaml:1:",
        "accel.yaml:3:",
        "accel.yaml:4:",
    ]
    (here / "accel.yaml").write_text("num_processes: 2\nsame_network: true\n")
    assert config.main(["check"]) == 0
    assert "no problem; `accel config update accel.yaml` would bring 1 entries up to date" in capsys.readouterr().out


OLD = """\
# our cluster, see the wiki
compute_environment: LOCAL_MACHINE
distributed_type: MULTI_GPU
fp16: true
# 8 and not 10: two are for evaluation
num_processes: 8  # per node
main_training_function: main
tpu_name: null
# the end
"""


def test_update_keeps_peoples_comments_and_is_done_once(here, capsys):
    file = here / "old.yaml"
    file.write_text(OLD)
    assert config.main(["update", "old.yaml"]) == 0
    assert "old.yaml:4: fp16 is now mixed_precision: fp16" in capsys.readouterr().out
    new = file.read_text()
    assert reading.read(file).values == {"num_processes": 8, "mixed_precision": "fp16"}
    for comment in ("# our cluster, see the wiki", "# 8 and not 10: two are for evaluation", "# per node", "# the end"):
        assert new.count(comment) == 1
    assert config.main(["update", "old.yaml"]) == 0
    assert file.read_text() == new and "is up to date" in capsys.readouterr().out


def test_update_writes_elsewhere_or_nothing(here, capsys):
    (here / "old.yaml").write_text(OLD)
    assert config.main(["update", "old.yaml", "--output", "accel.yaml"]) == 0
    assert (here / "old.yaml").read_text() == OLD and reading.read(here / "accel.yaml").values["num_processes"] == 8
    capsys.readouterr()
    assert config.main(["update", "old.yaml", "--dry-run"]) == 0
    assert capsys.readouterr().out == (here / "accel.yaml").read_text()
    assert config.main(["update", "old.yaml", "--output", "accel.yaml"]) == 2


def test_comments_behind_values_are_found_and_hashes_in_values_are_none():
    assert own("gpu_ids: '#1'\nmain_process_ip: a # why\n", {"gpu_ids": 1, "main_process_ip": 2}) == {
        "main_process_ip": ["# why"]
    }


def test_questions_follow_the_answers(monkeypatch):
    monkeypatch.setattr(questions, "offered", lambda switch: True)
    answers = {
        "num_machines": "2",
        "main_process_ip": "10.0.0.1",
        "rdzv_backend": "c10d",
        "distributed_type": "FSDP",
        "fsdp_auto_wrap_policy": "SIZE_BASED_WRAP",
    }
    asked: list[str] = []

    def ask(question: questions.Question) -> str:
        asked.append(question.name)
        return answers.get(question.name, question.default)

    assert questions.ask_all(ask, devices=8) == {
        "num_machines": 2,
        "main_process_ip": "10.0.0.1",
        "rdzv_backend": "c10d",
        "distributed_type": "FSDP",
        "fsdp_auto_wrap_policy": "SIZE_BASED_WRAP",
        "fsdp_min_num_params": 1000000,
    }
    assert "fsdp_transformer_layer_cls_to_wrap" not in asked and "zero_stage" not in asked


def test_enter_everywhere_says_nothing_on_a_machine_with_devices():
    assert questions.ask_all(lambda question: question.default, devices=4) == {}
    assert questions.ask_all(lambda question: question.default, devices=0) == {"cpu": True}


def test_answers_are_checked():
    count = next(question for question in questions.questions(0) if question.name == "num_processes")
    assert count.check("two") == "'two' is not an integer from 1 up" and count.check("") is None
    with pytest.raises(LaunchError, match="need the address of machine 0"):
        questions.ask_all(lambda question: "2" if question.name == "num_machines" else question.default, devices=0)


def test_the_questions_on_a_terminal():
    pytest.importorskip("questionary")
    from prompt_toolkit.application import create_app_session
    from prompt_toolkit.input import create_pipe_input
    from prompt_toolkit.output import DummyOutput

    precision = next(question for question in questions.questions(0) if question.name == "mixed_precision")
    count = next(question for question in questions.questions(0) if question.name == "num_processes")
    with create_pipe_input() as keys, create_app_session(input=keys, output=DummyOutput()):
        keys.send_text("\x1b[B\x1b[B\r")  # down, down, Enter
        assert questions.asked_on_terminal(precision) == "fp16"
        keys.send_text("x\r\x7f4\r")  # refused, taken back, typed again
        assert questions.asked_on_terminal(count) == "4"
