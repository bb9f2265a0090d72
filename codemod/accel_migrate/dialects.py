"""How the result says things: the words of the bundled runtime, or of Hugging Face Accelerate.

`ACCELERATOR` in a template stands for the accelerator as it is called where the code stands.
"""

from __future__ import annotations

from dataclasses import dataclass

ACCELERATOR = "@accelerator@"


@dataclass(frozen=True)
class Dialect:
    """Templates with the placeholders `{x}` (a tensor), `{f}` (a factory) and so on."""

    module: str
    seed_module: str
    global_mean: str
    global_sum: str
    global_len: str
    model_state: str
    optimizer_state: str
    backward_sum: str
    backward_weighted: str
    draws: bool
    """Whether batch-shaped random draws can be made per global batch."""
    exact: bool
    """Whether N processes give the numbers of one, uneven batches included."""
    wraps: bool
    """Whether a prepared model hides its attributes and methods."""


BUNDLED = Dialect(
    module="accel_runtime",
    seed_module="accel_runtime",
    global_mean="@accelerator@.global_mean({x})",
    global_sum="@accelerator@.global_sum({x})",
    global_len="@accelerator@.global_len({x})",
    model_state="@accelerator@.get_state_dict({x})",
    optimizer_state="@accelerator@.get_state_dict({x})",
    backward_sum='@accelerator@.backward({x}, reduction="sum")',
    backward_weighted="@accelerator@.backward({x}, weight={w})",
    draws=True,
    exact=True,
    wraps=False,
)
HUGGING_FACE = Dialect(
    module="accelerate",
    seed_module="accelerate.utils",
    global_mean='@accelerator@.reduce({x}.detach(), reduction="mean")',
    global_sum='@accelerator@.reduce({x}.detach(), reduction="sum")',
    global_len="(@accelerator@.num_processes * {x})",
    model_state="@accelerator@.get_state_dict({x})",
    optimizer_state="{x}.state_dict()",
    backward_sum="@accelerator@.backward({x} * @accelerator@.num_processes)",
    backward_weighted="@accelerator@.backward({x})",
    draws=False,
    exact=False,
    wraps=True,
)
DIALECTS = {"accel_runtime": BUNDLED, "accelerate": HUGGING_FACE}
