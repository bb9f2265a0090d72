"""What a model must be told, or must not do, when it sees a part of each sequence: checks around the models of Transformers.

Their hooks are functions of this file, so that models can be copied and pickled.
"""

from __future__ import annotations

import inspect
from typing import Any

import torch
from torch import nn

from .sequences import Sequences, places_here, sharing

_ROTARY = ("rope_parameters", "rope_theta", "rope_scaling")
"""Settings of models whose positions count from 0 and are looked up nowhere."""


def join(sequences: Sequences, model: nn.Module) -> None:
    """Let `model` run inside `sequences.shared`.

    Raises:
        ValueError: its settings ask for attention that cannot be shared.
    """
    config = getattr(model, "config", None)
    config = config.get_text_config() if hasattr(config, "get_text_config") else config
    chosen = getattr(config, "_attn_implementation", None)
    if chosen not in (None, "sdpa"):
        raise ValueError(
            f"{type(model).__name__} has attn_implementation={chosen!r}, and context parallelism shares 'sdpa': load it with attn_implementation='sdpa'"
        )
    windows = _windows(config)
    if windows:
        raise ValueError(
            f"{type(model).__name__} has {windows}, and context parallelism shares full attention only: set cp_size to 1, or turn it off in its config"
        )
    sequences.join(model)
    model.register_forward_pre_hook(_before, with_kwargs=True, prepend=True)


def _windows(config: Any) -> str:
    kinds = getattr(config, "layer_types", None)
    if kinds is not None:
        return ", ".join(sorted({kind for kind in kinds if kind != "full_attention"}))
    return (
        "a sliding_window"
        if getattr(config, "sliding_window", None) and getattr(config, "use_sliding_window", True)
        else ""
    )


def _before(model: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Any, dict[str, Any]] | None:
    sequences = sharing()
    if sequences is None:
        return None
    sequences.note_forward()
    if not hasattr(model, "config"):
        return None
    try:
        signature = inspect.signature(model.forward)
        given = signature.bind_partial(*args, **kwargs).arguments
    except TypeError:  # the call itself says what is wrong
        return None
    given = {**given, **given.get("kwargs", {})}
    _check_labels(model, given)
    return args, {**kwargs, **_missing(model, sequences, signature, given)}


def _check_labels(model: nn.Module, given: dict[str, Any]) -> None:
    shifts = getattr(getattr(model, "loss_function", None), "__name__", "") == "ForCausalLMLoss"
    if shifts and given.get("labels") is not None and given.get("shift_labels") is None:
        raise ValueError(
            f"{type(model).__name__} shifts its labels, which a part of a sequence cannot do: make them before, "
            "shift_labels = F.pad(labels, (0, 1), value=-100)[:, 1:].contiguous(), give them as one of the buffers, and to the model besides labels"
        )


def _check_positions(positions: torch.Tensor, sequences: Sequences) -> None:
    places = places_here(sequences, positions.device)
    if places is not None and positions.shape[-1] == places.shape[-1] and not bool((positions == places).all()):
        raise ValueError(
            "position_ids are not those of whole sequences from 0 up: give them as one of the buffers, too; "
            "sequences packed into one cannot be shared, nor such with padding in front"
        )


def _missing(
    model: nn.Module, sequences: Sequences, signature: inspect.Signature, given: dict[str, Any]
) -> dict[str, Any]:
    tokens = next(
        (given[name] for name in ("input_ids", "inputs_embeds") if isinstance(given.get(name), torch.Tensor)), None
    )
    if tokens is None or "position_ids" not in signature.parameters:
        return {}
    added: dict[str, Any] = {}
    if given.get("position_ids") is None:
        places = places_here(sequences, tokens.device)
        if places is None or not any(getattr(model.config, name, None) for name in _ROTARY):
            raise ValueError(
                f"{type(model).__name__} counts positions from 0 in each part: give it position_ids, "
                "torch.arange(length).expand(batch, -1), as one of the buffers too"
            )
        added["position_ids"] = places
    else:
        _check_positions(given["position_ids"], sequences)
    if given.get("attention_mask") is None and "attention_mask" in signature.parameters:
        # Otherwise places that do not follow each other are taken for sequences packed into one.
        added["attention_mask"] = torch.ones(tokens.shape[:2], dtype=torch.long, device=tokens.device)
    return added
