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
    utils_module: str
    global_mean: str
    global_sum: str
    global_len: str
    model_state: str
    optimizer_state: str
    backward_sum: str
    backward_weighted: str
    draws: bool
    """Whether batch-shaped random draws can be made per global batch."""
    functions: bool
    """Whether the accelerator's reductions and draws are functions of the module, too."""
    exact: bool
    """Whether N processes give the numbers of one, uneven batches included."""
    wraps: bool
    """Whether a prepared model hides its attributes and methods."""
    scales_on_cpu: bool
    """Whether fp16 has a gradient scaler on every device."""
    weighted_advice: str
    """How to pass on the denominator `n` of a weighted mean."""
    cuts_again: bool
    """Whether a prepared loader is cut although its sampler has shared out the samples already."""
    whole_batches: tuple[str, str]
    """The argument of `Accelerator` that makes a loader's batches the global ones: name and value."""
    whole_batches_need: str = ""
    """What that argument needs from `utils_module`."""
    launcher_returns: bool = False
    """Whether `notebook_launcher` returns what the function returned on the main process."""


BUNDLED = Dialect(
    module="accel_runtime",
    utils_module="accel_runtime",
    global_mean="@accelerator@.global_mean({x})",
    global_sum="@accelerator@.global_sum({x})",
    global_len="@accelerator@.global_len({x})",
    model_state="@accelerator@.get_state_dict({x})",
    optimizer_state="@accelerator@.get_state_dict({x})",
    backward_sum='@accelerator@.backward({x}, reduction="sum")',
    backward_weighted="@accelerator@.backward({x}, weight={w})",
    draws=True,
    functions=True,
    exact=True,
    wraps=False,
    scales_on_cpu=True,
    weighted_advice="pass the local denominator: accelerator.backward(loss, weight=n) with n tokens or summed class weights",
    cuts_again=False,
    whole_batches=("split_batches", "True"),
    launcher_returns=True,
)
HUGGING_FACE = Dialect(
    module="accelerate",
    utils_module="accelerate.utils",
    global_mean='@accelerator@.reduce({x}.detach(), reduction="mean")',
    global_sum='@accelerator@.reduce({x}.detach(), reduction="sum")',
    global_len="(@accelerator@.num_processes * {x})",
    model_state="@accelerator@.get_state_dict({x})",
    optimizer_state="{x}.state_dict()",
    backward_sum="@accelerator@.backward({x} * @accelerator@.num_processes)",
    backward_weighted="@accelerator@.backward({x})",
    draws=False,
    functions=False,
    exact=False,
    wraps=True,
    scales_on_cpu=False,
    weighted_advice="with n tokens or summed class weights here, scale the loss: "
    'loss * n * accelerator.num_processes / accelerator.reduce(n, reduction="sum")',
    cuts_again=True,
    whole_batches=("dataloader_config", "DataLoaderConfiguration(split_batches=True)"),
    whole_batches_need="DataLoaderConfiguration",
)
DIALECTS = {"accel_runtime": BUNDLED, "accelerate": HUGGING_FACE}
