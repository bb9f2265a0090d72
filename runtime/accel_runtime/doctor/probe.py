"""Run in a process of its own: what torch says of itself and of its devices, as JSON, or why it cannot be imported."""

from __future__ import annotations

import json
import sys
import traceback
import warnings
from typing import Any


def probe() -> dict[str, Any]:
    """The facts; `error` alone if torch cannot be imported."""
    try:
        import torch
    except BaseException:
        return {"error": traceback.format_exc()}
    facts: dict[str, Any] = {
        "version": torch.__version__,
        "file": torch.__file__,
        "cuda": torch.version.cuda,
        "hip": torch.version.hip,
        "architectures": torch.cuda.get_arch_list() if torch.version.cuda else [],
        "distributed": torch.distributed.is_available(),
    }
    facts["nccl"] = facts["distributed"] and torch.distributed.is_nccl_available()
    if hasattr(torch, "accelerator") and (device := torch.accelerator.current_accelerator(check_available=True)):
        facts["accelerator"] = f"{torch.accelerator.device_count()} x {device.type}"
    if torch.version.cuda or torch.version.hip:
        _cuda(torch, facts)
    return facts


def _cuda(torch: Any, facts: dict[str, Any]) -> None:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            facts["devices"] = torch.cuda.device_count() if torch.cuda.is_available() else 0
            if facts["devices"]:
                torch.ones(1, device="cuda").add_(1).item()
        except BaseException:
            facts["cuda_error"] = traceback.format_exc()
    if caught and "cuda_error" not in facts and not facts["devices"]:
        facts["cuda_error"] = str(caught[-1].message)
    if facts["nccl"] and facts.get("devices"):
        facts["nccl_version"] = ".".join(map(str, torch.cuda.nccl.version()))


if __name__ == "__main__":
    json.dump(probe(), sys.stdout)
