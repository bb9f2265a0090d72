"""What runs before the main program's guard cannot have the accelerator that is made in it; settings keep the device they are asked for."""

from __future__ import annotations

from codemod.marked import script
from codemod.memory import after, migrated

TRAIN = """\
    model = nn.Linear(4, 2)
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    for x in DataLoader(data):
        loss = model(x.to({device})).mean()
        loss.backward()
        optimizer.step()
"""
HEAD = "import logging\nimport torch\nfrom torch import nn\nfrom torch.utils.data import DataLoader\n"
GUARD = '\n\nif __name__ == "__main__":\n'


def test_logging_before_the_guard_stays() -> None:
    text = HEAD + "logging.basicConfig(level=logging.INFO)" + GUARD + TRAIN.format(device="'cuda'")
    before = after(migrated(text)).partition(GUARD)[0]
    assert before.endswith("\nlogging.basicConfig(level=logging.INFO)")


def test_a_device_in_a_class_of_settings_is_that_of_the_process() -> None:
    text = (
        HEAD
        + "\n\nclass CFG:\n    lr = 0.1\n    device = torch.device('cuda' if torch.cuda.is_available() else 'cpu')\n"
        + GUARD
    )
    result = after(migrated(text + TRAIN.format(device="CFG.device") + "    criterion = nn.L1Loss().to(CFG.device)\n"))
    assert "    device = PartialState().device\n" in result


def test_a_device_that_unknown_code_may_read_is_kept() -> None:
    text = (
        HEAD
        + "\n\ndef work(options):\n    return torch.eye(3).to(options.device)\n\n\nclass Options:\n    pass\n"
        + GUARD
    )
    text += (
        "    args = Options()\n    args.device = torch.device('cuda' if torch.cuda.is_available() else 'cpu')\n"
        + TRAIN.format(device="args.device")
    )
    assert "    args.device = accelerator.device\n" in after(migrated(text))


def test_a_loop_over_models_prepares_none() -> None:
    text = (
        HEAD
        + TRAIN.replace("\n    ", "\n")[4:].format(device="'cuda'")
        + "for name, net in (('a', model),):\n    net.eval()\n"
    )
    assert "accelerator.prepare(model, optimizer)" in after(migrated(text))


def test_a_kept_device_brings_its_import() -> None:
    text = (
        HEAD
        + "\n\nclass CFG:\n    device = torch.device('cuda' if torch.cuda.is_available() else 'cpu')\n\n\ndef work(cfg):\n    return torch.eye(3).to(cfg.device)\n"
        + GUARD
    )
    result = after(migrated(text + TRAIN.format(device="CFG.device")))
    assert "    device = PartialState().device\n" in result
    assert "import Accelerator, PartialState" in result


FOLDERS = (
    HEAD.replace("import logging", "import os")
    + """
def prepare_folders():
    if not os.path.exists(args.out):
        os.makedirs(args.out)
    if not os.path.exists(args.out + "/models"):
        os.makedirs(args.out + "/models")

def train():
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
"""
    + TRAIN.format(device="device")
    + GUARD
    + "    prepare_folders()\n    train()\n"
)


def test_what_reads_the_accelerator_is_called_after_it_is_made() -> None:
    text = after(migrated(FOLDERS))
    assert text.index("accelerator = Accelerator(") < text.index("\n    prepare_folders()")


def test_a_plain_condition_around_what_is_written_asks_for_the_main_process_too() -> None:
    code = 'best = False\nfor x, y in loader:\n    loss = F.cross_entropy(model(x), y)\n    loss.backward()\n    optimizer.step()\nif best:\n    shutil.copyfile("a.pt", "b.pt")\n'
    assert "\nif best and accelerator.is_main_process:\n    shutil.copyfile(" in after(migrated("import shutil\n" + script(code)))
