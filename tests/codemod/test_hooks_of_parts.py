"""Hooks put on the parts of a model, found by walking through it: what they add up is global."""

from __future__ import annotations

import pytest

from codemod.marked import in_step
from codemod.memory import after, migrated

HOOK = "seen = {'total': 0.0, 'size': 0}\ndef watch(module, given, made):\n    seen['total'] += made.detach().sum().item()\n    seen['size'] += made.numel()\n"
WALKS = {
    "named": "for title, part in model.named_modules():\n    part.register_forward_hook(watch)",
    "all": "for part in model.modules():\n    if isinstance(part, nn.ReLU):\n        part.register_forward_hook(watch)",
    "direct ones": "held = [part.register_forward_hook(watch) for part in model.children()]",
}


@pytest.mark.parametrize("walk", WALKS.values(), ids=WALKS)
def test_what_hooks_of_parts_add_up_is_global(walk: str) -> None:
    result = migrated(in_step("loss = loss + 0").replace("for x, y", f"{HOOK}{walk}\nfor x, y", 1))
    text = after(result)
    assert "accelerator.global_sum(made.detach().sum()).item()" in text and "accelerator.global_len(made.numel())" in text
    assert not result.findings
