"""What the analysis knows of a value. An abstract value is a frozenset of these; the empty set means unknown."""

from __future__ import annotations

import ast
from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING, TypeAlias, TypeVar

if TYPE_CHECKING:
    from accel_migrate.facts.scopes import Scope
    from accel_migrate.source import Source


_Kind = TypeVar("_Kind")


def _hashed_once(kind: type[_Kind]) -> type[_Kind]:
    """`kind`, whose instances keep their hash: they are looked up far more often than they are made."""
    compute = kind.__hash__

    def known(value: _Kind) -> int:
        found = value.__dict__.get("_hash")
        if found is None:
            found = value.__dict__["_hash"] = compute(value)
        return found

    kind.__hash__ = known  # type: ignore[method-assign, assignment]
    return kind


def altered(value: _Kind, **changes: object) -> _Kind:
    """What `dataclasses.replace` gives for one of the values below, sooner."""
    copy = object.__new__(type(value))
    copy.__dict__.update(value.__dict__, **changes)
    for answer in ("_hash", "_rank"):
        copy.__dict__.pop(answer, None)
    return copy


class Role(str, Enum):
    """What an object is in a training program."""

    __hash__ = str.__hash__


    MODEL = "model"
    OPTIMIZER = "optimizer"
    SCHEDULER = "scheduler"
    METRIC_SCHEDULER = "metric scheduler"
    LOADER = "loader"
    SAMPLER = "sampler"
    CRITERION = "criterion"
    SCALER = "gradient scaler"
    DEVICE = "device"
    PARAMETERS = "parameters"
    STATE = "state dict"
    WRITER = "writer"
    PROGRESS = "progress bar"
    LOGGER = "logger"
    ACCELERATOR = "accelerator"
    NAMESPACE = "namespace"
    OBJECT = "object"
    GRADIENTS = "gradients"
    SHAPE = "shape"


class Spread(str, Enum):
    """How a tensor or number relates to the values the other processes hold in its place.

    A value without a spread is the same on every process, or unknown.
    """

    __hash__ = str.__hash__

    SHARD = "shard"
    """Rows (dimension 0) of this process's slice of the global batch, or a container of such tensors."""
    MEAN = "mean"
    """A mean over the local rows: the global one is the average weighted by each process's share."""
    SUM = "sum"
    """A sum over the local rows: the global one is the sum over processes."""
    COUNT = "count"
    """A Python number proportional to the number of local rows, such as `len(x)`."""
    RATE = "rate"
    """A Python number inversely proportional to the number of local rows, such as `100 / len(x)`."""
    ROW = "row"
    """One row of a slice, taken by itself: what is done with it concerns this process only, until it is summed up."""
    RATIO = "ratio"
    """A sum over a sum whose denominator is not the number of rows (tokens, class weights)."""
    MIXED = "mixed"
    """Local, by no formula that one reduction turns into the global value (a mean plus a sum, a root of a mean)."""


@dataclass(frozen=True)
class Ref:
    """A name of a library: `torch.optim.AdamW`."""

    name: str


@dataclass(frozen=True)
class Literal:
    """A constant string, number, boolean or None."""

    value: object


@dataclass(frozen=True)
class ModuleValue:
    """A module of the project."""

    source: Source


@_hashed_once
@dataclass(frozen=True)
class Function:
    """A function, lambda or (with `receiver`) a bound method of the project."""

    node: ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda
    scope: Scope
    receiver: Instance | None = None
    owner: ClassValue | None = None
    """For a class method: the class that it is given."""


@_hashed_once
@dataclass(frozen=True)
class ClassValue:
    """A class of the project."""

    node: ast.ClassDef
    scope: Scope


@_hashed_once
@dataclass(frozen=True)
class Instance:
    """Instances of a project class, all of them as one, except models and loaders, kept apart by where they are made."""

    cls: ClassValue
    site: ast.AST
    rows: bool = False
    """Whether the function that makes it was given rows of a batch: what a model makes of other tensors is apart."""

    @property
    def keeper(self) -> object:
        """Where what is written to its attributes is kept."""
        return (self.cls, "rows") if self.rows else self.cls


@_hashed_once
@dataclass(frozen=True)
class Made:
    """An object which a library made at `site`."""

    role: Role
    site: ast.AST
    detail: str = ""
    """The library's name for its class or factory."""


