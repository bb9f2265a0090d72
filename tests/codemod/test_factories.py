"""Loaders from a factory that several functions call are prepared in each of them that uses them."""

from __future__ import annotations

from accel_migrate.migrate import migrate
from accel_migrate.result import Options
from codemod.marked import STEP, script
from codemod.memory import after, migrated, program

BODY = "\n".join("    " + line for line in STEP.splitlines())
MAKING = """\
def data():
    return DataLoader(dataset, batch_size=4), DataLoader(dataset, batch_size=8), ["no", "yes"]


"""
TRAIN = f"""\
def train():
    loader, _, words = data()
    model = nn.Linear(8, 2)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
{BODY}


"""
PREDICT = """\
def predict(row):
    _, _, words = data()
    return words[int(row.argmax())]


"""


def text_of(code: str) -> str:
    return after(migrated(script("").partition("loader = ")[0] + code))


def test_what_a_function_does_not_use_is_not_prepared_there() -> None:
    text = text_of(MAKING + PREDICT + TRAIN + "train()\npredict(torch.ones(2))\n")
    assert "accelerator.prepare(model, optimizer, loader)" in text
    assert text.count("prepare") == 1


def test_each_function_prepares_its_own() -> None:
    text = text_of(MAKING + TRAIN + TRAIN.replace("def train", "def again") + "train()\nagain()\n")
    assert text.count("accelerator.prepare(model, optimizer, loader)") == 2


def test_a_method_that_gives_the_model_back_makes_none() -> None:
    code = (
        STEP.replace("    out", "    model = model.train()\n    out")
        + "for x, y in loader:\n    model = model.eval()\n    print(model(x).argmax(1).eq(y).sum().item())\n"
    )
    text = after(migrated(script(code)))
    assert text.count("prepare") == 1
    assert text.index("accelerator.prepare(model, optimizer, loader)") < text.index("for x, y")


def test_what_a_factory_returns_is_prepared_by_its_caller_alone() -> None:
    nets = "class Net(nn.Linear):\n    def __init__(self, n):\n        super().__init__(8, n)\n\n\ndef small(n):\n    net = Net(n)\n    return net\n\n\ndef large(n):\n    net = Net(n)\n    return net\n"
    main = "import nets\n" + script("").partition("model = ")[0] + "def main(name):\n    model = nets.__dict__[name](2)\n    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)\n" + BODY + "\n\n\nmain('small')\n"
    result = migrate(program(main, {"nets": "from torch import nn\n\n\n" + nets}), Options())
    assert [change.source.module for change in result.changes] == ["train"]
    assert "model, optimizer, loader = accelerator.prepare(model, optimizer, loader)" in after(result) or "prepare(model, optimizer)" in after(result)
