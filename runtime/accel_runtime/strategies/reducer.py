"""Averaging gradients over processes from hooks on the parameters.

A hook fires when a parameter's gradient is complete. Gradients are copied into flat buckets, each reduced as soon as it
and all before it are full, while the backward goes on; the end of the backward waits for them and copies the means back.
What is averaged is `.grad` as it stands, so that micro-batches accumulated earlier count, and averaging twice changes
nothing. Each bucket carries one more number per parameter, the roll call: did any process produce this gradient?

No state lives in the module or its parameters: a prepared model copies and pickles as before.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterable
from typing import Any

import torch
import torch.distributed as dist
from torch.autograd import Variable

from .power_sgd import PowerSGD

_FIRST_BUCKET_BYTES = 2**20

COMPRESSIONS = {"no": None, "fp16": torch.float16, "bf16": torch.bfloat16}


class Bucket:
    """Parameters of one type and device whose gradients travel as one message."""

    def __init__(self, parameters: list[torch.Tensor], reduction: Reduction, dormant: bool) -> None:
        self.parameters = parameters
        self.reduction = reduction
        self.dormant = dormant
        self.ready: set[int] = set()
        self.plain = True
        self.late = False
        self.work: Any = None
        self.memory: dict[str, Any] = {}
        """What a lossy reduction remembers of earlier steps."""
        self._flat: torch.Tensor | None = None
        self._wire: torch.Tensor | None = None
        self._roll_call: torch.Tensor | None = None
        self._views: list[torch.Tensor] = []

    @property
    def full(self) -> bool:
        return len(self.ready) == len(self.parameters)

    def launch(self) -> None:
        """Send the gradients as they stand; a missing one counts as zero and answers the roll call with zero."""
        flat = self._flat if self._flat is not None else self._make_buffer()
        gradients = [p.grad for p in self.parameters]
        if self.plain and len(self.ready) == len(gradients):
            torch._foreach_copy_(self._views, gradients)
            self._roll_call.fill_(1)
        else:
            self._fill_partly(flat, gradients)
        flat.div_(self.reduction.size)
        if self.reduction.power is not None:
            self.reduction.power.reduce(self, flat)
            self.work = _done
            return
        self._wire = torch.view_as_real(flat) if flat.is_complex() else flat
        if self.reduction.compression is not None:
            self._wire = self._wire.to(self.reduction.compression)
        self.work = self.reduction.group.allreduce([self._wire])
        self.late = False

    def finish(self) -> None:
        """Wait, and write the means back; a gradient which only other processes have appears, one that none has stays None."""
        if self.late:
            self.work.wait()
            self.launch()
        self.work.wait()
        if self.reduction.compression is not None and self.reduction.power is None:
            (torch.view_as_real(self._flat) if self._flat.is_complex() else self._flat).copy_(self._wire)
        gradients = [p.grad for p in self.parameters]
        if self.plain and len(self.ready) == len(gradients):
            torch._foreach_copy_(gradients, self._views)
        else:
            self._write_partly(gradients)
        self.work = None

    def reset(self) -> None:
        if self.work is not None:
            self.work.wait()
            self.work = None
        self.late = False
        self.plain = True
        self.ready.clear()

    def _make_buffer(self) -> torch.Tensor:
        first = self.parameters[0]
        sizes = [p.numel() for p in self.parameters]
        self._flat = torch.empty(sum(sizes) + len(sizes), dtype=first.dtype, device=first.device)
        *parts, self._roll_call = self._flat.split([*sizes, len(sizes)])
        self._views = [part.view(p.shape) for part, p in zip(parts, self.parameters, strict=True)]
        return self._flat

    def _fill_partly(self, flat: torch.Tensor, gradients: list[torch.Tensor | None]) -> None:
        flat.zero_()
        present = []
        for view, gradient in zip(self._views, gradients, strict=True):
            if gradient is not None:
                view.copy_(gradient if gradient.layout is torch.strided else gradient.to_dense())
            present.append(float(gradient is not None))
        self._roll_call.copy_(torch.tensor(present))

    def _write_partly(self, gradients: list[torch.Tensor | None]) -> None:
        produced = self._roll_call.abs().tolist()
        for parameter, gradient, view, count in zip(self.parameters, gradients, self._views, produced, strict=True):
            if gradient is not None and gradient.layout is not torch.strided:
                parameter.grad = view.to_sparse(gradient.sparse_dim())
            elif gradient is not None:
                gradient.copy_(view)
            elif count > 0:
                parameter.grad = view.clone()


class _Done:
    """Communication that is over."""

    def wait(self) -> None:
        """Nothing is left to wait for."""


_done = _Done()


class GradientReducer:
    """The buckets of one prepared model, in the order in which a backward fills them."""

    def __init__(self, reduction: Reduction, parameters: list[torch.Tensor], sparse: Iterable[torch.Tensor] = ()) -> None:
        self.reduction = reduction
        by_identity = {id(p) for p in sparse}
        self.sparse = [p for p in parameters if id(p) in by_identity]
        dense = [p for p in reversed(parameters) if id(p) not in by_identity]
        self.buckets = [
            *_in_buckets([p for p in dense if p.requires_grad], reduction, dormant=False),
            *_in_buckets([p for p in dense if not p.requires_grad], reduction, dormant=True),
        ]
        self.active = False
        self._next = 0
        self.handles = [_hook(p, self._sparse_hook(p)) for p in self.sparse]
        for bucket in self.buckets:
            self.handles += [_hook(p, self._dense_hook(bucket, slot)) for slot, p in enumerate(bucket.parameters)]

    def begin(self) -> None:
        """A hook fired: this model takes part in the backward."""
        if self.reduction.backward() is None:
            self.reduction.begin()
        self.active = True

    def finish(self) -> None:
        """Reduce what the backward has not completed, and wait for everything."""
        for bucket in self.buckets:
            if bucket.work is None and self._wanted(bucket):
                bucket.launch()
        for bucket in self.buckets:
            if bucket.work is not None:
                bucket.finish()
        for parameter in self.sparse:
            _average_sparse(parameter, self.reduction.size)
        self.reset()

    def shadow(self) -> None:
        """Take part in a reduction of the others with nothing of this process's own; its gradients stay as they are."""
        kept = [(p, p.grad) for p in [*self.sparse, *(p for bucket in self.buckets for p in bucket.parameters)]]
        for parameter, _ in kept:
            parameter.grad = None
        self.finish()
        for parameter, gradient in kept:
            parameter.grad = gradient

    def reset(self) -> None:
        self.active = False
        self._next = 0
        for bucket in self.buckets:
            bucket.reset()

    def _wanted(self, bucket: Bucket) -> bool:
        """Frozen parameters cost nothing until they are unfrozen, which happens on all processes alike."""
        return not bucket.dormant or any(p.requires_grad for p in bucket.parameters)

    def _dense_hook(self, bucket: Bucket, slot: int) -> Any:
        reduction, ready, full = self.reduction, bucket.ready, len(bucket.parameters)

        def on_gradient(parameter: torch.Tensor) -> None:
            if reduction.aside is not None:
                reduction.restore(parameter)
            if not reduction.enabled:
                return
            if not self.active or reduction.backward() is None:
                self.begin()
            if parameter.grad.layout is not torch.strided:
                bucket.plain = False
            if bucket.work is not None:
                bucket.late = True  # once more after the bucket has left: it leaves again
            ready.add(slot)
            if len(ready) == full and len(reduction.reducers) == 1:
                self._launch_full()

        return on_gradient

    def _sparse_hook(self, parameter: torch.Tensor) -> Any:
        def on_gradient(parameter: torch.Tensor) -> None:
            if self.reduction.aside is not None:
                self.reduction.restore(parameter)
            if self.reduction.enabled:
                self.begin()

        return on_gradient

    def _launch_full(self) -> None:
        """Send what is full and next in order. With several models the order may differ between processes: all wait for the end.

        So they do where the backward makes a graph of its own, and where some processes may have no batch left.
        """
        if torch.is_grad_enabled() or self.reduction.turns is not None or self.reduction.power is not None:
            return
        while self._next < len(self.buckets) and self.buckets[self._next].full:
            if self.buckets[self._next].work is None:
                self.buckets[self._next].launch()
            self._next += 1


