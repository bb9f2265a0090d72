"""Files that are computed once and read from then on: the main process goes first."""

from __future__ import annotations

import pytest

from codemod.marked import STEP, script
from codemod.memory import after, migrated

TURN = "with accelerator.main_process_first():\n    if "
KEPT = {
    "pickle, either way": """\
        if os.path.exists("kept.pkl"):
            kept = pickle.load(open("kept.pkl", "rb"))
        else:
            kept = compute(dataset)
            with open("kept.pkl", "wb") as file:
                pickle.dump(kept, file)
""",
    "made where it is missing, read below": """\
        path = pathlib.Path("kept.pkl")
        if not path.exists():
            with path.open("wb") as file:
                pickle.dump(compute(dataset), file)
        with path.open("rb") as file:
            kept = pickle.load(file)
""",
    "torch.save": """\
        if os.path.isfile("kept.pt"):
            kept = torch.load("kept.pt")
        else:
            kept = compute(dataset)
            torch.save(kept, "kept.pt")
""",
}
LEFT = {
    "another file": 'if os.path.exists("a.pkl"):\n    kept = pickle.load(open("a.pkl", "rb"))\nelse:\n    pickle.dump(dataset, open("b.pkl", "wb"))\n',
    "nothing is written": 'if os.path.exists("a.pkl"):\n    kept = pickle.load(open("a.pkl", "rb"))\n',
    "a checkpoint to resume from": 'if os.path.exists("a.pt"):\n    model.load_state_dict(torch.load("a.pt"))\n',
}
HEAD = "import os\nimport pathlib\nimport pickle\n"


def _after(code: str) -> str:
    first = code.lstrip("\n").split("\n")[0]
    indent = len(first) - len(first.lstrip())
    return after(migrated(HEAD + script("\n".join(line[indent:] for line in code.split("\n")) + STEP)))


@pytest.mark.parametrize("name", KEPT)
def test_the_main_process_fills_the_cache_first(name: str) -> None:
    text = _after(KEPT[name])
    assert TURN in text and "wait_for_everyone" not in text


@pytest.mark.parametrize("name", LEFT)
def test_other_conditions_on_files_stay(name: str) -> None:
    assert "main_process_first" not in _after(LEFT[name])
