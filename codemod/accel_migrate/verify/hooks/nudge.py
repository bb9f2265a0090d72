"""The second control run: every weight begins one unit in the last place away, which is the same training up to rounding."""

from __future__ import annotations

import functools
from typing import Any


def nudge_weights() -> None:
    """Patch torch in this process: parameters are nudged when an optimizer gets to know them; random streams are left alone."""
    import torch

    plain = torch.optim.Optimizer.add_param_group
    generator = torch.Generator().manual_seed(0)
    nudged: set[int] = set()

    @functools.wraps(plain)
    def add_param_group(self: Any, group: dict[str, Any]) -> None:
        plain(self, group)
        with torch.no_grad():
            for p in self.param_groups[-1]["params"]:
                if p.is_floating_point() and id(p) not in nudged:
                    nudged.add(id(p))
                    signs = torch.randint(0, 2, p.shape, generator=generator) * 2 - 1
                    p.mul_(1 + torch.finfo(p.dtype).eps * signs.to(p.device, p.dtype))

    torch.optim.Optimizer.add_param_group = add_param_group  # type: ignore[method-assign]