class Reduction:
    """All reducers of a process, and the backward in progress."""

    def __init__(self, size: int, bucket_bytes: int, compression: torch.dtype | None = None, power: PowerSGD | None = None) -> None:
        self.size = size
        self.power = power
        self.bucket_bytes = bucket_bytes
        self.compression = compression
        self.group = dist.group.WORLD
        self.enabled = True
        self.reducers: list[GradientReducer] = []
        self.aside: dict[int, torch.Tensor | None] | None = None
        self.turns: Any = None
        """What decides who takes part in a reduction, where processes may have unequal numbers of batches."""
        self.backward: Callable[[], _Backward | None] = _no_backward
        self._known: dict[int, torch.Tensor] = {}

    def unknown(self, parameters: Iterable[torch.Tensor]) -> list[torch.Tensor]:
        """Those parameters which no reducer has, each once."""
        return list({id(p): p for p in parameters if id(p) not in self._known}.values())

    def add(self, reducer: GradientReducer) -> None:
        self.reducers.append(reducer)
        for parameter in [*reducer.sparse, *(p for bucket in reducer.buckets for p in bucket.parameters)]:
            self._known[id(parameter)] = parameter

    def parameters(self) -> list[torch.Tensor]:
        """All parameters whose gradients are averaged here."""
        return list(self._known.values())

    def begin(self) -> None:
        """Called by the first hook that fires in a backward; clears what a failed one has left behind."""
        for reducer in self.reducers:
            if reducer.active:
                reducer.reset()
        backward = _Backward(self)
        self.backward = weakref.ref(backward)
        Variable._execution_engine.queue_callback(backward.end)

    def set_aside(self) -> None:
        """Keep all gradients apart from the backward to come."""
        self.aside = {key: parameter.grad for key, parameter in self._known.items()}
        for parameter in self._known.values():
            parameter.grad = None

    def restore(self, parameter: torch.Tensor) -> None:
        """Free the gradient just produced from NaN, and add what was set aside."""
        assert self.aside is not None
        kept = self.aside.pop(id(parameter), None)
        gradient = _without_nan(parameter.grad)
        parameter.grad = gradient if kept is None else kept + gradient

    def put_back(self) -> None:
        """Restore the gradients of parameters which the backward did not reach."""
        aside, self.aside = self.aside or {}, None
        for key, gradient in aside.items():
            if self._known[key].grad is None:
                self._known[key].grad = gradient

    def release(self) -> None:
        for reducer in self.reducers:
            for handle in reducer.handles:
                handle.remove()
        self.reducers.clear()
        self._known.clear()


