"""What the rule hand-made-ddp does, by subject: the process group, the wrapper, ranks, collectives, samplers."""

from __future__ import annotations

ID = "hand-made-ddp"
WHY = "the accelerator makes the process group and averages the gradients"
