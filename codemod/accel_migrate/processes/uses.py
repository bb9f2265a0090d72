"""Where names are read in a program, by text alone: enough to see what lost its last use."""

from __future__ import annotations

import ast
from collections import defaultdict
from dataclasses import dataclass, field
from functools import cached_property

from accel_migrate.facts.scopes import Scope
from accel_migrate.project import Project
from accel_migrate.source import Source

Variable = tuple[str, str, str]
"""File, dotted name of the function or class that binds it, name."""


@dataclass(eq=False)
class Uses:
    """Reads of the variables and attributes of a program."""

    project: Project
    scopes: dict[ast.AST, Scope] = field(default_factory=dict)
    parents: dict[ast.AST, ast.AST] = field(default_factory=dict)
    variables: dict[Variable, list[ast.Name]] = field(default_factory=lambda: defaultdict(list))
    attributes: dict[str, list[ast.AST]] = field(default_factory=lambda: defaultdict(list))
    """Attribute reads, and strings that are names (`getattr(args, "rank")`, `"Trainer"` in `__all__`)."""
    fields: dict[str, list[ast.AST]] = field(default_factory=lambda: defaultdict(list))
    """The same without what is read from modules: `torch.distributed` is no read of `args.distributed`."""
    names: dict[str, list[ast.AST]] = field(default_factory=lambda: defaultdict(list))
    """Every read of a name, imports from other modules of the program included."""

    _imported: dict[tuple[Scope, type[ast.AST]], set[str]] = field(default_factory=dict)

    @cached_property
    def sources(self) -> list[Source]:
        return list(dict.fromkeys([self.project.entry, *self.project.sources.values()]))

    def __post_init__(self) -> None:
        for source in self.sources:
            self.scopes.update(source.scopes)
            self.parents.update(source.index.parents)
        for source in self.sources:
            for node in source.index.of_kind(ast.Name, ast.Attribute, ast.Constant):
                self._note(node, source)

    def _note(self, node: ast.AST, source: Source) -> None:
        if isinstance(node, ast.Name) and not isinstance(node.ctx, ast.Store):
            self.variables[self.variable(node)].append(node)
            self.names[node.id].append(node)
        elif isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Load):
            self.attributes[node.attr].append(node)
            if not self._is_imported(node.value, (ast.Import,)):
                self.fields[node.attr].append(node)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and node.value.isidentifier() and not self._is_address(node):
            self.attributes[node.value].append(node)
            self.fields[node.value].append(node)

    def _is_imported(self, node: ast.expr, kinds: tuple[type[ast.AST], ...]) -> bool:
        """Whether `node` is, or is a part of, what an import statement of these kinds binds."""
        while isinstance(node, ast.Attribute):
            node = node.value
        if not isinstance(node, ast.Name):
            return False
        owner = self.scope(node).owner(node.id)
        return owner is not None and any(node.id in self._bound(owner, kind) for kind in kinds)

    def _bound(self, scope: Scope, kind: type[ast.AST]) -> set[str]:
        if (scope, kind) not in self._imported:
            nodes = scope.source.index.nodes if scope.parent is None else ast.walk(scope.node)
            found = (n for n in nodes if isinstance(n, kind))
            self._imported[scope, kind] = {(a.asname or a.name).split(".")[0] for n in found for a in n.names}  # type: ignore[attr-defined]
        return self._imported[scope, kind]

    def _is_of_library(self, node: ast.expr) -> bool:
        """Whether `node` is, or is a part of, a module that no file of the program is: `torch` of `torch.save`."""
        while isinstance(node, ast.Attribute):
            node = node.value
        owner = self.scope(node).owner(node.id) if isinstance(node, ast.Name) else None
        if owner is None:
            return False
        imports = (n for n in ast.walk(owner.node) if isinstance(n, ast.Import))
        modules = [a.name if a.asname else a.name.split(".")[0] for n in imports for a in n.names if (a.asname or a.name).split(".")[0] == node.id]  # type: ignore[attr-defined]
        return bool(modules) and all(module.split(".")[0] not in self._own_names for module in modules)

    @cached_property
    def _own_names(self) -> set[str]:
        """Names of the program's files and folders."""
        return {name for source in self.sources for name in (*source.path.parts, source.path.stem)}

    def _is_address(self, node: ast.Constant) -> bool:
        """Whether the string names an argument or a variable of the environment, and not an attribute."""
        parent = self.parents.get(node)
        declared = isinstance(parent, ast.Call) and isinstance(parent.func, ast.Attribute) and parent.func.attr == "add_argument"
        return declared or isinstance(parent, ast.Subscript) or (isinstance(parent, ast.keyword) and parent.arg in {"dest", "help", "metavar"})

    def variable(self, node: ast.Name | ast.arg) -> Variable:
        scope = self.scope(node)
        name = node.id if isinstance(node, ast.Name) else node.arg
        owner = scope.owner(name) or scope.module
        return str(owner.source.path), qualified(owner), name

    def scope(self, node: ast.AST) -> Scope:
        current = node
        while current in self.parents:
            current = self.parents[current]
            if current in self.scopes:
                return self.scopes[current]
        return self.scopes[current]

    def is_inside_function(self, node: ast.AST, name: str) -> bool:
        """Whether `node` stands in a function called `name`, which may call itself."""
        current = node
        while current in self.parents:
            current = self.parents[current]
            if isinstance(current, ast.FunctionDef) and current.name == name:
                return True
        return False

    def reads_of_function(self, name: str) -> list[ast.AST]:
        """Reads that may mean a function or class of a module called `name`: by its name, through a module, as a string."""
        imports = (ast.Import, ast.ImportFrom)
        through = (n for n in self.attributes.get(name, ()) if self._is_exported(n) or self._is_looked_up(n, imports))
        return [*self.names.get(name, ()), *through]

    def _is_looked_up(self, node: ast.AST, imports: tuple[type[ast.AST], ...]) -> bool:
        return isinstance(node, ast.Attribute) and self._is_imported(node.value, imports) and not self._is_of_library(node.value)

    def _is_exported(self, node: ast.AST) -> bool:
        """Whether the string `node` is looked up as a name: in `__all__`, by `getattr(module, "name")`."""
        parent = self.parents.get(node)
        if not isinstance(node, ast.Constant):
            return False
        if isinstance(parent, ast.Call):
            return ast.unparse(parent.func) in {"getattr", "hasattr"}
        above = self.parents.get(parent) if parent is not None else None
        return isinstance(above, ast.Assign | ast.AugAssign) and "__all__" in ast.unparse(above)


def qualified(scope: Scope) -> str:
    parts: list[str] = []
    current: Scope | None = scope
    while current is not None and current.parent is not None:
        parts.append(getattr(current.node, "name", "<lambda>"))
        current = current.parent
    return ".".join(reversed(parts))
