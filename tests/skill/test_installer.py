"""`accel skill`: in trees as each assistant has them, and against what people change in between."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from accel_migrate.assistants import blocks, rules
from accel_migrate.assistants.bundle import NAME, page_names, skill_files
from accel_migrate.assistants.install import Place, install, uninstall
from accel_migrate.assistants.manifest import PLACE
from accel_migrate.assistants.plan import SAME
from accel_migrate.assistants.table import ASSISTANTS, SHARED, Assistant
from accel_migrate.command.umbrella import main
from skill.blocks import SKILL

ROOT = SKILL.parents[1]
SHARED_SKILL = f"{SHARED}/{NAME}/SKILL.md"


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty folder that is the working directory, with an empty home directory beside it."""
    for name in ("project", "home"):
        (tmp_path / name).mkdir()
    monkeypatch.chdir(tmp_path / "project")
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    return tmp_path / "project"


def tree(folder: Path) -> dict[str, bytes]:
    """Every file below `folder` with its content, and every empty folder."""
    found = {}
    for path in sorted(folder.rglob("*")):
        if path.is_file() or path.is_symlink():
            found[str(path.relative_to(folder))] = b"link" if path.is_symlink() else path.read_bytes()
        elif not any(path.iterdir()):
            found[f"{path.relative_to(folder)}/"] = b""
    return found


def used_by(assistant: Assistant, project: Path) -> None:
    """The files that a project has in which people work with `assistant`."""
    for sign in assistant.signs:
        if "." in Path(sign).name.lstrip("."):
            (project / sign).parent.mkdir(parents=True, exist_ok=True)
            (project / sign).write_text("{}\n" if sign.endswith("json") else f"# {assistant.title}\nOur rules.")
        else:
            (project / sign / "settings").mkdir(parents=True, exist_ok=True)


@pytest.mark.parametrize("assistant", ASSISTANTS.values(), ids=lambda assistant: assistant.name)
def test_an_assistant_finds_the_skill_and_nothing_is_left_afterwards(assistant: Assistant, project: Path) -> None:
    used_by(assistant, project)
    (project / "AGENTS.md").write_bytes(b"# Ours\r\n\r\nDo not touch.\r\n")
    before = tree(project)
    assert main(["skill", "install", "--rules"]) == 0
    for folder in {SHARED, assistant.skills}:
        assert {path: (project / folder / NAME / path).read_bytes() for path in skill_files()} == skill_files()
    assert "accel check" in (project / assistant.rules).read_text()
    assert all(
        (project / path).read_bytes().startswith(content) for path, content in before.items() if not path.endswith("/")
    )
    after = tree(project)
    assert main(["skill", "install", "--rules"]) == 0
    assert tree(project) == after
    assert main(["skill", "uninstall"]) == 0
    assert tree(project) == before


@pytest.mark.parametrize("assistant", ASSISTANTS.values(), ids=lambda assistant: assistant.name)
def test_for_all_projects_it_is_in_the_home_directory(assistant: Assistant, project: Path) -> None:
    home = Path.home()
    assert main(["skill", "install", "--agent", assistant.name, "--scope", "user"]) == 0
    assert (home / assistant.user_skills / NAME / "SKILL.md").is_file()
    assert tree(project) == {} and not (home / "AGENTS.md").exists()
    assert main(["skill", "uninstall", "--scope", "user"]) == 0
    assert tree(home) == {}


def test_installed_copies_pass_the_reference_validator(project: Path) -> None:
    validate = pytest.importorskip("skills_ref").validate
    assert main(["skill", "install", "--agent", "all", "--language", "zh-CN"]) == 0
    folders = {SHARED, *(assistant.skills for assistant in ASSISTANTS.values())}
    assert {folder: validate(project / folder / NAME) for folder in folders} == {folder: [] for folder in folders}
    assert "单卡" in (project / SHARED_SKILL).read_text(encoding="utf-8")


