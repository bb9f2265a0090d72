"""The facts of a training program, as the rules read them. Plain data; `interpret` fills it."""

from __future__ import annotations

import ast
from collections import defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import TypeAlias, TypeVar

from accel_migrate.facts.classes import Lineages, role_of_class
from accel_migrate.facts.scopes import FunctionNode, Scope
from accel_migrate.facts.traces import Trace, is_proven
from accel_migrate.facts.values import UNKNOWN, ClassValue, Instance, Local, Made, Role, Values
from accel_migrate.source import Source

Place: TypeAlias = "ast.expr | ast.For"
_Answer = TypeVar("_Answer")


@dataclass(eq=False)
class Binding:
    """`statement` gives the name or attribute `target` a value worth knowing."""

    statement: ast.stmt
    target: ast.expr
    values: Values
    scope: Scope
    order: int
    """Position in the order of execution."""
    loops: tuple[ast.stmt, ...]
    """The loops of the same function around it, outermost first."""


@dataclass(eq=False)
class Backward:
    """One `loss.backward()` or `scaler.scale(loss).backward()`; `loss` is the unscaled loss."""

    call: ast.Call
    loss: ast.expr
    values: Values
    scope: Scope
    scaled: bool
    with_loader: bool
    """Whether it runs inside a loop over a loader."""


@dataclass(eq=False)
class Loop:
    """A loop over a data loader."""

    node: ast.For | ast.comprehension
    scope: Scope
    trains: bool = False
    """Whether a backward pass runs inside it, calls included."""
    depth: int = 0
    """How many functions were running when it was entered."""
    loaders: set[object] = field(default_factory=set)
    """The values of the loaders it iterates over."""


@dataclass(eq=False)
class Forward:
    """A call of a model on (a part of) a batch."""

    call: ast.Call
    model: Values
    scope: Scope
    statement: ast.stmt | None
    contexts: set[ast.AST | None] = field(default_factory=set)
    """The innermost loader loops in which it runs; None for outside of any."""
    recorded: bool = False
    """Whether it runs while gradients are recorded."""


@dataclass(eq=False)
class Gather:
    """After the forward pass of `statement`, `names` and `paths` become the global batch: for metrics, or for a loss."""

    statement: ast.stmt
    scope: Scope
    names: tuple[str, ...]
    """Plain variables that are gathered and rebound."""
    paths: dict[str, str] = field(default_factory=dict)
    """Source text of other expressions (`batch["labels"]`) -> the new variable that replaces them."""
    hoisted: dict[ast.expr, str] = field(default_factory=dict)
    """Forward calls nested in the statement -> the new variable that replaces them; then the gather goes above."""
    cut: bool = True
    """Whether the loader hands out slices by then; otherwise everything is whole as it is."""
    blocks: frozenset[str] = frozenset()
    """Those of `names` whose rows are several blocks of the batch one after another."""
    sizes: tuple[str, ...] = ()
    """Variables that hold the number of this process's rows, and are that of the global batch from there on."""
    backward: ast.Call | None = None
    """The backward pass of the loss that is computed from the gathered rows; then they keep their gradients."""
    left: tuple[str, ...] = ()
    """Variables beside `names` that stay this process's own, see `left_behind`."""


@dataclass(eq=False)
class Conversion:
    """`value`, which differs between processes, leaves the tensors: `.item()`, `print`, a comparison, a list."""

    value: ast.expr
    values: Values
    scope: Scope
    how: str
    """`item`, `array`, `print`, `test`, `collect`, `keep` (in a dict that outlives the batch), `count`."""
    statement: ast.stmt | None


@dataclass(frozen=True)
class Cut:
    """How a batch made by hand is cut."""

    loop: ast.AST | None
    """The loop whose steps train on such batches."""
    names: tuple[str, ...] = ()
    """Of a loop over batches: its variables that are cut."""
    listed: bool = False
    """Whether the batch is a list of its parts, such as `[inputs, targets]`."""


