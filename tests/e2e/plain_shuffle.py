"""Let Hugging Face Accelerate shuffle as PyTorch does, so that what else differs can be told from the order of samples.

On several processes it gives every sampler a generator of its own, seeded by one number of the random stream.
"""

from __future__ import annotations

from typing import Any


def keep() -> None:
    """Prepared loaders draw their order from the common random stream, which stands where it stood before."""
    import torch
    from accelerate import accelerator, data_loader

    prepare = accelerator.prepare_data_loader

    def prepared(dataloader: Any, *args: Any, **kwargs: Any) -> Any:
        sampler = data_loader.get_sampler(dataloader)
        had_none = getattr(sampler, "generator", None) is None
        state = torch.get_rng_state()
        result = prepare(dataloader, *args, **kwargs)
        if had_none and getattr(sampler, "generator", None) is not None:
            sampler.generator = result.synchronized_generator = result.rng_types = None
            torch.set_rng_state(state)
        return result

    accelerator.prepare_data_loader = prepared
