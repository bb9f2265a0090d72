"""A training program on disk: the script and every module of the same project which it imports."""

from __future__ import annotations

import ast
import os
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from accel_migrate.errors import UserError
from accel_migrate.facts.traces import Traces
from accel_migrate.import_paths import Added, added_paths, existing
from accel_migrate.layout import entry_name, is_installed, search_path
from accel_migrate.source import Source, read_source

_NEVER_LOCAL = {"torch", "torchvision", "torchaudio", "numpy", "accelerate", "accel_runtime"}
"""Names which mean the library, also where an ancestor folder of the script has a folder of that name."""
_MOST_MODULES = 500


@dataclass(frozen=True, eq=False)
class Project:
    """The entry script and the project-local modules it imports, directly or not."""

    entry: Source
    sources: dict[str, Source]
    """By dotted name, the entry under its own (`train`, or `pkg.train` in a package). No file is in it twice."""
    root: Path
    """The folder from which relative places in the project are counted: it holds the script's and the modules'
    top-level names."""
    aliases: dict[str, str] = field(default_factory=dict)
    """Other dotted names under which a file of the project is imported -> its name in `sources`."""
    notes: list[str] = field(default_factory=list)
    """Local modules which could not be read, one line each."""
    traces: Traces = field(default_factory=Traces, repr=False)
    """What analyses of the program, and of what stages made of it, have found its functions to do."""

    def find(self, module: str) -> Source | None:
        """The project file which `import module` runs, if it is one."""
        return self.sources.get(self.aliases.get(module, module))

    def with_texts(self, texts: Mapping[Path, str]) -> Project:
        """The same project after files got other texts, nothing read from disk (see `gate`)."""
        fresh = {
            name: replace(source, text=texts[source.path]) if source.path in texts else source
            for name, source in self.sources.items()
        }
        return replace(self, entry=fresh[self.entry.module], sources=fresh)


class Reader:
    """Reads each file once, however many programs it belongs to."""

    def __init__(self) -> None:
        self._sources: dict[tuple[Path, str], Source | UserError] = {}
        self._imports: dict[Source, list[str]] = {}
        self._added: dict[Source, list[Added]] = {}

    def read(self, path: Path, module: str) -> Source:
        """`read_source`, remembered with its failures."""
        key = path, module
        if key not in self._sources:
            try:
                self._sources[key] = read_source(path, module=module)
            except UserError as error:
                self._sources[key] = error
        found = self._sources[key]
        if isinstance(found, UserError):
            raise found
        return found

    def imports(self, source: Source) -> list[str]:
        """`imported_names`, remembered."""
        if source not in self._imports:
            self._imports[source] = imported_names(source)
        return self._imports[source]

    def added_paths(self, source: Source) -> list[Added]:
        """`import_paths.added_paths`, remembered."""
        if source not in self._added:
            self._added[source] = added_paths(source)
        return self._added[source]


def load_project(entry: Path, reader: Reader | None = None) -> Project:
    """Read `entry` and, transitively, what it imports from its own project; installed packages are left out.

    Raises:
        UserError: `entry` itself cannot be read. For a module that cannot be read there is a note instead.
    """
    name, base = entry_name(entry)
    reader = reader or Reader()
    source = reader.read(entry, name)
    loader = _Loader(search_path(entry, base), reader, name.partition(".")[0])
    loader.add(source, base)
    loader.follow_imports(source)
    root = Path(os.path.commonpath([os.path.abspath(path) for path in loader.bases]))
    return Project(source, loader.sources, root, loader.aliases, loader.notes)


def absolute_name(source: Source, node: ast.ImportFrom) -> str:
    """The dotted name of the module that `from ... import` in `source` names, its leading dots resolved.

    Empty where the dots lead out of the outermost package.
    """
    if not node.level:
        return node.module or ""
    package = source.module.split(".")
    dropped = node.level - source.is_package
    if dropped > len(package):
        return ""
    kept = package[: len(package) - dropped]
    return ".".join([*kept, node.module] if node.module else kept)


