"""The skill's pages: their form, what they link and name, and the Chinese page beside the English one."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import yaml

from accel_migrate import __version__
from accel_migrate.check.rules import all_checks
from accel_migrate.command.umbrella import COMMANDS
from accel_migrate.selection import known_rules
from skill.blocks import SKILL, pages

ENGLISH, CHINESE = SKILL / "SKILL.md", SKILL / "SKILL.zh-CN.md"
FIELDS = {"name", "description", "license", "compatibility", "metadata"}
REFERENCES = {
    "by-hand", "checkpoints", "evaluation", "data", "fsdp", "deepspeed", "tensor-parallel", "launch", "several-models", "hangs", "precision", "from-ddp",
    "accelerate", "transformers",
}  # fmt: skip


def frontmatter(path: Path) -> dict[str, object]:
    _, head, _ = path.read_text(encoding="utf-8").split("---\n", 2)
    fields = yaml.safe_load(head)
    assert isinstance(fields, dict)
    return fields


@pytest.mark.parametrize("path", [ENGLISH, CHINESE], ids=lambda path: path.name)
def test_the_frontmatter_is_what_the_specification_wants(path: Path) -> None:
    fields = frontmatter(path)
    assert set(fields) == FIELDS
    assert fields["name"] == SKILL.name
    assert 0 < len(str(fields["description"])) <= 1024
    assert len(str(fields["compatibility"])) <= 500
    metadata = fields["metadata"]
    assert isinstance(metadata, dict) and metadata["version"] == __version__
    assert all(isinstance(value, str) for value in metadata.values())


def test_the_description_says_when_and_when_not_and_answers_to_the_usual_names() -> None:
    text = str(frontmatter(ENGLISH)["description"])
    assert text.startswith("Use this skill when") and "Not for" in text
    for name in ("huggingface accelerate", "multi-GPU", "DDP", "单卡改多卡", "accel check"):
        assert name in text, name


def test_the_reference_validator_passes() -> None:
    validate = pytest.importorskip("skills_ref").validate
    assert validate(SKILL) == []


def test_the_page_is_short() -> None:
    for path in (ENGLISH, CHINESE):
        assert len(path.read_text(encoding="utf-8").splitlines()) < 220, path


def test_every_reference_is_there_and_linked_with_a_reason() -> None:
    assert {path.stem for path in (SKILL / "references").glob("*.md")} == REFERENCES
    for path in (ENGLISH, CHINESE):
        rows = [line for line in path.read_text(encoding="utf-8").splitlines() if line.startswith("| [")]
        linked = {name for row in rows for name in re.findall(r"references/([a-z-]+)\.md", row)}
        assert linked == REFERENCES
        assert all(row.rstrip(" |").rpartition("|")[2].strip() for row in rows)


@pytest.mark.parametrize("page", [*pages(), CHINESE.name])
def test_links_lead_somewhere(page: str) -> None:
    for link in re.findall(r"\]\(([^)#]+)\)", (SKILL / page).read_text(encoding="utf-8")):
        assert ((SKILL / page).parent / link).is_file(), link


@pytest.mark.parametrize("page", pages())
def test_rules_and_commands_that_pages_name_exist(page: str) -> None:
    text = (SKILL / page).read_text(encoding="utf-8")
    rules = {check.id for check in all_checks()} | set(known_rules())
    for rule in re.findall(r"^#+ .*`([a-z]+(?:-[a-z]+)+)`$", text, re.MULTILINE):
        assert rule in rules, rule
    for command in re.findall(
        r"\baccel ([a-z][a-z-]*)(?= [-A-Za-z]*|`)", " ".join(re.findall(r"`(accel [^`\n]+)`", text))
    ):
        assert command in COMMANDS, command


def test_the_chinese_page_has_the_same_shape() -> None:
    assert shape(CHINESE) == shape(ENGLISH)


def shape(path: Path) -> list[str]:
    """Titles by their level and the code in them, blocks of code as they are, rows of tables by their links and commands, items of lists."""
    found = []
    body = path.read_text(encoding="utf-8").split("---\n", 2)[2]
    for part in re.split(r"(^```.*?^```$)", body, flags=re.MULTILINE | re.DOTALL):
        if part.startswith("```"):
            found.append(part)
            continue
        for line in part.splitlines():
            if line.startswith("#"):
                found.append(line.split()[0] + " ".join(re.findall(r"`[^`]+`", line)))
            elif line.startswith("|"):
                found.append("|" * line.count("|") + " ".join(re.findall(r"\([^)]+\.md\)", line)))
            elif re.match(r"(\d\.|\*) ", line):
                found.append(line[:2])
    return found
