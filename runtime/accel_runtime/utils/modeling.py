"""Models larger than a device: `accelerate.utils.modeling`'s names."""

from __future__ import annotations

from ..big_models.device_map import infer_auto_device_map
from ..big_models.loading import load_checkpoint_in_model

__all__ = ["infer_auto_device_map", "load_checkpoint_in_model"]
