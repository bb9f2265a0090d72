"""The size of a model: from a number of parameters, a Transformers configuration, or a class in a file. Weights are never loaded."""

from __future__ import annotations

import importlib.util
import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..settings.errors import LaunchError

_UNITS = {"": 1, "k": 10**3, "m": 10**6, "b": 10**9, "t": 10**12}
_SMALL = 5
"""A block has at least a fifth of the largest one's parameters."""
_CAUSAL, _PLAIN = "AutoModelForCausalLM", "AutoModel"


@dataclass(frozen=True)
class Size:
    """What the memory of a training depends on.

    Attributes:
        name: what the user called the model.
        parameters: how many, tied ones once.
        block: parameters of the largest block that is gathered as a unit under sharding.
        layers: repeated blocks; 0 where they are not known, and with them the activations.
        hidden: width of a block.
        heads: attention heads of a block.
        vocabulary: columns of the logits; 0 for models without.
    """

    name: str
    parameters: int
    block: int
    layers: int = 0
    hidden: int = 0
    heads: int = 0
    vocabulary: int = 0


def of_count(text: str) -> Size:
    """A model of `text` parameters, such as 7e9, 7B, 350M; without more knowledge a thirtieth of them is one block.

    Raises:
        LaunchError: `text` is no such number.
    """
    found = re.fullmatch(r"([\d_]*\.?\d+(?:e\+?\d+)?)\s*([kmbt]?)", text.strip().lower())
    count = int(float(found[1].replace("_", "")) * _UNITS[found[2]]) if found else 0
    if count < 1:
        raise LaunchError(f"--params: {text!r} is not a number of parameters such as 7e9, 7B or 350M")
    return Size(f"{text.strip()} parameters", count, max(1, count // 30))


def of_model(name: str) -> Size:
    """The model that `name` names: FILE.py:CLASS, a folder or file with a Transformers configuration, or a Transformers type such as gpt2.

    Raises:
        LaunchError: there is no such model, or it cannot be built without its weights.
    """
    file, colon, maker = name.rpartition(":")
    if colon and file.endswith(".py"):
        return _measured(name, _from_file(Path(file), maker), None)
    config = _configuration(name)
    return _measured(name, _built(name, config), config)


def _from_file(file: Path, maker: str) -> Any:
    if not file.is_file():
        raise LaunchError(f"no such file: {file}")
    import sys

    import torch

    sys.path.insert(0, str(file.parent.resolve()))
    spec = importlib.util.spec_from_file_location(file.stem, file)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    try:
        spec.loader.exec_module(module)
        with torch.device("meta"):
            model = getattr(module, maker)()
    except Exception as error:
        raise LaunchError(
            f"{file}: {maker}() cannot be made without arguments and data: {type(error).__name__}: {_line(error)}"
        ) from error
    if not isinstance(model, torch.nn.Module):
        raise LaunchError(f"{file}: {maker}() is a {type(model).__name__}, not a torch.nn.Module")
    return model


def _configuration(name: str) -> Any:
    if importlib.util.find_spec("transformers") is None:
        raise LaunchError(
            f"{name}: models by name need transformers: python -m pip install transformers; or give --params, or FILE.py:CLASS"
        )
    from transformers import AutoConfig
    from transformers.models.auto.configuration_auto import CONFIG_MAPPING_NAMES

    if name in CONFIG_MAPPING_NAMES:
        return AutoConfig.for_model(name)
    try:
        return AutoConfig.from_pretrained(name, local_files_only=True)
    except (OSError, ValueError, KeyError) as error:
        raise LaunchError(
            f"{name} is no folder with a config.json, no model in the local cache, and no type that Transformers has (such as gpt2, llama, bert); nothing is downloaded"
        ) from error


def _built(name: str, config: Any) -> Any:
    import torch
    import transformers

    causal = getattr(transformers, _CAUSAL)
    maker = causal if type(config) in causal._model_mapping else getattr(transformers, _PLAIN)
    try:
        with torch.device("meta"):
            return maker.from_config(config)
    except Exception as error:
        raise LaunchError(
            f"{name}: Transformers cannot build it from its configuration: {type(error).__name__}: {_line(error)}"
        ) from error


def _line(error: Exception) -> str:
    return str(error).strip().partition("\n")[0]


def _measured(name: str, model: Any, config: Any) -> Size:
    count = sum(parameter.numel() for parameter in model.parameters())
    if not count:
        raise LaunchError(f"{name} has no parameters")
    blocks = _blocks(model)
    block = max((sum(p.numel() for p in module.parameters()) for module in blocks), default=count)
    text = config.get_text_config() if config is not None and hasattr(config, "get_text_config") else config
    return Size(
        name,
        count,
        block,
        layers=len(blocks) if text is not None else 0,
        hidden=int(getattr(text, "hidden_size", 0) or 0),
        heads=int(getattr(text, "num_attention_heads", 0) or 0),
        vocabulary=int(getattr(text, "vocab_size", 0) or 0) if _has_logits(model) else 0,
    )


def _has_logits(model: Any) -> bool:
    return hasattr(model, "get_output_embeddings") and model.get_output_embeddings() is not None


def _blocks(model: Any) -> list[Any]:
    """The repeated blocks: modules of one class in the outermost lists, less those that are small beside the largest."""
    found = list(_repeated(model))
    counts = [sum(p.numel() for p in module.parameters()) for module in found]
    return [module for module, count in zip(found, counts, strict=True) if count * _SMALL >= max(counts)]


def _repeated(module: Any) -> Iterator[Any]:
    import torch

    if isinstance(module, (torch.nn.ModuleList, torch.nn.Sequential)):
        kinds = Counter(type(child) for child in module)
        same = [child for child in module if kinds[type(child)] > 1 and any(True for _ in child.parameters())]
        if same:
            yield from same
            return
    for child in module.children():
        yield from _repeated(child)
