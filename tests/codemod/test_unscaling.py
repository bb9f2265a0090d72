"""Scripts that look at their gradients themselves between a scaled backward pass and the step."""

from __future__ import annotations

import pytest

from codemod.marked import script
from codemod.memory import after, migrated

SCALED = """
scaler = torch.amp.GradScaler("cuda")
for x, y in loader:
    with torch.autocast("cuda", dtype=torch.float16):
        loss = F.cross_entropy(model(x.cuda()), y.cuda())
    scaler.scale(loss).backward()
    scaler.unscale_(optimizer)
    {clip}
    scaler.step(optimizer)
    scaler.update()
"""


@pytest.mark.parametrize("clip", ["own_clip(model, 1.0)", "norms = [p.grad.norm() for p in model.parameters()]"])
def test_what_reads_gradients_itself_has_them_unscaled(clip: str) -> None:
    text = after(migrated(script("def own_clip(net, most):\n    for p in net.parameters():\n        p.grad.clamp_(-most, most)\n" + SCALED.format(clip=clip))))
    assert f"accelerator.unscale_gradients(optimizer)\n    {clip}\n    optimizer.step()" in text


def test_torch_s_own_clipping_needs_no_unscaling() -> None:
    text = after(migrated(script(SCALED.format(clip="torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)"))))
    assert "unscale" not in text and "accelerator.clip_grad_norm_(model.parameters(), 1.0)" in text


def test_a_scaler_among_other_things_to_load_stays() -> None:
    loading = "def load(path, **parts):\n    saved = torch.load(path)\n    for name, part in parts.items():\n        part.load_state_dict(saved[name])\n"
    text = after(migrated(script(loading + SCALED.format(clip="pass") + "load('x.pt', model=model, optimizer=optimizer, scaler=scaler)\n")))
    assert "for name, part in parts.items():\n        part.load_state_dict(saved[name])" in text and "scaler=accelerator.scaler)" in text


def test_the_comment_that_speaks_of_the_scaler_alone_goes_with_it() -> None:
    text = after(migrated(script(SCALED.format(clip="pass").replace("\nscaler = ", "\n# scales small gradients\nscaler = ").replace("GradScaler(\"cuda\")\n", "GradScaler(\"cuda\")\n\n# the training\n"))))
    assert "# scales" not in text and "# the training\nfor x, y" in text
