"""Lists with one dict for each sample are gathered entry by entry."""

from __future__ import annotations

from accel_migrate.migrate import migrate
from accel_migrate.result import Options
from codemod.marked import STEP, script
from codemod.memory import after, program

EVALUATION = """\
model.eval()
with torch.no_grad():
    for images, targets in loader:
        outputs = model(images)
        {use}
"""


def migrated(use: str) -> str:
    return after(migrate(program(script(STEP + EVALUATION.format(use=use)), {}), Options()))


def test_targets_and_outputs_that_are_dicts() -> None:
    text = migrated("for target, output in zip(targets, outputs):\n            print(target['id'], output['boxes'].shape)")
    assert "outputs = accelerator.gather_for_metrics(outputs, use_gather_object=True)" in text
    assert "targets = accelerator.gather_for_metrics(targets, use_gather_object=True)" in text


def test_a_comprehension_over_dicts() -> None:
    text = migrated("print([{k: v.cpu() for k, v in t.items()} for t in targets])")
    assert "targets = accelerator.gather_for_metrics(targets, use_gather_object=True)" in text


def test_outputs_alone_may_be_levels() -> None:
    text = migrated("print([level['logits'].argmax(1).tolist() for level in outputs])")
    assert "use_gather_object" not in text


def test_rows_stay_rows() -> None:
    text = migrated("print([(int(t), o.argmax().item()) for t, o in zip(targets, outputs)])")
    assert "use_gather_object" not in text
