"""Install, update and remove the skill below a root: a project, or the home directory."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from accel_migrate.assistants import rules
from accel_migrate.assistants.apply import apply
from accel_migrate.assistants.bundle import NAME, skill_files, version_of
from accel_migrate.assistants.manifest import Manifest, read_manifest
from accel_migrate.assistants.plan import Step, Wanted, plan, renewed
from accel_migrate.assistants.table import ASSISTANTS, SHARED, Assistant
from accel_migrate.errors import UserError

PROJECT, USER = "project", "user"


@dataclass(frozen=True)
class Place:
    """Where to install: the folder, and whether it is a project or the home directory."""

    root: Path
    scope: str = PROJECT

    def skills(self, assistant: Assistant) -> str:
        return assistant.skills if self.scope == PROJECT else assistant.user_skills


def detected(place: Place, home: Path) -> list[str]:
    """The assistants of which there are signs, in the project or in the home directory."""
    found = []
    for name, assistant in ASSISTANTS.items():
        in_project = place.scope == PROJECT and any((place.root / sign).exists() for sign in assistant.signs)
        if in_project or any((home / sign).exists() for sign in assistant.user_signs):
            found.append(name)
    return found


def install(
    place: Place,
    assistants: Iterable[str],
    *,
    language: str | None = None,
    with_rules: bool = False,
    pointer: bool = True,
    dry: bool = False,
) -> list[Step]:
    """Put the skill where `assistants` look, besides those of earlier installations, and return what was (or would be) done.

    Raises:
        UserError: an assistant is not known, or a place cannot be written.
    """
    old = read_manifest(place.root)
    new = renewed(old)
    new.assistants = sorted({*old.assistants, *map(_known, assistants)})
    new.language, new.rules, new.pointer = language or old.language, with_rules or old.rules, pointer and old.pointer
    return _reach(place, old, new, dry)


def update(place: Place, dry: bool = False) -> list[Step]:
    """Bring what is installed to this version.

    Raises:
        UserError: nothing is installed.
    """
    old = read_manifest(place.root)
    if old.is_empty:
        raise UserError(f"{place.root}: the skill is not installed here: accel skill install")
    return _reach(place, old, renewed(old), dry)


def uninstall(place: Place, assistants: Sequence[str] = (), dry: bool = False) -> list[Step]:
    """Take away what was installed (for these assistants only), but not what a person has changed since."""
    old = read_manifest(place.root)
    new = renewed(old)
    new.assistants = [name for name in old.assistants if name not in set(map(_known, assistants))]
    if assistants and new.assistants:
        return _reach(place, old, new, dry)
    return _carry(place, Wanted(), old, Manifest(), dry)


def _reach(place: Place, old: Manifest, new: Manifest, dry: bool) -> list[Step]:
    new.skill = version_of(skill_files(new.language)["SKILL.md"])
    return _carry(place, wanted(place, new), old, new, dry)


def _carry(place: Place, wish: Wanted, old: Manifest, new: Manifest, dry: bool) -> list[Step]:
    steps = plan(place.root, wish, old, new)
    if not dry:
        apply(place.root, steps, old, new)
    return steps


def wanted(place: Place, manifest: Manifest) -> Wanted:
    """What should be there: the real files once, copies where an assistant reads only its own folder, and the pointers."""
    chosen = [ASSISTANTS[name] for name in manifest.assistants if name in ASSISTANTS]
    folders = dict.fromkeys([SHARED, *(place.skills(assistant) for assistant in chosen)])
    files = {
        f"{folder}/{NAME}/{name}": content
        for folder in folders
        for name, content in skill_files(manifest.language).items()
    }
    blocks: dict[str, str] = {}
    if place.scope == PROJECT:
        blocks = {"AGENTS.md": rules.block()} if manifest.pointer else {}
        for assistant in chosen if manifest.rules else ():
            if assistant.rules_format == "block":
                blocks[assistant.rules] = rules.block()
            else:
                files[assistant.rules] = rules.own_file(assistant).encode()
    return Wanted(files, blocks)


def _known(name: str) -> str:
    if name not in ASSISTANTS:
        raise UserError(f"there is no assistant {name!r} in the table: give one of {', '.join(ASSISTANTS)}")
    return name