def test_detection_needs_a_sign(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (project / ".cursor").mkdir()
    (Path.home() / ".qwen").mkdir()
    main(["skill", "list", "--json"])
    rows = json.loads(capsys.readouterr().out)["assistants"]
    assert [row["assistant"] for row in rows if row["detected"]] == ["cursor", "qwen-code"]


def test_without_a_sign_the_report_says_who_is_served(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["skill", "install"]) == 0
    assert "For Claude Code: --agent claude-code" in capsys.readouterr().out and not (project / ".claude").exists()
    main(["skill", "list"])
    lines = capsys.readouterr().out.splitlines()
    assert lines[1].split() == ["assistant", "state", "skills", "documented", "rules"]
    states = {line.split()[0]: line.split()[1] for line in lines[2:-1]}
    assert states == {name: "served" if assistant.skills == SHARED else "-" for name, assistant in ASSISTANTS.items()}
    main(["skill", "install", "--agent", "codex,cline"])
    assert "For Cline, OpenAI Codex, and whoever reads" in capsys.readouterr().out
    main(["skill", "list", "--json"])
    rows = json.loads(capsys.readouterr().out)["assistants"]
    assert [row["assistant"] for row in rows if row["installed"]] == ["codex", "cline"]
    assert {row["assistant"] for row in rows if row["served"]} == {"cline", *(k for k, v in states.items() if v != "-")}


def test_what_a_person_changed_is_kept_and_named(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    main(["skill", "install", "--agent", "claude-code", "--rules"])
    (project / SHARED_SKILL).write_text("mine")
    (project / "CLAUDE.md").write_text(
        (project / "CLAUDE.md").read_text().replace("rewrites", "rewrites, but ask me first")
    )
    (project / f".claude/skills/{NAME}/references/hangs.md").unlink()
    capsys.readouterr()
    assert main(["skill", "install"]) == 1
    printed = capsys.readouterr().out
    assert (
        f"kept {SHARED_SKILL}: you have changed it" in printed
        and "kept CLAUDE.md: you have changed the block" in printed
    )
    assert (project / f".claude/skills/{NAME}/references/hangs.md").is_file()
    assert main(["skill", "uninstall"]) == 1
    assert sorted(tree(project)) == [SHARED_SKILL, "CLAUDE.md"]
    assert (project / SHARED_SKILL).read_text() == "mine" and "ask me first" in (project / "CLAUDE.md").read_text()


def test_files_that_were_there_before_are_nobodys_business(project: Path) -> None:
    (project / SHARED_SKILL).parent.mkdir(parents=True)
    (project / SHARED_SKILL).write_text("another skill of that name")
    assert main(["skill", "install"]) == 1
    assert main(["skill", "uninstall"]) == 0
    assert sorted(tree(project)) == [SHARED_SKILL]


def test_a_block_that_was_taken_out_stays_out(project: Path) -> None:
    (project / "AGENTS.md").write_text("# Ours\n")
    main(["skill", "install"])
    (project / "AGENTS.md").write_text("# Ours\n")
    assert main(["skill", "update"]) == 1
    assert (project / "AGENTS.md").read_text() == "# Ours\n"


def test_text_around_the_block_may_change(project: Path) -> None:
    main(["skill", "install"])
    (project / "AGENTS.md").write_text("above\n" + (project / "AGENTS.md").read_text() + "below\n")
    assert main(["skill", "uninstall"]) == 0
    assert (project / "AGENTS.md").read_text() == "above\nbelow\n"


def test_update_replaces_what_is_unchanged_and_drops_what_is_gone(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    main(["skill", "install", "--agent", "cline"])
    older = {**skill_files(), "references/old.md": b"old", "SKILL.md": b"older"}
    place = Place(project)
    uninstall(place)
    with monkeypatch.context() as patch:
        patch.setattr("accel_migrate.assistants.install.skill_files", lambda language="en": older)
        install(place, ["cline"])
    assert (project / f".cline/skills/{NAME}/references/old.md").is_file()
    assert main(["skill", "update"]) == 0
    assert (project / SHARED_SKILL).read_bytes() == skill_files()["SKILL.md"]
    assert not (project / f".cline/skills/{NAME}/references/old.md").exists()
    assert main(["skill", "update"]) == 0


def test_update_needs_an_installation(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["skill", "update"]) == 2
    assert "is not installed here: accel skill install" in capsys.readouterr().err


def test_one_assistant_can_be_taken_away(project: Path) -> None:
    main(["skill", "install", "--agent", "cline,trae"])
    assert main(["skill", "uninstall", "--agent", "trae"]) == 0
    assert not (project / ".trae").exists() and (project / ".cline").exists()


def test_nothing_is_written_in_a_dry_run(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["skill", "install", "--agent", "all", "--dry-run", "--json"]) == 0
    assert {step["action"] for step in json.loads(capsys.readouterr().out)["steps"]} == {"write"}
    assert tree(project) == {}


def test_a_failure_leaves_everything_as_it_was(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (project / "AGENTS.md").write_text("# Ours\n")
    before, done = tree(project), []

    def replace(source: str, target: str) -> None:
        done.append(target)
        if len(done) > 20:
            raise OSError(28, "No space left on device", str(target))
        os.rename(source, target)

    monkeypatch.setattr(os, "replace", replace)
    assert main(["skill", "install", "--agent", "all"]) == 2
    assert tree(project) == before


def test_a_folder_that_is_a_link_to_the_shared_one_is_written_once(project: Path) -> None:
    (project / SHARED).mkdir(parents=True)
    (project / ".claude").mkdir()
    (project / ".claude/skills").symlink_to("../.agents/skills")
    assert main(["skill", "install", "--agent", "claude-code"]) == 0
    assert (project / f".claude/skills/{NAME}/SKILL.md").is_file()
    assert main(["skill", "uninstall"]) == 0
    assert tree(project) == {".agents/skills/": b"", ".claude/skills": b"link"}


def test_a_link_that_leads_out_is_left_alone(project: Path, tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    (project / ".claude").symlink_to(tmp_path / "elsewhere")
    assert main(["skill", "install", "--agent", "claude-code"]) == 1
    assert tree(tmp_path / "elsewhere") == {}


def test_the_block_has_at_most_eight_lines_and_names_the_commands() -> None:
    assert len(rules.block().splitlines()) <= 8
    assert all(command in rules.block() for command in ("accel-migrate", "accel check", "accel verify", NAME))
    assert blocks.find(rules.block().encode()) is not None


def test_pages_can_be_shown(capsys: pytest.CaptureFixture[str]) -> None:
    for name in page_names():
        assert main(["skill", "show", name]) == 0
        assert "# " in capsys.readouterr().out
    assert main(["skill", "show", "nonsense"]) == 2
    assert "the pages are SKILL, accelerate" in capsys.readouterr().err


def test_a_manifest_of_a_newer_version_is_not_touched(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    main(["skill", "install"])
    (project / PLACE).write_text((project / PLACE).read_text().replace('"version": 1', '"version": 99'))
    assert main(["skill", "uninstall"]) == 2
    assert "a newer version" in capsys.readouterr().err


def test_steps_of_a_second_installation_are_all_the_same(project: Path) -> None:
    install(Place(project), ["trae"])
    assert {step.action for step in install(Place(project), ["trae"])} == {SAME}


def test_every_entry_of_the_table_is_complete() -> None:
    for entry in ASSISTANTS.values():
        assert entry.source and entry.signs and entry.user_signs and entry.rules, entry.name


def test_the_documentation_lists_the_table() -> None:
    rows = [
        f"| {entry.title} | `{entry.skills}` | `{entry.user_skills}` | `{entry.rules}` | {'' if entry.confirmed else 'in part'} |"
        for entry in ASSISTANTS.values()
    ]
    assert "\n".join(rows) in (ROOT / "docs" / "assistants.md").read_text()


def test_the_marketplace_file_leads_to_the_skill() -> None:
    from accel_migrate import __version__

    market = json.loads((ROOT / ".claude-plugin" / "marketplace.json").read_text())
    (plugin,) = market["plugins"]
    assert market["metadata"]["version"] == __version__
    assert [(ROOT / plugin["source"] / skill).resolve() for skill in plugin["skills"]] == [SKILL]