class _Loader:
    """Collects the modules of a project, each file once."""

    def __init__(self, search_path: list[Path], reader: Reader, own: str) -> None:
        self.search_path = search_path
        self.installed = {base for base in search_path if is_installed(base)}
        self.own = own
        """The package of the entry script, which may be an installed one; others beside it are not its project's."""
        self.reader = reader
        self.sources: dict[str, Source] = {}
        self.aliases: dict[str, str] = {}
        self.notes: list[str] = []
        self.bases: set[Path] = set()
        self._names_by_file: dict[str, str] = {}
        self._tried: set[str] = set()
        self._added = 1
        """Where the next folder is put: behind the script's own and those added before, ahead of its ancestors."""

    def add(self, source: Source, base: Path) -> None:
        self.sources[source.module] = source
        self.bases.add(base)
        self._names_by_file[os.path.realpath(source.path)] = source.module

    def follow_imports(self, entry: Source) -> None:
        pending = [entry]
        while pending:
            while pending:
                for name in self.reader.imports(pending.pop()):
                    pending.extend(self._load_chain(name))
            if self._search_further():
                self._tried.clear()
                pending = list(self.sources.values())

    def _search_further(self) -> bool:
        """Whether the modules add folders to `sys.path` that were not searched yet; from now on they are."""
        known = {os.path.realpath(base) for base in self.search_path}
        working, before = list(self.search_path), len(known)
        for source in list(self.sources.values()):
            for added in self.reader.added_paths(source):
                folder = existing(added, working)
                if folder is not None and os.path.realpath(folder) not in known and not is_installed(folder):
                    known.add(os.path.realpath(folder))
                    self.search_path.insert(
                        0 if added.first else self._added,
                        folder if working[0].is_absolute() else Path(os.path.relpath(folder)),
                    )
                    self._added += 1
        return len(known) > before

    def _load_chain(self, name: str) -> Iterator[Source]:
        """`import a.b.c` runs a, a.b and a.b.c."""
        parts = name.split(".")
        for depth in range(1, len(parts) + 1):
            source = self._load(".".join(parts[:depth]))
            if source is not None:
                yield source

    def _load(self, name: str) -> Source | None:
        """The module if it is local and new."""
        if name in self._tried or name in self.sources:
            return None
        self._tried.add(name)
        found = self._locate(name)
        if found is None or self._known_by_another_name(name, found[0]) or self._is_full():
            return None
        path, base = found
        try:
            source = self.reader.read(path, name)
        except UserError as error:
            self.notes.append(f"{error} (imported as {name}; not looked into)")
            return None
        self.add(source, base)
        return source

    def _locate(self, name: str) -> tuple[Path, Path] | None:
        parts = name.split(".")
        for number, base in enumerate(self.search_path):
            if number and (parts[0] in _NEVER_LOCAL or parts[0] in sys.stdlib_module_names):
                return None
            if base in self.installed and parts[0] != self.own:
                continue
            stem = base.joinpath(*parts)
            for path in (stem / "__init__.py", stem.with_name(stem.name + ".py")):
                if path.is_file():
                    return path, base
        return None

    def _known_by_another_name(self, name: str, path: Path) -> bool:
        known = self._names_by_file.get(os.path.realpath(path))
        if known is not None:
            self.aliases[name] = known
        return known is not None

    def _is_full(self) -> bool:
        if len(self.sources) < _MOST_MODULES:
            return False
        note = f"more than {_MOST_MODULES} local modules are imported; the rest was not looked into"
        if note not in self.notes:
            self.notes.append(note)
        return True


def in_import_order(project: Project) -> list[Source]:
    """The files of `project`, each behind those that it imports (where they do not import it in turn), the entry last."""
    ordered: dict[Source, None] = {}
    begun = {project.entry}
    pending = [(project.entry, _imported(project, project.entry))]
    while pending:
        source, imports = pending[-1]
        found = next((s for s in imports if s not in begun), None)
        if found is None:
            pending.pop()
            ordered[source] = None
        else:
            begun.add(found)
            pending.append((found, _imported(project, found)))
    others = [source for source in project.sources.values() if source not in ordered]
    return [*others, *ordered]


def _imported(project: Project, source: Source) -> Iterator[Source]:
    """The files of `project` that `source` runs by its imports: `import a.b` runs `a`, then `a.b`."""
    for name in imported_names(source):
        parts = name.split(".")
        found = (project.find(".".join(parts[:depth])) for depth in range(1, len(parts) + 1))
        yield from (s for s in found if s is not None)


def imported_names(source: Source) -> list[str]:
    """Dotted names of all modules which `source` may import, wherever in the file; for `from a import b` also `a.b`."""
    names: dict[str, None] = {}
    for node in source.index.of_kind(ast.Import, ast.ImportFrom):
        if isinstance(node, ast.Import):
            names.update((alias.name, None) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            module = absolute_name(source, node)
            if module:
                names[module] = None
            prefix = f"{module}." if module else ""
            if module or node.level:
                names.update((prefix + alias.name, None) for alias in node.names if alias.name != "*")
    return list(names)
