"""PowerSGD: gradients travel as products of two thin matrices (Vogels et al., 2019, https://arxiv.org/abs/1905.13727).

Of each weight's gradient M, n x m, the processes average P = M Q and, after P has been made orthonormal, Q = M^T P; what P Q^T
misses is added to the next gradient on the process where it was missed. Options have the names of torch's `PowerSGDState`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

import torch

if TYPE_CHECKING:
    from .reducer import Bucket

_DEFAULTS = {
    "matrix_approximation_rank": 1,
    "start_powerSGD_iter": 1000,
    "min_compression_rate": 2,
    "use_error_feedback": True,
    "warm_start": True,
    "orthogonalization_epsilon": 0.0,
    "random_seed": 0,
}
KINDS = ("power_sgd", "batched_power_sgd")


class PowerSGD:
    """Reduces buckets in place; from its iteration `start_powerSGD_iter` on, before that as they are.

    Args:
        options: see torch's `PowerSGDState`.
        batched: take each bucket as one square matrix: fewer messages, coarser.
        wire: the type in which numbers travel; None: their own.

    Raises:
        ValueError: an unknown option, or a rank below 1.
    """

    def __init__(self, options: Mapping[str, Any], batched: bool, wire: torch.dtype | None) -> None:
        if unknown := sorted(set(options) - set(_DEFAULTS)):
            raise ValueError(f"comm_state_option has {', '.join(unknown)}: PowerSGD knows {', '.join(_DEFAULTS)}")
        chosen = {**_DEFAULTS, **options}
        self.rank = int(chosen["matrix_approximation_rank"])
        if self.rank < 1:
            raise ValueError(f"matrix_approximation_rank is {self.rank}: it must be an integer from 1 up")
        self.start = int(chosen["start_powerSGD_iter"])
        self.least = float(chosen["min_compression_rate"])
        self.feeds_back = bool(chosen["use_error_feedback"])
        self.warm = bool(chosen["warm_start"])
        self.seed = int(chosen["random_seed"])
        self.batched = batched
        self.wire = wire

    def reduce(self, bucket: Bucket, flat: torch.Tensor) -> None:
        """Replace the flat gradients of `bucket`, divided by the number of processes, by their sum over the processes, or nearly so."""
        memory = bucket.memory
        memory["step"] = memory.get("step", -1) + 1
        if memory["step"] < self.start or not flat.is_floating_point():
            self._sum(bucket, [flat])
            return
        gradients = flat[: flat.numel() - len(bucket.parameters)]
        if self.feeds_back:
            gradients.add_(memory.setdefault("error", torch.zeros_like(gradients)))
        kept = gradients.clone()
        matrices, rest = self._matrices(bucket, gradients)
        self._factor(bucket, matrices)
        self._sum(bucket, [*rest, flat[gradients.numel() :]])
        if self.feeds_back:
            memory["error"] = kept.sub_(gradients, alpha=1 / bucket.reduction.size)
            for part in self._matrices(bucket, memory["error"])[1]:
                part.zero_()

    def _matrices(self, bucket: Bucket, gradients: torch.Tensor) -> tuple[list[torch.Tensor], list[torch.Tensor]]:
        """Views of what is worth factoring, as matrices, and of the rest."""
        if self.batched:
            side = int(gradients.numel() ** 0.5)
            head, tail = gradients[: side * side].view(side, side), gradients[side * side :]
            return ([head], [tail]) if self._worth(head) else ([], [gradients])
        matrices, rest = [], []
        for part, parameter in zip(gradients.split([p.numel() for p in bucket.parameters]), bucket.parameters, strict=True):
            matrix = part.view(parameter.shape[0], -1) if parameter.ndim > 1 else None
            if matrix is not None and self._worth(matrix):
                matrices.append(matrix)
            else:
                rest.append(part)
        return matrices, rest

    def _worth(self, matrix: torch.Tensor) -> bool:
        n, m = matrix.shape
        return (n + m) * min(self.rank, n, m) * self.least < n * m

    def _factor(self, bucket: Bucket, matrices: list[torch.Tensor]) -> None:
        if not matrices:
            return
        right = bucket.memory.get("right") if self.warm else None
        right = right or list(self._random(bucket.memory["step"], matrices))
        left = [matrix @ q for matrix, q in zip(matrices, right, strict=True)]
        self._sum(bucket, left)
        left = [torch.linalg.qr(p.float())[0].to(p.dtype) for p in left]
        right = [matrix.t() @ p for matrix, p in zip(matrices, left, strict=True)]
        self._sum(bucket, right)
        for matrix, p, q in zip(matrices, left, right, strict=True):
            torch.matmul(p, q.t(), out=matrix)
        if self.warm:
            bucket.memory["right"] = right

    def _random(self, step: int, matrices: list[torch.Tensor]) -> Iterator[torch.Tensor]:
        """The same on all processes."""
        generator = torch.Generator().manual_seed(self.seed + step)
        for matrix in matrices:
            drawn = torch.randn(matrix.shape[1], min(self.rank, *matrix.shape), generator=generator)
            yield torch.linalg.qr(drawn)[0].to(matrix.device, matrix.dtype)

    def _sum(self, bucket: Bucket, tensors: list[torch.Tensor]) -> None:
        """Add up over the processes, in one message."""
        joined = torch.cat([tensor.reshape(-1) for tensor in tensors])
        sent = joined if self.wire is None else joined.to(self.wire)
        bucket.reduction.group.allreduce([sent]).wait()
        for tensor, part in zip(tensors, sent.split([tensor.numel() for tensor in tensors]), strict=True):
            tensor.copy_(part.view(tensor.shape))
