"""A device that was a string stays one where a `torch.device` would not serve as well."""

from __future__ import annotations

import pytest

from codemod.marked import STEP, script
from codemod.memory import after, migrated

STRING = "device = 'cuda' if torch.cuda.is_available() else 'cpu'\n"
NUMBERED = STRING.replace("'cuda' if", "'cuda:0' if")
NEEDS_THE_STRING = {
    "autocast": "torch.autocast(device, enabled=False)",
    "autocast by keyword": "torch.autocast(device_type=device, enabled=False)",
    "startswith": "amp = device.startswith('cuda')",
    "split": "kind = device.split(':')[0]",
    "upper": "print('Using ' + device.upper())",
    "lower": "amp = device.lower() == 'cuda'",
    "added to": "name = device + ':0'",
    "added": "name = 'on ' + device",
    "a key": "workers = {'cuda': 4, 'cpu': 0}[device]",
    "json": "import json\nprint(json.dumps({'device': device}))",
    "a width": "print(f'{device:>6}')",
    "shown": "print(f'on {device}')",
    "one of several": "amp = device in ('cuda', 'mps')",
    "a helper": "def show(d):\n    return 'on ' + d\nprint(show(device))",
    "a helper that compares": "def amp(d):\n    return d == 'cuda'\nprint(amp(device))",
    "an unknown library": "import other\nother.start(device)",
}
SERVED_BY_BOTH = {
    "moves": "w = torch.ones(1).to(device)",
    "makers": "w = torch.ones(1, device=device)",
    "map_location": "w = torch.load('w.pt', map_location=device)",
    "a helper": "def make(d):\n    return torch.ones(1, device=d)\nw = make(device)",
}


def lines_of(code: str) -> list[str]:
    result = migrated(script(code + "\nv = torch.zeros(1, device=device)\n" + STEP))
    return after(result).splitlines()


@pytest.mark.parametrize("use", NEEDS_THE_STRING.values(), ids=NEEDS_THE_STRING)
def test_a_string_that_is_needed_stays_a_string(use: str) -> None:
    lines = lines_of(STRING + use)
    assert "device = accelerator.device.type" in lines
    assert "v = torch.zeros(1, device=device)" in lines


@pytest.mark.parametrize("use", SERVED_BY_BOTH.values(), ids=SERVED_BY_BOTH)
def test_a_device_serves_where_both_are_taken(use: str) -> None:
    assert "device = accelerator.device" in lines_of(STRING + use)


def test_a_name_with_a_number_keeps_its_number() -> None:
    lines = lines_of(NUMBERED + "kind = device.split(':')[0]\namp = device == 'cuda:0'")
    assert "device = str(accelerator.device)" in lines
    assert 'amp = device.split(":")[0] == "cuda"' in lines


def test_a_comparison_of_a_string_stays() -> None:
    lines = lines_of(STRING + "name = device + ':0'\namp = device == 'cuda'")
    assert "amp = device == 'cuda'" in lines


def test_a_torch_device_stays_one() -> None:
    lines = lines_of("device = torch.device('cuda')\nprint('on ' + str(device))")
    assert "device = accelerator.device" in lines


def test_a_type_that_is_told_from_the_device_is_compared_by_type() -> None:
    code = STRING + "kind = 'cuda' if 'cuda' in device else 'cpu'\na = kind == 'cuda'\nb = kind == 'cpu'"
    lines = lines_of(code)
    assert "kind = accelerator.device" in lines
    assert {"a = kind.type == 'cuda'", "b = kind.type == 'cpu'"} <= set(lines)
