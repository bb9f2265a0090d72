"""States and files: methods of `Accelerator`."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path
from typing import Any

import torch
from torch import nn

from . import xla
from .process import ProcessControl
from .strategies import Strategy


class Saving(ProcessControl):
    """What `Accelerator` offers to keep what was trained."""

    strategy: Strategy

    def get_state_dict(self, target: Any, unwrap: bool = True) -> dict[str, Any]:
        """The whole state of a model or an optimizer in torch's plain format, on every process."""
        return self.strategy.state_dict(target)

    def save(self, obj: Any, f: Any, safe_serialization: bool = False) -> None:
        """`torch.save` on the main process; the file appears complete or not at all."""
        if not self.is_main_process:
            return
        if self.device.type == "xla":
            obj = xla.on_host(obj)
        if not isinstance(f, (str, os.PathLike)):
            torch.save(obj, f)
            return
        _save_whole(obj, os.fspath(f), safe_serialization)

    def unwrap_model(self, model: nn.Module, keep_fp32_wrapper: bool = True, keep_torch_compile: bool = True) -> nn.Module:
        """The model itself: `prepare` never wraps. `keep_torch_compile=False` takes off torch.compile's wrapper."""
        if not keep_torch_compile and hasattr(model, "_orig_mod"):
            return model._orig_mod
        return self.strategy.unwrap(model)


def _save_whole(obj: Any, path: str, safe_serialization: bool) -> None:
    folder, name = os.path.split(os.path.abspath(path))
    # under its own name, which torch.save writes into the file
    with tempfile.TemporaryDirectory(prefix=f".{name}.", dir=folder) as aside:
        partial = os.path.join(aside, name)
        if safe_serialization:
            from .checkpoint.tensor_files import write_tensors
            from .utils.other import clean_state_dict_for_safetensors

            write_tensors(Path(partial), clean_state_dict_for_safetensors(obj))
        else:
            torch.save(obj, partial)
        os.chmod(partial, 0o666 & ~_umask())
        os.replace(partial, path)


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask
