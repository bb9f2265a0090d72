"""Where rows that are gathered meet rows of this process again: `loss_fn(out, kept[i])`, `losses[order]`, `zip(names, scores)`.

A conversion makes the global rows of a value. What follows from it through variables, containers, loops and functions is
as long as the whole batch, until something counts or averages it; joined row by row with a part of the batch it is wrong.
"""

from __future__ import annotations

import ast
from collections import defaultdict
from collections.abc import Iterator

from accel_migrate.facts.classes import ancestry
from accel_migrate.facts.facts import Facts
from accel_migrate.facts.liveness import outlives
from accel_migrate.facts.operations import spreads
from accel_migrate.facts.values import Role, Spread, locals_of

REDUCING = {
    "item", "mean", "sum", "max", "min", "amax", "amin", "std", "var", "norm", "median", "prod", "all", "any", "len", "float", "int", "str", "round", "bool",
    "size", "numel", "dim", "keys", "average", "percentile", "quantile", "nanmean", "bincount", "unique", "Counter", "histogram", "histc", "save", "print",
    "dump", "dumps", "write", "range", "isinstance", "set", "dict", "add_scalar", "log", "update", "format",
}  # fmt: skip
"""What makes of rows something that is not one entry for each of them, or takes them away."""
DATA = {"TensorDataset", "Subset", "ConcatDataset", "StackDataset", "DataLoader", "random_split", "WeightedRandomSampler", "SubsetRandomSampler"}
"""What makes data of rows: every process holds all of them, and a loader shares them out anew."""
FACTS_OF = {"shape", "dtype", "device", "ndim", "size"}
FILLING = {"append", "extend", "insert", "appendleft", "put", "push"}
WRAPPING = {"enumerate", "tqdm", "list", "tuple", "iter"}


