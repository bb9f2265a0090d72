"""Objects that keep figures get global ones; objects that compute with a batch get the rows of this process."""

from __future__ import annotations

from codemod.marked import STEP, script
from codemod.memory import after, migrated

NOISE = """\
class Noise:
    def __init__(self):
        self.scale = torch.linspace(0.1, 1.0, 10)

    def mixed(self, rows, noise):
        return self.blend(rows, noise)

    def blend(self, rows, noise):
        return rows + self.scale[3] * noise


source = Noise()
"""
METER = """\
class Average:
    def __init__(self):
        self.values = []

    def push(self, value):
        self.note(value)
        return len(self.values)

    def note(self, value):
        self.values.append(value)


meter = Average()
"""


def test_an_object_that_returns_what_it_computes_takes_rows() -> None:
    step = STEP.replace("out = model(x)", "out = model(source.mixed(x, x))")
    text = after(migrated(script(NOISE + step)))
    assert "model(source.mixed(x, x))" in text


def test_a_meter_that_returns_something_still_takes_figures() -> None:
    text = after(migrated(script(METER + STEP + "    count = meter.push(loss.item())\n")))
    assert "meter.push(accelerator.global_mean(loss).item())" in text
