"""A device's name that belongs to what is written down as a whole stays there, as a string."""

from __future__ import annotations

import pytest

from codemod.marked import STEP, script
from codemod.memory import after, migrated

NAME = "'cuda' if torch.cuda.is_available() else 'cpu'"
ARGS = f"import argparse, json\nargs = argparse.ArgumentParser().parse_args()\nargs.device = {NAME}\n"
SETTINGS = f"""\
import json
from dataclasses import asdict, dataclass
@dataclass
class Settings:
    device: str = 'cpu'
    def as_record(self):
        return asdict(self)
settings = Settings()
settings.device = {NAME}
"""
TABLE = f'import json\ntable = {{"rate": 0.1}}\ntable["device"] = {NAME}\n'
AS_A_WHOLE = {
    "vars": (ARGS, "text = json.dumps(vars(args))"),
    "__dict__": (ARGS, "text = json.dumps(args.__dict__)"),
    "shown": (ARGS, "print(args)"),
    "formatted": (ARGS, "print(f'settings: {args}')"),
    "formatted by percent": (ARGS, "print('settings: %s' % args)"),
    "in a checkpoint": (ARGS, "torch.save({'args': args}, 'last.pt')"),
    "a tracker": (ARGS, "import wandb\nwandb.init(project='p', config=args)"),
    "an unknown library": (ARGS, "import other\nother.start(args)"),
    "attributes by name": (ARGS, "for name in ('lr', 'device'):\n    print(getattr(args, name))"),
    "asdict": (SETTINGS, "text = json.dumps(asdict(settings))"),
    "a method": (SETTINGS, "text = json.dumps(settings.as_record())"),
    "a dict": (TABLE, "text = json.dumps(table)"),
    "items": (TABLE, "for key, value in table.items():\n    print(key, value)"),
    "a copy": (TABLE, "text = json.dumps({**table, 'epoch': 1})"),
}
ONE_BY_ONE = {
    "an attribute": "print(args.rate)",
    "asked for": "rate = getattr(args, 'rate', 0.1)",
    "a helper": "def rate_of(a):\n    return a.rate\nprint(rate_of(args))",
    "a test": "wanted = hasattr(args, 'rate') and isinstance(args, object)",
    "a pair": "def both(a):\n    return a, 1\nkept, _ = both(args)",
}
MOVED = "{0} = {0}.to({1})\n"
TRAINER = """\
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


class Settings:
    device = "cpu"


class Trainer:
    def __init__(self, settings):
        self.device = torch.device(settings.device)
        self.loader = DataLoader(TensorDataset(torch.randn(64, 4), torch.randn(64, 1)), batch_size=8)
        self.model = nn.Linear(4, 1).to(self.device)
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=0.1)

    def fit(self):
        for x, y in self.loader:
            loss = (self.model(x.to(self.device)) - y.to(self.device)).pow(2).mean()
            self.optimizer.zero_grad()
            loss.backward()
            self.optimizer.step()


settings = Settings()
CHOICE
Trainer(settings).fit()
"""
CHOICES = {
    "an expression": f"settings.device = {NAME}",
    "a branch": "if torch.cuda.is_available():\n    settings.device = 'cuda'",
    "two branches": "if torch.cuda.is_available():\n    settings.device = 'cuda'\nelse:\n    settings.device = 'cpu'",
}


def lines_of(code: str) -> list[str]:
    return after(migrated(script(code))).splitlines()


def of(start: str) -> str:
    return 'table["device"]' if start is TABLE else "args.device" if start is ARGS else "settings.device"


@pytest.mark.parametrize(("start", "use"), AS_A_WHOLE.values(), ids=AS_A_WHOLE)
def test_what_is_recorded_as_a_whole_keeps_its_name(start: str, use: str) -> None:
    lines = lines_of(start + MOVED.format("model", of(start)) + use + "\n" + STEP)
    assert f"{of(start)} = accelerator.device.type" in lines


@pytest.mark.parametrize("use", ONE_BY_ONE.values(), ids=ONE_BY_ONE)
def test_what_is_read_one_by_one_loses_a_name_that_nothing_reads(use: str) -> None:
    lines = lines_of(ARGS + MOVED.format("model", "args.device") + use + "\n" + STEP)
    assert not any(line.startswith("args.device") for line in lines)


def test_a_device_stays_a_device_in_what_is_saved() -> None:
    code = ARGS.replace(NAME, f"torch.device({NAME})") + "torch.save(args, 'last.pt')\n" + STEP
    assert "args.device = accelerator.device" in lines_of(code)


def test_a_variable_that_goes_into_what_is_recorded_stays_a_string() -> None:
    code = f"import argparse\nargs = argparse.ArgumentParser().parse_args()\ndevice = {NAME}\nargs.where = device\n"
    code += "model = model.to(device)\nv = torch.zeros(1, device=device)\nprint(vars(args))\n" + STEP
    assert "device = accelerator.device.type" in lines_of(code)


def test_what_holds_the_holder_is_recorded() -> None:
    code = f"""\
class Part: pass
class Whole: pass
whole = Whole()
whole.part = Part()
part = whole.part
part.device = {NAME}
v = torch.zeros(1, device=part.device)
w = torch.zeros(1, device=part.device)
"""
    assert "part.device = accelerator.device" in lines_of(code + STEP)
    assert "part.device = accelerator.device.type" in lines_of(code + "torch.save({'all': whole}, 'all.pt')\n" + STEP)


def test_a_setting_that_its_class_chooses_for_itself_is_recorded() -> None:
    record = "    def as_record(self):\n        return dict(self.__dict__)\n"
    made = f"    def __post_init__(self):\n        self.device = {NAME}\n"
    code = "from dataclasses import dataclass\n@dataclass\nclass Settings:\n    rate: float = 0.1\n" + made + record
    lines = lines_of(
        code + "settings = Settings()\nprint(settings.as_record())\nmodel = model.to(settings.device)\n" + STEP
    )
    assert any(line.startswith("        self.device = ") and line.endswith(".device.type") for line in lines)


def test_an_item_that_is_still_read_stays() -> None:
    code = TABLE + 'v = torch.zeros(1, device=table["device"])\nw = torch.zeros(1, device=table["device"])\n' + STEP
    assert 'table["device"] = accelerator.device' in lines_of(code)


@pytest.mark.parametrize("choice", CHOICES.values(), ids=CHOICES)
def test_a_trainer_makes_its_device_of_a_setting(choice: str) -> None:
    text = after(migrated(TRAINER.replace("CHOICE", choice)))
    assert "self.accelerator = Accelerator(" in text
    assert "settings.device" not in text


def test_a_class_that_holds_the_choice() -> None:
    text = after(
        migrated(TRAINER.replace('device = "cpu"', f"device = {NAME}\n    rate = 0.1").replace("CHOICE\n", ""))
    )
    assert "self.accelerator = Accelerator(" in text
    assert "device" not in text