def _no_backward() -> None:
    """No backward is in progress."""


def _without_nan(gradient: torch.Tensor) -> torch.Tensor:
    if gradient.layout is torch.strided:
        return gradient.detach().masked_fill(gradient.isnan(), 0)
    gradient = gradient.detach().coalesce()
    values = gradient.values()
    return torch.sparse_coo_tensor(gradient.indices(), values.masked_fill(values.isnan(), 0), gradient.shape)


class _Backward:
    """A backward in progress. Only autograd's list of callbacks holds it: when the backward fails, it is gone."""

    def __init__(self, reduction: Reduction) -> None:
        self.reduction = reduction

    def end(self) -> None:
        """Called by autograd when the backward is complete."""
        self.reduction.backward = _no_backward
        if torch.is_grad_enabled():
            with torch.no_grad():
                self._finish()
        else:
            self._finish()

    def _finish(self) -> None:
        if self.reduction.turns is not None:
            self.reduction.turns.reduce()
            return
        for reducer in self.reduction.reducers:
            if reducer.active:
                reducer.finish()


def _in_buckets(parameters: list[torch.Tensor], reduction: Reduction, dormant: bool) -> list[Bucket]:
    buckets: list[Bucket] = []
    open_buckets: dict[tuple[torch.dtype, torch.device], tuple[list[torch.Tensor], int]] = {}
    for parameter in parameters:
        kind = (parameter.dtype, parameter.device)
        members, used = open_buckets.get(kind, ([], 0))
        if not members:
            buckets.append(Bucket(members, reduction, dormant))
        members.append(parameter)
        used += parameter.numel() * parameter.element_size()
        full = used >= (reduction.bucket_bytes if len(buckets) > 1 else min(_FIRST_BUCKET_BYTES, reduction.bucket_bytes))
        open_buckets[kind] = ([], 0) if full else (members, used)
    return buckets


def _hook(parameter: torch.Tensor, hook: Any) -> Any:
    """Register `hook`, also on a parameter that is frozen for now."""
    frozen = not parameter.requires_grad
    if frozen and not (parameter.is_floating_point() or parameter.is_complex()):
        return _NoHandle()
    parameter.requires_grad_(True)
    handle = parameter.register_post_accumulate_grad_hook(hook)
    if frozen:
        parameter.requires_grad_(False)
    return handle


class _NoHandle:
    """What stands for the hook of a parameter that can never have a gradient."""

    def remove(self) -> None:
        """Nothing to remove."""


@torch.no_grad()
def _average_sparse(parameter: torch.Tensor, size: int) -> None:
    """Replace a sparse gradient by the mean over processes: indices and values travel, not the whole table."""
    gradient = None if parameter.grad is None else parameter.grad.coalesce()
    counts = parameter.new_zeros(size, dtype=torch.long)
    mine = parameter.new_full((1,), -1 if gradient is None else gradient._nnz(), dtype=torch.long)
    dist.all_gather_into_tensor(counts, mine)
    rows = counts.tolist()
    if max(rows) < 0:
        return
    longest = max(rows)
    indices = parameter.new_zeros(longest, dtype=torch.long)
    values = parameter.new_zeros(longest, *parameter.shape[1:])
    if gradient is not None:
        indices[: gradient._nnz()] = gradient.indices()[0]
        values[: gradient._nnz()] = gradient.values()
    all_indices = indices.new_empty(size * longest)
    all_values = values.new_empty(size * longest, *parameter.shape[1:])
    dist.all_gather_into_tensor(all_indices, indices)
    dist.all_gather_into_tensor(all_values, values)
    keep = torch.cat([torch.arange(max(n, 0), device=indices.device) + rank * longest for rank, n in enumerate(rows)])
    total = torch.sparse_coo_tensor(all_indices[keep][None], all_values[keep] / size, parameter.shape)
    parameter.grad = total.coalesce()
