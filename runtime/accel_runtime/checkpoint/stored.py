"""Reading a component back: a model, an optimizer, an object, from however many files processes have written it to."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

import torch

from .errors import CheckpointError
from .manifest import Manifest, path_of
from .tensor_files import TensorFile


@dataclass(frozen=True)
class Block:
    """Where a block of a tensor is stored."""

    file: TensorFile
    key: str
    offset: tuple[int, ...]

    @property
    def shape(self) -> tuple[int, ...]:
        return self.file.entries[self.key][1]


class Stored:
    """One tensor in a checkpoint, whole or in blocks.

    Attributes:
        shape: of the whole tensor.
    """

    def __init__(self, name: str, shape: tuple[int, ...]) -> None:
        self.name = name
        self.shape = shape
        self.blocks: list[Block] = []

    @property
    def dtype(self) -> torch.dtype:
        return self.blocks[0].file.entries[self.blocks[0].key][0]

    def whole(self) -> torch.Tensor:
        """The tensor on the host; where it was written in one piece it is a view of the file, to copy from."""
        if self.blocks[0].shape == self.shape:
            return self.blocks[0].file.tensor(self.blocks[0].key)
        return self.region((0,) * len(self.shape), self.shape)

    def region(self, offset: tuple[int, ...], shape: tuple[int, ...]) -> torch.Tensor:
        """The block of `shape` that begins at `offset`, put together from those that were written.

        Raises:
            CheckpointError: a part of it was not written.
        """
        result = torch.empty(shape, dtype=self.dtype)
        filled = 0
        for block in self.blocks:
            starts = [max(a, b) for a, b in zip(offset, block.offset, strict=True)]
            stops = [min(a + n, b + m) for a, n, b, m in zip(offset, shape, block.offset, block.shape, strict=True)]
            if any(start >= stop for start, stop in zip(starts, stops, strict=True)):
                continue
            source = block.file.tensor(block.key)[
                tuple(slice(a - o, b - o) for a, b, o in zip(starts, stops, block.offset, strict=True))
            ]
            result[tuple(slice(a - o, b - o) for a, b, o in zip(starts, stops, offset, strict=True))] = source
            filled += source.numel()
        if filled != result.numel():
            raise CheckpointError(f"{self.blocks[0].file.path.parent} lacks parts of tensor {self.name!r}")
        return result

    def verify(self) -> None:
        """Compare the checksums of all blocks."""
        for block in self.blocks:
            block.file.tensor(block.key)


def stored_tensors(folder: Path, manifest: Manifest, stem: str) -> dict[str, Stored]:
    """The tensors of a component: of `stem.safetensors`, or of `stem-00001-of-00002.safetensors` and so on.

    Raises:
        CheckpointError: a file is damaged, or one of the series is missing.
    """
    found: dict[str, Stored] = {}
    for name in files_of(manifest, stem):
        file = TensorFile(path_of(folder, name), manifest.files[name].checksum)
        add_file(found, file)
    return found


def add_file(found: dict[str, Stored], file: TensorFile) -> None:
    """Note the tensors and blocks of one file."""
    try:
        blocks = json.loads(file.metadata.get("blocks", "{}"))
        for key, (_, shape, _, _) in file.entries.items():
            about = blocks.get(key, {"name": key, "offset": (0,) * len(shape), "shape": shape})
            stored = found.setdefault(about["name"], Stored(about["name"], tuple(about["shape"])))
            stored.blocks.append(Block(file, key, tuple(about["offset"])))
    except (ValueError, KeyError, TypeError) as error:
        raise CheckpointError(f"{file.path} is damaged: its list of blocks makes no sense ({error})") from error


def files_of(manifest: Manifest, stem: str) -> list[str]:
    """The files of a component, by their names."""
    if f"{stem}.safetensors" in manifest.files:
        return [f"{stem}.safetensors"]
    return sorted(name for name in manifest.files if name.startswith(f"{stem}-") and name.endswith(".safetensors"))