class Meetings:
    """The ways of gathered rows through a program."""

    def __init__(self, facts: Facts) -> None:
        self.facts = facts
        self.in_step = False
        """Whether each process's own rows were met on the way: kept batch by batch and read by the number of the batch, or one entry for each row."""
        self._names = facts.once(_names_by_owner)
        self._attributes = facts.once(_attributes_read)

    def of(self, rows: ast.expr) -> Iterator[tuple[ast.expr, list[ast.expr]]]:
        """Expressions in which what is made of `rows`, once they are gathered, meets rows of a process; and those rows."""
        pending, seen = [rows], set[ast.AST]()
        while pending:
            node = pending.pop()
            if node in seen:
                continue
            seen.add(node)
            parent = self.facts.parents.get(node)
            self.in_step |= self._is_of_same_batch(node, rows) or _is_in_each_row(parent, node)
            others = [other for other in self._beside(parent, node) if other not in seen and self._is_local(other)]
            if others:
                yield parent, others  # type: ignore[misc]
            else:
                pending.extend(self._next(parent, node))

    def followed(self, rows: ast.expr) -> Iterator[ast.expr]:
        """`rows` and everything that is made of them, one entry for each row."""
        pending, seen = [rows], set[ast.AST]()
        while pending:
            node = pending.pop()
            if node not in seen:
                seen.add(node)
                yield node
                pending.extend(self._next(self.facts.parents.get(node), node))

    def stay_right(self, rows: ast.expr) -> bool:
        """Whether each process's own rows come back where they are met: `outputs[i]` in `for i, batch in enumerate(loader)`."""
        self.in_step = False
        return bool(list(self.of(rows))) and self.in_step

    def _is_of_same_batch(self, node: ast.AST, rows: ast.expr) -> bool:
        if not isinstance(node, ast.Subscript) or not isinstance(node.slice, ast.Name):
            return False
        made = next((a for a in self.facts.ancestors(rows) if a in self.facts.loops), None)
        loop = next((a for a in self.facts.ancestors(node) if a in self.facts.loops), None)
        counted = isinstance(loop, ast.For) and isinstance(loop.target, ast.Tuple) and ast.unparse(loop.target.elts[0]) == node.slice.id
        if made is None or made is loop or not counted or not ast.unparse(loop.iter).startswith("enumerate("):  # type: ignore[union-attr]
            return False
        loaders = self.facts.loops[made].loaders
        return len(loaders) == 1 and loaders == self.facts.loops[loop].loaders  # type: ignore[index]

    def _owner(self, name: ast.Name) -> object:
        return self.facts.scope(name).owner(name.id)

    def _is_local(self, node: ast.expr) -> bool:
        """Whether `node` holds rows of this process, which nothing gathers there."""
        around = (node, *self.facts.ancestors(node))
        gathered = any(a in self.facts.conversions for a in (*ast.walk(node), *around))
        values = locals_of(self.facts.of(node))
        return not gathered and spreads(self.facts.of(node)) == {Spread.SHARD} and not any(v.whole or v.axis for v in values)

    def _beside(self, parent: ast.AST | None, node: ast.expr) -> list[ast.expr]:
        """What stands row by row beside `node` in `parent`."""
        if isinstance(parent, ast.BinOp) and not isinstance(parent.op, ast.MatMult | ast.Mod):
            return [parent.right if parent.left is node else parent.left]
        if isinstance(parent, ast.Compare) and not isinstance(parent.ops[0], ast.In | ast.NotIn | ast.Is | ast.IsNot):
            return [n for n in (parent.left, *parent.comparators) if n is not node]
        if isinstance(parent, ast.Subscript) and parent.slice is node:
            return [parent.value]
        if isinstance(parent, ast.Call) and node in parent.args and self._joins_rows(parent):
            return [a for a in parent.args if a is not node]
        return []

    def _joins_rows(self, call: ast.Call) -> bool:
        name = self.facts.external.get(call, self.facts.text(call.func))
        return name == "zip" or name.startswith("torch.nn.functional.") or self.facts.has_role(call.func, Role.CRITERION)

    def _next(self, parent: ast.AST | None, node: ast.expr) -> Iterator[ast.expr]:
        """Expressions to which the value of `node` goes from `parent`."""
        if isinstance(parent, ast.Call):
            yield from self._called(parent, node)
        elif isinstance(parent, ast.keyword):
            call = self.facts.parents[parent]
            if isinstance(call, ast.Call):
                yield from self._called(call, node, parent.arg)
        elif isinstance(parent, ast.Attribute):
            if parent.attr not in FACTS_OF:
                yield parent
        elif isinstance(parent, ast.Subscript):
            if parent.value is node or (isinstance(parent.ctx, ast.Load) and self._looks_up(parent)):
                yield parent
            elif isinstance(parent.ctx, ast.Store) and _is_in_each_row(parent, node):
                yield from self._reads_of(parent.value, self.facts.statement(parent))
        elif isinstance(parent, ast.For | ast.comprehension):
            if parent.iter is node:
                yield from self._reads_of(self._item(parent.target, node), parent)
        elif isinstance(parent, ast.ListComp | ast.GeneratorExp):
            if parent.elt is node:
                yield parent
        elif isinstance(parent, ast.Assign):
            for target in parent.targets:
                yield from self._reads_of(target, parent)
        elif isinstance(parent, ast.AnnAssign | ast.NamedExpr):
            yield from self._reads_of(parent.target, parent)
        elif isinstance(parent, ast.Return):
            yield from self.facts.callers.get(self.facts.function(parent), {})  # type: ignore[call-overload]
        elif isinstance(parent, ast.BinOp | ast.UnaryOp | ast.Compare | ast.IfExp | ast.Tuple | ast.List | ast.Starred | ast.Dict):
            yield parent  # type: ignore[misc]

    def _looks_up(self, place: ast.Subscript) -> bool:
        """Whether `place` takes an entry of a table for each row: `torch.eye(10)[labels]`, and no row of a process."""
        return isinstance(place.value, ast.Call) or not self._is_local(place.value)

    def _item(self, target: ast.expr, iterated: ast.expr) -> ast.expr:
        """What of the loop variables holds the rows: of `i, row` in `enumerate(rows)` the second."""
        if isinstance(target, ast.Tuple) and len(target.elts) == 2 and isinstance(iterated, ast.Call) and ast.unparse(iterated.func) == "enumerate":
            return target.elts[1]
        return target

    def _called(self, call: ast.Call, node: ast.expr, keyword: str | None = None) -> Iterator[ast.expr]:
        name = self.facts.external.get(call, self.facts.text(call.func)).rpartition(".")[2]
        functions = self.facts.callees.get(call, set())
        if name in REDUCING or (name in DATA and not functions) or any(self._makes_data(function) for function in functions):
            return
        if name in FILLING and isinstance(call.func, ast.Attribute) and not functions:
            yield from self._reads_of(call.func.value, self.facts.statement(call))
        for function in functions:
            if isinstance(function, ast.FunctionDef):
                yield from self._given_to(function, call, node, keyword)
        if not any(call in self.facts.callers.get(function, {}) for function in functions):  # type: ignore[call-overload]
            yield call  # unknown, or a model of the program: rows for rows

    def _makes_data(self, function: ast.AST) -> bool:
        """Whether `function` sets up a data set of the program's."""
        cls = self.facts.parents.get(function)
        if not isinstance(cls, ast.ClassDef) or getattr(function, "name", "") != "__init__":
            return False
        return any(isinstance(base, str) and base.startswith("torch.utils.data.") for base in ancestry(self.facts, cls))

    def _given_to(self, function: ast.FunctionDef, call: ast.Call, node: ast.expr, keyword: str | None) -> Iterator[ast.expr]:
        names = [a.arg for a in (*function.args.posonlyargs, *function.args.args)]
        if keyword is None and node in call.args:
            bound = int(bool(names) and names[0] in {"self", "cls"})
            place = call.args.index(node) + bound
            keyword = names[place] if place < len(names) else None
        if keyword is not None:
            owner = self.facts.scopes[function]
            reads = [n for n in self._names[owner, keyword] if isinstance(n.ctx, ast.Load)]
            yield from (n for n in reads if not self._is_rebound(n, function.body[0], inclusive=True))

    def _reads_of(self, target: ast.expr, binder: ast.AST) -> Iterator[ast.expr]:
        while isinstance(target, ast.Subscript | ast.Starred):
            if isinstance(target, ast.Subscript) and any(Spread.SHARD in spreads(self.facts.of(n)) for n in ast.walk(target.slice)):
                return  # `bank[idx] = rows`: a table of all samples, which every process fills for the whole batch
            target = target.value
        if isinstance(target, ast.Tuple | ast.List):
            for element in target.elts:
                yield from self._reads_of(element, binder)
        elif isinstance(target, ast.Attribute):
            yield from self._attributes[target.attr]
        elif isinstance(target, ast.Name):
            for read in self._names[self._owner(target), target.id]:
                if isinstance(read.ctx, ast.Load) and read is not target and self._reaches(read, binder, target.id):
                    yield read

    def _reaches(self, read: ast.Name, binder: ast.AST, name: str) -> bool:
        """Whether what `binder` leaves in the variable `name` can be what `read` reads."""
        if isinstance(binder, ast.comprehension):
            return self.facts.inside(read, self.facts.parents[binder])
        statement = self.facts.statement(binder)
        if self.facts.function(read) is not self.facts.function(statement):
            return True
        if (read.lineno, read.col_offset) > (statement.lineno, statement.col_offset) and not (self.facts.inside(read, statement) and not isinstance(statement, ast.For)):
            return not self._is_rebound(read, statement)
        around = [a for a in self.facts.ancestors(statement) if isinstance(a, ast.For | ast.While) and self.facts.inside(read, a)]
        return any(outlives(self.facts, name, loop) for loop in around)

    def _is_rebound(self, read: ast.Name, since: ast.stmt, inclusive: bool = False) -> bool:
        """Whether a statement between `since` and `read`, that always runs before `read`, gives the variable another value."""
        here = self.facts.statement(read)
        for store in self._names[self._owner(read), read.id]:
            if not isinstance(store.ctx, ast.Store):
                continue
            statement = self.facts.statement(store)
            between = since.lineno < statement.lineno or (inclusive and since.lineno == statement.lineno)
            if between and statement.lineno < read.lineno and statement is not here and not isinstance(statement, ast.AugAssign):
                block = statement if isinstance(statement, ast.For) else self.facts.parents[statement]
                if self.facts.inside(read, block):
                    return True
        return False


