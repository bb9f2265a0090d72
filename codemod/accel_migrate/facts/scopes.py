"""Which scope a name belongs to, and what the imports of a file bind."""

from __future__ import annotations

import ast
from dataclasses import dataclass, field

from accel_migrate.source import Source

FunctionNode = ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda


@dataclass(eq=False)
class Scope:
    """A module, class or function body. Comprehensions share the scope they stand in."""

    node: ast.AST
    source: Source
    parent: Scope | None = None
    bound: set[str] = field(default_factory=set)
    outer: set[str] = field(default_factory=set)
    """Names declared `global` or `nonlocal`."""
    children: dict[ast.AST, Scope] = field(default_factory=dict)
    _owners: dict[str, Scope | None] = field(default_factory=dict)
    """What was asked of `owner`."""

    @property
    def is_class(self) -> bool:
        return isinstance(self.node, ast.ClassDef)

    @property
    def module(self) -> Scope:
        scope = self
        while scope.parent is not None:
            scope = scope.parent
        return scope

    @property
    def enclosing_class(self) -> Scope | None:
        """The class whose method this function scope is, if it is one."""
        return self.parent if self.parent is not None and self.parent.is_class else None

    def owner(self, name: str) -> Scope | None:
        """The scope in which `name`, read here, is bound; None for builtins and names from star imports.

        To be asked once all scopes of the file are known.
        """
        if name not in self._owners:
            self._owners[name] = self._find_owner(name)
        return self._owners[name]

    def _find_owner(self, name: str) -> Scope | None:
        scope: Scope | None = self
        while scope is not None:
            visible = scope is self or not scope.is_class
            if visible and name in scope.bound and name not in scope.outer:
                return scope
            scope = scope.parent
        return None


def build_scopes(source: Source) -> dict[ast.AST, Scope]:
    """The scope of every module, class and function node of `source`."""
    root = Scope(source.tree, source)
    scopes: dict[ast.AST, Scope] = {source.tree: root}
    pending = [(child, root) for child in ast.iter_child_nodes(source.tree)]
    while pending:
        node, scope = pending.pop()
        inner = scope
        if isinstance(node, ast.ClassDef | FunctionNode):
            if not isinstance(node, ast.Lambda):
                scope.bound.add(node.name)
            inner = Scope(node, source, scope)
            scope.children[node] = inner
            scopes[node] = inner
            if isinstance(node, FunctionNode):
                inner.bound.update(arg.arg for arg in parameters(node))
        _bind(node, scope)
        pending.extend((child, inner) for child in ast.iter_child_nodes(node))
    return scopes


def _bind(node: ast.AST, scope: Scope) -> None:
    if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store | ast.Del):
        scope.bound.add(node.id)
    elif isinstance(node, ast.Import | ast.ImportFrom):
        scope.bound.update((alias.asname or alias.name).split(".")[0] for alias in node.names if alias.name != "*")
    elif isinstance(node, ast.Global | ast.Nonlocal):
        scope.outer.update(node.names)
        if isinstance(node, ast.Global):
            scope.module.bound.update(node.names)
    elif isinstance(node, ast.ExceptHandler) and node.name:
        scope.bound.add(node.name)


def parameters(node: FunctionNode) -> list[ast.arg]:
    """All parameters in order, `*args` and `**kwargs` included."""
    a = node.args
    return [*a.posonlyargs, *a.args, *([a.vararg] if a.vararg else []), *a.kwonlyargs, *([a.kwarg] if a.kwarg else [])]
