"""Clocks, memory and signals differ between processes; where they steer training the processes agree first."""

from __future__ import annotations

import pytest

from accel_migrate.result import Options
from codemod.marked import STEP, in_step, script
from codemod.memory import after, migrated

ID = "rank-dependent-branch"
LOOP = STEP.replace("\n", "\n    ").rstrip()


def agreed(test: str) -> str:
    return f"if {test}:\n        accelerator.set_trigger()\n    if accelerator.check_trigger():\n        break"


@pytest.mark.parametrize(
    ("before", "test"),
    [
        ("import time", "time.time() - start > 600"),
        ("import time\nbudget = 600", "step > 10 or time.perf_counter() > budget"),
        ("import datetime", "(datetime.datetime.now() - start).total_seconds() > 600"),
        ("import psutil", "psutil.virtual_memory().percent > 90"),
        ("from time import monotonic\n\n\ndef late():\n    return monotonic() > 9\n\n", "late()"),
        ("import os", "os.path.exists('stop')"),
        ("import signal\nstopped = False\n\n\ndef stop(number, frame):\n    global stopped\n    stopped = True\n\n\nsignal.signal(signal.SIGTERM, stop)", "stopped"),
    ],
)
def test_a_loop_ends_on_all_processes_at_once(before: str, test: str) -> None:
    code = f"{before}\n{STEP}    if {test}:\n        break"
    assert agreed(test) in after(migrated(script(code)))
    assert agreed(test) in after(migrated(script(code), Options(target="accelerate")))


def test_elapsed_times_are_followed_through_variables_and_attributes() -> None:
    code = f"import time\n\n\nclass Timer:\n    def __init__(self):\n        self.start = time.time()\n\n\ntimer = Timer()\n{STEP}    spent = round(9 - timer.start)\n    if spent > 5:\n        break"
    assert agreed("spent > 5") in after(migrated(script(code)))


def test_a_loop_that_runs_until_a_time() -> None:
    result = after(migrated(script(f"import time\nend = time.time() + 9\nwhile time.time() < end:\n    {LOOP}")))
    assert "while True:\n    if time.time() >= end:\n        accelerator.set_trigger()\n    if accelerator.check_trigger():\n        break\n    for x, y" in result


def test_what_is_reduced_under_a_clock_is_reduced_by_all() -> None:
    result = after(migrated(in_step("import time\nif time.time() - shown > 10:\n    print(loss.item())\n    shown = time.time()")))
    assert "    if accelerator.check_trigger():\n        accelerator.print(accelerator.global_mean(loss).item())" in result


@pytest.mark.parametrize(
    "code",
    [
        "import time\nstart = time.time()\nif time.time() - start > 1:\n    print('slow')",
        "import time\nspent = time.time()\nprint(f'{spent:.1f}')\nif step > 10:\n    break",
        "import os\nif not os.path.exists('runs'):\n    os.makedirs('runs')",
        "for i in range(len(y)):\n    if y[i] == 1:\n        continue",
        "if y[0] is None:\n    continue",
        "import time\nloss = F.mse_loss(out, out) * (time.time() > 0)",
    ],
)
def test_where_no_process_waits_nothing_changes(code: str) -> None:
    result = migrated(in_step(code))
    assert "trigger" not in after(result)
    assert ID not in {finding.rule for finding in result.findings}


@pytest.mark.parametrize(
    "code",
    [
        "if y[0] == 1:\n    continue",
        "if step and not y[0] == 1:\n    break",
        "import time\nif step > 100:\n    break\nelif time.time() > 600:\n    break",
        "import time\nfor group in optimizer.param_groups:\n    group['lr'] = 0.1 * (1 - time.time() / 600)",
    ],
)
def test_what_cannot_be_agreed_on_in_place_is_reported(code: str) -> None:
    assert ID in {finding.rule for finding in migrated(in_step(code)).findings}


def test_all_processes_wait_before_they_look_for_a_file_of_the_main_one() -> None:
    code = f"import os\n{STEP}torch.save(model.state_dict(), 'm.pt')\nif os.path.exists('m.pt'):\n    model.load_state_dict(torch.load('m.pt'))"
    assert "accelerator.wait_for_everyone()\nif os.path.exists('m.pt'):\n    model.load" in after(migrated(script(code)))


@pytest.mark.parametrize("line", ["os.remove('a') if os.path.exists('a') else None", "os.path.exists('a') and os.remove('a')", "[os.remove(f) for f in 'ab']"])
def test_files_are_removed_by_the_main_process(line: str) -> None:
    assert f"if accelerator.is_main_process:\n    {line}" in after(migrated(script(f"import os\n{STEP}{line}")))


@pytest.mark.parametrize(
    ("shown", "becomes"),
    [
        ("x.shape", "accelerator.gather_for_metrics(x).shape"),
        ("f'{out.size()}'", "f'{accelerator.gather_for_metrics(out).size()}'"),
        ("list(x.shape)", "list(accelerator.gather_for_metrics(x).shape)"),
        ("x.shape[1:], x.size(1)", "x.shape[1:], x.size(1)"),
        ("x.shape[0]", "accelerator.global_len(x)"),
    ],
)
def test_shapes_are_shown_of_the_global_batch(shown: str, becomes: str) -> None:
    assert f"accelerator.print({becomes})" in after(migrated(in_step(f"print({shown})")))
