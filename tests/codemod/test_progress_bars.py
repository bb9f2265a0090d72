"""One process shows a progress bar, whatever the script itself asks for."""

from __future__ import annotations

import pytest

from codemod.marked import STEP, script
from codemod.memory import after, migrated

OTHERS = "not accelerator.is_local_main_process"


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ("", f", disable={OTHERS}"),
        (", disable=False", f", disable={OTHERS}"),
        (", disable=None", f", disable={OTHERS} or None"),
        (", disable=True", ", disable=True"),
        (", disable=quiet", f", disable=quiet or {OTHERS}"),
        (", disable=not loud", f", disable=not loud or {OTHERS}"),
        (", disable=quiet if loud else False", f", disable=(quiet if loud else False) or {OTHERS}"),
    ],
)
def test_other_processes_show_none(given: str, expected: str) -> None:
    loop = STEP.replace("in loader", f"in tqdm(loader{given})")
    assert f"in tqdm(loader{expected}):" in after(migrated(script(f"from tqdm import tqdm\nquiet, loud = bool(loader), True\n{loop}")))


@pytest.mark.parametrize("read", ["n", "format_dict['n']"])
def test_a_bar_whose_count_is_read_counts_on_every_process(read: str) -> None:
    step = STEP.replace("for x, y in loader", "bar, other = tqdm(total=99), tqdm(total=99)\nfor x, y in loader")
    text = after(migrated(script(f"from tqdm import tqdm\n{step}    bar.update(len(x))\n    print(loss.item() / bar.{read})\n")))
    assert f"bar, other = tqdm(total=99), tqdm(total=99, disable={OTHERS})" in text


LOG = "import logging\nimport os\nfrom pathlib import Path\n{makes}\nlogging.basicConfig(filename='runs/train.log', level=logging.INFO)\n"


@pytest.mark.parametrize(
    ("makes", "opened"),
    [
        ("os.makedirs('runs')", "filename='runs/train.log' if accelerator.is_main_process else os.devnull"),
        ("Path('runs').mkdir()", "filename='runs/train.log' if accelerator.is_main_process else os.devnull"),
        ("", "filename='runs/train.log', level"),
    ],
)
def test_a_log_in_a_folder_that_one_process_makes_is_opened_by_that(makes: str, opened: str) -> None:
    assert opened in after(migrated(script(LOG.format(makes=makes) + STEP)))


@pytest.mark.parametrize(
    ("opens", "found"),
    [
        ("log = open('log.csv', 'a' if len(loader) > 3 else 'w')", True),
        ("mode = 'a' if len(loader) > 3 else 'w'\nlog = open('log.csv', mode)", True),
        ("def opened(mode='w'):\n    return open('log.csv', mode)\nlog = opened('a')", True),
        ("log = open('log.csv', os.environ['MODE'])", True),
        ("read = open('log.csv', 'r' if len(loader) > 3 else 'rb')\nlog = io.StringIO()", False),
    ],
    ids=["condition", "variable", "parameter", "unknown, and written", "read"],
)
def test_the_mode_of_a_file_may_be_decided_elsewhere(opens: str, found: bool) -> None:
    text = after(migrated(script(f"import io\nimport os\n{opens}\n{STEP}    log.write(f'{{loss.item()}}')\n")))
    assert ("'log.csv' if accelerator.is_main_process else os.devnull" in text) == found