def _names_by_owner(facts: Facts) -> defaultdict[tuple[object, str], list[ast.Name]]:
    """The scope that binds a name, and the name -> where it stands."""
    found: defaultdict[tuple[object, str], list[ast.Name]] = defaultdict(list)
    for _, node in facts.nodes(ast.Name):
        assert isinstance(node, ast.Name)
        found[facts.scope(node).owner(node.id), node.id].append(node)
    return found


def _attributes_read(facts: Facts) -> defaultdict[str, list[ast.Attribute]]:
    """The name of an attribute -> where one of that name is read."""
    found: defaultdict[str, list[ast.Attribute]] = defaultdict(list)
    for _, node in facts.nodes(ast.Attribute):
        if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Load):
            found[node.attr].append(node)
    return found


def _is_in_each_row(place: ast.AST | None, slice_: ast.expr) -> bool:
    """Whether `place` is one entry of each row: `table[range(len(y)), y]`, `table[torch.arange(y.shape[0]), y]`."""
    if not isinstance(place, ast.Subscript) or place.slice is not slice_ or not isinstance(slice_, ast.Tuple) or len(slice_.elts) != 2:
        return False
    rows, entry = slice_.elts
    if not isinstance(rows, ast.Call) or ast.unparse(rows.func).rpartition(".")[2] not in {"range", "arange"} or not rows.args:
        return False
    text = ast.unparse(entry)
    return ast.unparse(rows.args[0]) in {f"len({text})", f"{text}.shape[0]", f"{text}.size(0)"}
