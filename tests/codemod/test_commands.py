"""Other programs that a script starts, and files that are fetched where they are missing."""

from __future__ import annotations

import pytest

from codemod.marked import STEP, in_step, script
from codemod.memory import after, migrated

HEAD = "import os\nimport subprocess\n"
MAIN = "if accelerator.is_main_process:"


@pytest.mark.parametrize(
    "command", ['os.system("./plot.py log.csv &")', 'subprocess.call(["convert", "*.png", "all.gif"])']
)
def test_a_command_is_run_once(command: str) -> None:
    assert f"{MAIN}\n        {command}" in after(migrated(HEAD + in_step(command)))


def test_a_command_whose_answer_is_read_stays() -> None:
    assert "is_main_process" not in after(migrated(HEAD + in_step('commit = subprocess.run(["git", "log"])')))


def test_what_is_missing_is_fetched_before_the_others_look() -> None:
    code = 'if not os.path.exists("data"):\n    print("fetching")\n    subprocess.call(["./fetch.sh"])\n'
    text = after(migrated(HEAD + script(code + STEP)))
    assert 'with accelerator.main_process_first():\n    if not os.path.exists("data"):\n' in text
    assert MAIN not in text


def test_a_folder_is_asked_for_by_any_name() -> None:
    code = 'if not os.path.isdir("out"):\n    os.mkdir("out")\n'
    assert 'if accelerator.is_main_process and not os.path.isdir("out"):' in after(migrated(HEAD + script(STEP + code)))


def test_a_function_of_the_program_is_guarded_inside_only() -> None:
    code = 'class Folder:\n    def mkdir(self, path):\n        os.mkdir(path)\n\n\nFolder().mkdir("out")\n'
    assert after(migrated(HEAD + script(STEP + code))).count(MAIN) == 1
