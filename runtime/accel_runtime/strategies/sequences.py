"""Sequences shared by several processes (context parallelism): which part each has, and inside which attention sees all of it."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterable, Iterator
from typing import Any

import torch
from torch import nn
from torch._compile import _disable_dynamo
from torch.nn import functional

from ..world import World
from . import mesh, sequence_positions
from .sequence_attention import attention, chunks_of, part, plain_attention

_sharing: Sequences | None = None


def sharing() -> Sequences | None:
    """Whose `shared` this is called within, if any."""
    return _sharing


def refuse(call: str, instead: str) -> None:
    """Raise a RuntimeError within `Sequences.shared`."""
    if _sharing is not None:
        raise RuntimeError(
            f"{call} inside maybe_context_parallel, where each process has a part of every sequence: {instead}"
        )


class Sequences:
    """The processes that share the sequences of this one's batch.

    Attributes:
        batches: the processes among which batches are shared out.
        losses: those whose losses differ: the same, times those that share a sequence.
        length: tokens of a part, where sequences are cut at present; None where that is not known.
    """

    def __init__(self, world: World, size: int, together: int = 1) -> None:
        """Share sequences among `size` processes of `world`; `together` of them compute each layer."""
        self.size = size
        self.batches, self.losses, self.group = mesh.share_sequences(world, size, together)
        self.rank = torch.distributed.get_rank(self.group)
        self.length: int | None = None
        self._calls = self._forwards = 0
        self._places: list[tuple[dict[str, Any], str]] = []
        self._new: list[nn.Module] = []
        """Models that have not run here yet."""

    def join(self, model: nn.Module) -> None:
        """Find where the files of the modules of `model` keep the attention function under a name of their own."""
        self._new.append(model)
        files = {sys.modules[type(module).__module__].__name__ for module in model.modules()} - {functional.__name__}
        for file in sorted(files):
            names = vars(sys.modules[file])
            self._places += [(names, name) for name, value in names.items() if value is plain_attention]

    @property
    def total(self) -> int | None:
        """Tokens of a whole sequence."""
        return None if self.length is None else self.length * self.size

    @contextlib.contextmanager
    def shared(self, buffers: list[torch.Tensor], dims: list[int], kept: Iterable[torch.Tensor]) -> Iterator[None]:
        """Inside, `buffers` are cut, in place, along `dims` to this process's part, and attention sees all parts.

        Args:
            buffers: tensors of one length along these dimensions; tokens, targets, positions.
            dims: the dimension of the sequence of each.
            kept: those of them that stay cut afterwards.

        Raises:
            ValueError: unequal lengths, or one that the processes cannot share; a tensor with a gradient.
            RuntimeError: models ran, and none of them called `scaled_dot_product_attention`.
        """
        global _sharing
        refuse("maybe_context_parallel", "leave the outer one first")
        kept = {id(tensor) for tensor in kept}
        self._check(buffers, dims, kept)
        whole = [
            (b, b.untyped_storage(), b.storage_offset(), b.size(), b.stride()) for b in buffers if id(b) not in kept
        ]
        for buffer, dim in {id(b): (b, d) for b, d in zip(buffers, dims, strict=True)}.values():
            buffer.set_(
                part(buffer, dim, self.rank, self.size)
            )  # storage of its own: others may be views of the old one
        self._calls = self._forwards = 0
        _sharing = self
        try:
            with self._replaced(), self._looking():
                yield
            self._check_called()
            if self._forwards:
                self._new.clear()
        finally:
            _sharing = self.length = None
            for buffer, *place in whole:
                buffer.set_(*place)

    def _looking(self) -> contextlib.AbstractContextManager[Any]:
        """The first time that models run: do they know where their tokens stand?"""
        if not self._new or self.length is None or self.total is None:
            return contextlib.nullcontext()
        buffers = {id(buffer) for model in self._new for buffer in model.buffers()}
        return sequence_positions.Looking(self.length, self.total, buffers)

    def _check(self, buffers: list[torch.Tensor], dims: list[int], kept: set[int]) -> None:
        if len(buffers) != len(dims):
            raise ValueError(
                f"there are {len(buffers)} buffers and {len(dims)} buffer_seq_dims: give one dimension for each buffer"
            )
        if kept - {id(buffer) for buffer in buffers}:
            raise ValueError("no_restore_buffers has tensors that are not among the buffers: name them in both")
        if any(buffer.requires_grad for buffer in buffers):
            raise ValueError(
                "a buffer requires a gradient: give tensors of the batch, and look up learned positions by position ids"
            )
        lengths = sorted({buffer.shape[dim] for buffer, dim in zip(buffers, dims, strict=True)})
        if len(lengths) > 1:
            raise ValueError(
                f"the buffers have sequences of lengths {', '.join(map(str, lengths))}: cut or pad them to one length"
            )
        if lengths and lengths[0] % (2 * self.size):
            raise ValueError(
                f"the sequences have {lengths[0]} tokens, and cp_size {self.size} needs a multiple of {2 * self.size} (2 x cp_size): "
                "pad them at the end, with targets that the loss ignores"
            )
        self.length = lengths[0] // self.size if lengths else None

    def note_forward(self) -> None:
        """A prepared model runs."""
        self._forwards += 1

    def _check_called(self) -> None:
        if self._forwards and not self._calls:
            raise RuntimeError(
                "a model ran inside maybe_context_parallel without scaled_dot_product_attention, and whatever else it does with a sequence sees "
                "only a part: let its attention call torch.nn.functional.scaled_dot_product_attention (in Transformers attn_implementation='sdpa')"
            )

    @contextlib.contextmanager
    def _replaced(self) -> Iterator[None]:
        busy = False

        @_disable_dynamo
        def scaled_dot_product_attention(
            query: torch.Tensor,
            key: torch.Tensor,
            value: torch.Tensor,
            attn_mask: torch.Tensor | None = None,
            dropout_p: float = 0.0,
            is_causal: bool = False,
            scale: float | None = None,
            enable_gqa: bool = False,
        ) -> torch.Tensor:
            nonlocal busy
            options: dict[str, Any] = {"dropout_p": dropout_p, "scale": scale, "enable_gqa": enable_gqa}
            if busy:  # torch's causal masks call the function by its name
                return plain_attention(query, key, value, attn_mask=attn_mask, is_causal=is_causal, **options)
            self._check_attention(query, key, attn_mask, is_causal)
            self._calls += 1
            busy = True
            try:
                return attention(self.group, query, key, value, attn_mask, is_causal, **options)
            finally:
                busy = False

        places = [(vars(functional), "scaled_dot_product_attention"), *self._places]
        for names, name in places:
            names[name] = scaled_dot_product_attention
        try:
            yield
        finally:
            for names, name in places:
                names[name] = plain_attention

    def _check_attention(self, query: torch.Tensor, key: torch.Tensor, mask: torch.Tensor | None, causal: bool) -> None:
        length = key.shape[-2]
        if self.length not in (None, length):
            raise ValueError(
                f"attention has {length} keys where a part of the sequence has {self.length} tokens: inside, all keys must be those of the part"
            )
        if mask is not None and (causal or mask.shape[-1] not in (1, length * self.size)):
            raise ValueError(
                f"attention has a mask {list(mask.shape)}, and the sequence {length * self.size} keys, of which {length} are here: use is_causal=True "
                "and no mask, with padding at the end of the sequences, or a mask over all keys"
            )
        if causal and (query.shape[-2] != length or length % 2):
            raise ValueError(
                f"causal attention has {query.shape[-2]} queries and {length} keys: it needs an even number, as many of each"
            )


def places_here(sequences: Sequences, device: torch.device) -> torch.Tensor | None:
    """Where this process's tokens stand in the whole sequence, `[1, local]`; None where that is not known."""
    if sequences.total is None:
        return None
    chunks = torch.arange(sequences.total, device=device).chunk(2 * sequences.size)
    return torch.cat([chunks[i] for i in chunks_of(sequences.rank, sequences.size)])[None]