@dataclass(frozen=True)
class Prepared:
    """Beside the values of an object, where a script is read as accelerated: `accelerator.prepare` returned it."""

    call: ast.Call
    index: int
    """Its place among the arguments of `call`."""


@_hashed_once
@dataclass(frozen=True)
class Box:
    """A tuple, list or dict written at `site`; its elements stand in the heap."""

    site: ast.AST
    loop: ast.AST | None = None
    """The innermost loop over a loader in which it is made: a helper's lists for training and for evaluation are apart."""
    rows: bool = False
    """Whether the function that makes it was given rows of a batch: what a model returns for other tensors is apart."""


@_hashed_once
@dataclass(frozen=True)
class Local:
    """A tensor or number that differs between processes."""

    spread: Spread
    grad: bool = False
    """Computed by a model while gradients are recorded."""
    host: bool = False
    """A part of a batch that the script itself has not moved to the device."""
    output: bool = False
    """Returned by a model's forward pass, of unknown structure."""
    labelled: bool = False
    """For an output: the model was given `labels=` too, so that its first element is the loss."""
    batch: bool = False
    """A whole batch as the loader yields it: a container, whose elements are no rows."""
    taken: frozenset[ast.AST] = frozenset()
    """Where the batches that it was computed from were taken from their loaders, one node for each."""
    whole: bool = False
    """For SHARD: rows of a batch that the program makes by itself and that no process has cut yet."""
    axis: int = 0
    """For SHARD: the dimension that holds the rows; -1 where that is not known."""
    rank: int | None = None
    """For SHARD: the number of dimensions, where that is known."""
    blocks: str = ""
    """For SHARD: `equal` or `ragged` where its rows are several batches one after another; see `blocks`."""
    per_row: bool = False
    """For SHARD: losses that were asked not to be reduced, most often one number for each row."""
    truth: bool = False
    """For SHARD: true or false for each row (or for each of its elements)."""
    mask: ast.AST | None = None
    """For SHARD: not all rows, but those for which this expression is true; their number is in no proportion to the batch."""
    sliced: ast.expr | None = None
    """For SHARD: not all rows, but those between fixed bounds of these: the first four of a process are not those of the batch."""
    packed: ast.AST | None = None
    """For SHARD: the packed sequences that this call makes; their data have a row for each step of each sample."""
    fields: str = ""
    """For a whole batch: the keys of its fields in which any number of rows of each sample are joined, each within bars: |x|y|."""
    joined: bool = False
    """For SHARD: rows of such a field; their number is in no proportion to the samples."""
    order: ast.AST | None = None
    """For SHARD: no rows, but the order of a batch's rows that this call draws."""
    reduced: ast.expr | None = None
    """For MIXED: the rows or figure of which alone it was made (`x.std()`, `loss.sqrt()`); made of the global ones it is the global figure."""
    weight: str = ""
    """For RATIO: the local denominator as a template over `parts`."""
    parts: tuple[tuple[str, ast.AST], ...] = ()

    def __str__(self) -> str:
        return self.spread.value


@dataclass(frozen=True)
class Trainable:
    """A tensor, the same on all processes, that gradients reach."""


TRAINABLE = Trainable()

Value: TypeAlias = "Ref | Literal | ModuleValue | Function | ClassValue | Instance | Made | Prepared | Box | Local | Trainable"
Values: TypeAlias = "frozenset[Value]"

UNKNOWN: Values = frozenset()


def made(values: Values, *roles: Role) -> list[Made]:
    return [v for v in values if isinstance(v, Made) and v.role in roles]


def locals_of(values: Values) -> list[Local]:
    """The tensors and numbers among `values` that differ between processes, in an order that is the same in every run."""
    found = [v for v in values if v.__class__ is Local]
    if len(found) > 1:
        from accel_migrate.facts.sequence import rank

        found.sort(key=rank)
    return found  # type: ignore[return-value]


def spread_of(values: Values) -> Spread | None:
    """The one spread of `values`; MIXED where several disagree."""
    spreads = {v.spread for v in locals_of(values)}
    if len(spreads) > 1:
        return Spread.MIXED
    return next(iter(spreads), None)
