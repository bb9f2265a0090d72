"""What lost its last use when processes became the accelerator's: helpers, variables, parameters, arguments, imports.

Only what was used before and is not any more: code that nobody used in the first place is the author's affair.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import cached_property

from accel_migrate.edits import DropImportIfUnused, Edit, RemoveArgument, RemoveParameter, ReplaceStatement
from accel_migrate.facts.device_text import LOOK_AT_ALL
from accel_migrate.facts.rank_names import LAUNCHER_ARGUMENTS
from accel_migrate.facts.ranks import argument_name
from accel_migrate.processes.branches import Branches
from accel_migrate.processes.compared import ID, WHY, called_name
from accel_migrate.processes.effects import has_no_effect, is_empty
from accel_migrate.processes.thin import plain_returns, returned_elements, same_returns, thin_functions
from accel_migrate.processes.uses import Uses, qualified
from accel_migrate.project import Project
from accel_migrate.source import Source

MERGES = {"merge_from_file", "merge_from_list", "merge_from_other_cfg", "merge_with", "from_cli"}
"""Methods by which objects of settings take those of a file or of the command line."""


def leftovers(before: Project, after: Project) -> list[Edit]:
    """One round of deletions in `after`."""
    sweep = Sweep(Uses(before), Uses(after))
    steps = (
        sweep.stand_ins, sweep.empty_branches, sweep.equal_branches, sweep.empty_functions, sweep.thin, sweep.functions, sweep.arguments, sweep.variables, sweep.same_returns, sweep.plain_returns,
        sweep.returned_elements, sweep.parameters,
    )  # fmt: skip
    for step in steps:
        edits = list(step())
        if edits:
            return [*edits, *sweep.imports()]
    return list(sweep.imports())


class Sweep(Branches):
    """Deletions of what lost its last use, in `after`."""

    def empty_functions(self) -> Iterator[Edit]:
        """Calls of functions that do nothing any more."""
        full = {(str(s.path), n.name) for s in self.before.sources for n in s.index.of_kind(ast.FunctionDef) if not is_empty(n.body)}
        empty = {
            n.name for n in self._nodes(ast.FunctionDef)
            if is_empty(n.body) and (str(self._source(n).path), n.name) in full and self._is_plain(n)  # type: ignore[attr-defined]
        }  # fmt: skip
        for node in self._nodes(ast.Expr) if empty else ():
            call = node.value  # type: ignore[attr-defined]
            if isinstance(call, ast.Call) and called_name(call) in empty and all(has_no_effect(a) for a in [*call.args, *(k.value for k in call.keywords)]):
                yield self._delete(node)  # type: ignore[arg-type]

    def thin(self) -> Iterator[Edit]:
        return thin_functions(self.before, self.after)

    def same_returns(self) -> Iterator[Edit]:
        return same_returns(self.before, self.after)

    def plain_returns(self) -> Iterator[Edit]:
        return plain_returns(self.before, self.after)

    def returned_elements(self) -> Iterator[Edit]:
        return returned_elements(self.before, self.after)

    def functions(self) -> Iterator[Edit]:
        for node in self._nodes(ast.FunctionDef):
            assert isinstance(node, ast.FunctionDef)
            if not self._is_plain(node) or node.name.startswith("__"):
                continue
            if self.after.scope(node).is_class:
                if self._is_whole(node):
                    continue
                before, now = self.before.fields.get(node.name, ()), self.after.fields.get(node.name, ())
            else:
                before, now = self.before.reads_of_function(node.name), self.after.reads_of_function(node.name)
            used = any(not self.before.is_inside_function(r, node.name) for r in before)
            if used and all(self.after.is_inside_function(r, node.name) for r in now):
                yield self._delete(node)

    def _is_whole(self, method: ast.FunctionDef) -> bool:
        """Whether its class goes as a whole or not at all: nothing reads it, or it stands in for one of a library."""
        own_class = self.after.parents[method]
        assert isinstance(own_class, ast.ClassDef)
        return not self.after.reads_of_function(own_class.name) or any(isinstance(a, ast.Try) for a in self._around(own_class))

    def arguments(self) -> Iterator[Edit]:
        """Command line arguments."""
        if self._reads_all_arguments():
            return
        for node in self._nodes(ast.Expr):
            call = node.value  # type: ignore[attr-defined]
            name = argument_name(call) if isinstance(call, ast.Call) else ""
            if name and (self.before.fields.get(name) or name in LAUNCHER_ARGUMENTS) and not self.after.fields.get(name):
                yield self._delete(node)  # type: ignore[arg-type]

    def _reads_all_arguments(self) -> bool:
        """Whether the arguments are handed on as a mapping: `Trainer(**vars(args))`."""
        for node in self._nodes(ast.Call):
            parent = self.after.parents[node]
            if called_name(node) == "vars" and ((isinstance(parent, ast.keyword) and parent.arg is None) or isinstance(parent, ast.Subscript)):  # type: ignore[arg-type]
                return True
        return False

    def variables(self) -> Iterator[Edit]:
        for node in self._nodes(ast.Assign, ast.AnnAssign, ast.AugAssign):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]  # type: ignore[attr-defined]
            value: ast.expr | None = node.value  # type: ignore[attr-defined]
            if len(targets) != 1 or value is None:
                continue
            if isinstance(targets[0], ast.Tuple) and isinstance(value, ast.Tuple) and len(targets[0].elts) == len(value.elts):
                yield from self._elements(node, targets[0], value)  # type: ignore[arg-type]
            elif ast.unparse(targets[0]) == ast.unparse(value) and isinstance(node, ast.Assign):
                yield self._delete(node)
            elif self._lost(targets[0]) and has_no_effect(value) and not self._is_looked_up(node):  # type: ignore[arg-type]
                yield self._delete(node)  # type: ignore[arg-type]

    def _is_looked_up(self, statement: ast.stmt) -> bool:
        """Whether `statement` makes a setting of a module that looks at all of its variables: `exec(open("overrides.py").read())`."""
        if not isinstance(self.after.parents[statement], ast.Module):
            return False
        calls = (n for n in self._nodes(ast.Call) if ast.unparse(n.func) in LOOK_AT_ALL)  # type: ignore[attr-defined]
        return any(self._source(call) is self._source(statement) for call in calls)

    def _elements(self, node: ast.stmt, targets: ast.Tuple, values: ast.Tuple) -> Iterator[Edit]:
        pairs = list(zip(targets.elts, values.elts, strict=True))
        kept = [(t, v) for t, v in pairs if not (self._lost(t) and has_no_effect(v))]
        if len(kept) == len(pairs):
            return
        if not kept:
            yield self._delete(node)
            return
        parts: dict[str, ast.AST] = {f"t{i}": t for i, (t, _) in enumerate(kept)} | {f"v{i}": v for i, (_, v) in enumerate(kept)}
        left, right = (", ".join(f"{{{letter}{i}}}" for i in range(len(kept))) for letter in "tv")
        yield ReplaceStatement(source=self._source(node), rule=ID, why=WHY, node=node, template=f"{left} = {right}", parts=parts)

    def _lost(self, target: ast.expr) -> bool:
        """Whether the variable or attribute was read before, and is not any more."""
        if isinstance(target, ast.Attribute):
            if self._is_merged:
                return False
            return bool(self.before.fields.get(target.attr)) and not self.after.fields.get(target.attr)
        if not isinstance(target, ast.Name):
            return False
        if target.id in self.after.scope(target).outer:
            return False
        variable = self.after.variable(target)
        read = bool(self.before.variables.get(variable))
        if not variable[1]:
            return read and not self.after.reads_of_function(target.id)
        return read and not self.after.variables.get(variable)

    @cached_property
    def _is_merged(self) -> bool:
        """Whether settings are filled from files or lists, which may name any of them: one that is gone would be an error there."""
        return any(isinstance(n.func, ast.Attribute) and n.func.attr in MERGES for n in self._nodes(ast.Call))  # type: ignore[attr-defined]

    # -- parameters --------------------------------------------------------------------------------
    def parameters(self) -> Iterator[Edit]:
        for node in self._nodes(ast.FunctionDef):
            assert isinstance(node, ast.FunctionDef)
            calls = self._calls(node)
            if calls is None:
                continue
            for parameter in node.args.args:
                if self._parameter_lost(node, parameter):
                    given = [_given(call, node, parameter, self._is_method(node)) for call in calls]
                    if all(g is None or has_no_effect(g) for g in given):
                        yield RemoveParameter(source=self._source(node), rule=ID, why=WHY, node=node, parameter=parameter)
                        for call, argument in zip(calls, given, strict=True):
                            if argument is not None:
                                yield RemoveArgument(source=self._source(call), rule=ID, why=WHY, node=call, argument=argument)

    def _parameter_lost(self, function: ast.FunctionDef, parameter: ast.arg) -> bool:
        if parameter.arg == "self" or parameter is (function.args.args[0] if self._is_method(function) else None):
            return False
        variable = (str(self._source(function).path), qualified(self.after.scopes[function]), parameter.arg)
        return bool(self.before.variables.get(variable)) and not self.after.variables.get(variable)

    def _is_method(self, function: ast.FunctionDef) -> bool:
        return self.after.scope(function).is_class

    def _calls(self, function: ast.FunctionDef) -> list[ast.Call] | None:
        """All calls of `function`; None where some use of it is no plain call."""
        name = function.name
        if self._is_method(function):
            if name != "__init__":
                return None
            cls = self.after.parents[function]
            assert isinstance(cls, ast.ClassDef)
            name = cls.name
            if not self._is_plain(cls):
                return None
        elif not self._is_plain(function):
            return None
        reads = self.after.reads_of_function(name)
        calls = [self.after.parents.get(r) for r in reads]
        plain = [c for c, r in zip(calls, reads, strict=True) if isinstance(c, ast.Call) and c.func is r and not any(isinstance(a, ast.Starred) for a in c.args)]
        named = [c for c in plain if all(k.arg is not None for k in c.keywords)]
        return named if named and len(named) == len(reads) else None

    def imports(self) -> Iterator[Edit]:
        for source in self.before.sources:
            current = next(s for s in self.after.sources if s.path == source.path)
            read = {name for (path, _, name) in self.before.variables if path == str(source.path)}
            still = {name for (path, _, name), reads in self.after.variables.items() if path == str(source.path) and reads}
            brought = _imported(current) - _imported(source)
            for name in sorted(_imported(current) & ((read | brought) - still)):
                yield DropImportIfUnused(source=current, rule=ID, name=name)


def _imported(source: Source) -> set[str]:
    return {(a.asname or a.name).split(".")[0] for n in source.index.of_kind(ast.Import, ast.ImportFrom) for a in n.names}


def _given(call: ast.Call, function: ast.FunctionDef, parameter: ast.arg, bound: bool) -> ast.expr | None:
    keyword = next((k.value for k in call.keywords if k.arg == parameter.arg), None)
    place = function.args.args.index(parameter) - bound
    return keyword or (call.args[place] if place < len(call.args) else None)