@dataclass(eq=False)
class Facts:
    """Everything known of one program."""

    sources: list[Source] = field(default_factory=list)
    entry: Source | None = None
    scopes: dict[ast.AST, Scope] = field(default_factory=dict)
    parents: dict[ast.AST, ast.AST] = field(default_factory=dict)
    source_of: dict[ast.AST, Source] = field(default_factory=dict)
    """Module node -> its file."""
    imports: dict[tuple[Scope, str], str] = field(default_factory=dict)
    values: dict[ast.AST, Values] = field(default_factory=dict)
    external: dict[ast.Call, str] = field(default_factory=dict)
    """Calls of a library's function -> its full name."""
    methods: dict[ast.Call, tuple[Values, str]] = field(default_factory=dict)
    """Method calls -> what the method is called on, and its name."""
    callees: dict[ast.Call, set[FunctionNode]] = field(default_factory=lambda: defaultdict(set))
    callers: dict[FunctionNode, dict[ast.Call, Scope]] = field(default_factory=lambda: defaultdict(dict))
    constructions: dict[ast.ClassDef, dict[ast.Call, Scope]] = field(default_factory=lambda: defaultdict(dict))
    bindings: list[Binding] = field(default_factory=list)
    backwards: dict[ast.Call, Backward] = field(default_factory=dict)
    loops: dict[ast.AST, Loop] = field(default_factory=dict)
    forwards: dict[ast.Call, Forward] = field(default_factory=dict)
    conversions: dict[ast.expr, Conversion] = field(default_factory=dict)
    trained_statistics: set[ast.expr] = field(default_factory=set)
    """Figures of a batch which its rows meet again, or sums by class, with gradients in some call of their function."""
    blind_forwards: set[ast.Call] = field(default_factory=set)
    """Calls of models, with gradients, on nothing that is known to be rows."""
    unfollowed: ast.expr | None = None
    """What a model is trained on beside batches made by hand, of which it is not known whether it is rows of them."""
    cuts: dict[Place, Cut] = field(default_factory=dict)
    """Expressions that make a batch by hand, and loops over such, of which each process is to keep its share."""
    starts: set[ast.AST] = field(default_factory=set)
    """Sites of values, the same on all processes, that a recurrent layer gets beside rows: the state that it starts from."""
    states: set[ast.expr] = field(default_factory=set)
    """Expressions that make such a state for a whole batch; each process keeps the part of its rows."""
    numbered: set[ast.stmt] = field(default_factory=set)
    """Where nothing can be gathered, since rows of a batch bear the numbers of their samples in it."""
    gathers: dict[ast.stmt, Gather] = field(default_factory=dict)
    optimized: dict[ast.AST, set[ast.AST]] = field(default_factory=lambda: defaultdict(set))
    """Site of an optimizer -> sites of the models whose parameters it was given."""
    inner_optimizers: set[ast.AST] = field(default_factory=set)
    """Sites of optimizers that step the parameter groups of another one, which holds them."""
    parts_of: dict[ast.AST, set[ast.AST]] = field(default_factory=lambda: defaultdict(set))
    """Site of a module -> sites of the modules of which it is a part."""
    visited: set[ast.AST] = field(default_factory=set)
    """Functions that some path of the program reaches from a module body."""
    copied_models: set[ast.AST] = field(default_factory=set)
    """Sites of models of which the script makes copies."""
    wrapped: set[ast.AST] = field(default_factory=set)
    """Sites of models that the script puts into DistributedDataParallel."""
    called_back: set[ast.AST] = field(default_factory=set)
    """Functions handed to a library as values: their callers are not all known."""
    drawn: set[object] = field(default_factory=set)
    """Loaders from which batches are taken by `next`."""
    looked_at: set[object] = field(default_factory=set)
    """Loaders whose batches reach no model; they are not prepared."""
    proven_models: set[ast.AST] = field(default_factory=set)
    """Sites of objects of unknown classes whose parameters are asked for."""
    bases: dict[ast.ClassDef, tuple[str | ast.ClassDef, ...]] = field(default_factory=dict)
    trace: Trace | None = None
    """That of the function body which is running, if one is."""
    lineages: Lineages = field(default_factory=Lineages)
    """What follows from `bases`, until one of them changes."""
    _texts: dict[ast.AST, str] = field(default_factory=dict)
    _names: dict[ast.AST, dict[str, list[ast.Name]]] = field(default_factory=dict)
    _answers: dict[Callable[[Facts], object], object] = field(default_factory=dict)

    # -- questions about the tree -------------------------------------------------------------
    def text(self, node: ast.AST) -> str:
        """The code of `node`, which is one of the program's."""
        found = self._texts.get(node)
        if found is None:
            found = self._texts[node] = ast.unparse(node)
        return found

    def once(self, question: Callable[[Facts], _Answer]) -> _Answer:
        """The answer to `question`, which is about the trees alone: found once, and not to be changed."""
        if question not in self._answers:
            self._answers[question] = question(self)
        return self._answers[question]  # type: ignore[return-value]

    def names(self, function: ast.AST, name: str) -> list[ast.Name]:
        """Where `name` stands inside `function`, in the order of `ast.walk`."""
        table = self._names.get(function)
        if table is None:
            table = self._names[function] = {}
            for node in ast.walk(function):
                if isinstance(node, ast.Name):
                    table.setdefault(node.id, []).append(node)
        return table.get(name, [])

    def ancestors(self, node: ast.AST) -> Iterator[ast.AST]:
        while node in self.parents:
            node = self.parents[node]
            yield node

    def statement(self, node: ast.AST) -> ast.stmt:
        """The innermost statement that holds `node` (itself, if it is one)."""
        while not isinstance(node, ast.stmt):
            node = self.parents[node]
        return node

    def function(self, node: ast.AST) -> ast.AST:
        """The innermost function (not lambda) or module around `node`."""
        for ancestor in self.ancestors(node):
            if isinstance(ancestor, ast.FunctionDef | ast.AsyncFunctionDef | ast.Module):
                return ancestor
        return node

    def source(self, node: ast.AST) -> Source:
        root = node
        for root in self.ancestors(node):  # noqa: B007 - the last one is the module
            pass
        return self.source_of[root]

    def block(self, statement: ast.stmt) -> list[ast.stmt]:
        """The list of statements in which `statement` stands."""
        parent = self.parents[statement]
        for _, value in ast.iter_fields(parent):
            if isinstance(value, list) and any(item is statement for item in value):
                return value
        raise AssertionError(f"statement without a block: {ast.dump(statement)[:80]}")

    def scope(self, node: ast.AST) -> Scope:
        """The scope in which `node` stands."""
        for ancestor in self.ancestors(node):
            if ancestor in self.scopes:
                return self.scopes[ancestor]
        return self.scopes[node]

    def is_dead(self, node: ast.AST) -> bool:
        """Whether `node` stands in a function of an imported module which the program never calls, or in its main guard (a module's self-test)."""
        if self.source(node) is self.entry:
            return False
        function = self.function(node)
        if isinstance(function, ast.FunctionDef):
            return function not in self.visited and self.scopes[function].enclosing_class is None
        return any(isinstance(a, ast.If) and "__name__" in ast.unparse(a.test) for a in self.ancestors(node))

    def inside(self, node: ast.AST, container: ast.AST) -> bool:
        return node is container or any(a is container for a in self.ancestors(node))

    # -- questions about values ---------------------------------------------------------------
    def of(self, node: ast.AST) -> Values:
        found = self.values.get(node, UNKNOWN)
        if self.trace is not None:
            self.trace.read_values(node, found)
        return found

    def has_role(self, node: ast.AST, *roles: Role) -> bool:
        return any(self.role(v) in roles for v in self.of(node))

    def role(self, value: object) -> Role | None:
        if isinstance(value, Made):
            if value.role is not Role.OBJECT or value.detail:
                return value.role
            proven = value.site in self.proven_models
            if self.trace is not None:
                self.trace.asked(is_proven, (value.site,), proven)
            return Role.MODEL if proven else Role.OBJECT
        if isinstance(value, Instance):
            return self.class_role(value.cls)
        return None

    def class_role(self, cls: ClassValue) -> Role | None:
        """The role of instances of a project class, from the library classes it derives from."""
        return role_of_class(self, cls.node)

    def set_bases(self, node: ast.ClassDef, bases: tuple[str | ast.ClassDef, ...]) -> None:
        """Remembers what the class `node` derives from."""
        if self.bases.get(node) != bases:
            self.bases[node] = bases
            self.lineages = Lineages()

    def trained_models(self) -> set[ast.AST]:
        """Sites of models whose parameters, or those of a part, went into an optimizer."""
        seen: set[ast.AST] = set()
        pending = [site for sites in self.optimized.values() for site in sites]
        if not all(self.optimized.values()):
            pending += self.wrapped  # what is synchronised by hand is trained by an optimizer whose parameters are out of sight
        while pending:
            site = pending.pop()
            if site not in seen:
                seen.add(site)
                pending.extend(self.parts_of.get(site, ()))
        return seen

    def is_local(self, node: ast.AST) -> bool:
        return any(isinstance(v, Local) for v in self.of(node))

    def nodes(self, *kinds: type[ast.AST]) -> Iterator[tuple[Source, ast.AST]]:
        for source in self.sources:
            for node in source.index.of_kind(*kinds):
                yield source, node
