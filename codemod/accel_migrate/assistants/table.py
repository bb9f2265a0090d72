"""The assistants: one entry each. A new one, or a place that has moved, is an edit of this table alone."""

from __future__ import annotations

from dataclasses import dataclass

SHARED = ".agents/skills"
"""The folder that many assistants read, in a project and in the home directory."""
CHECKED = "2026-11"
"""When the places were last looked up."""


@dataclass(frozen=True)
class Assistant:
    """Where one assistant looks. Paths are relative to the project, or to the home directory."""

    name: str
    title: str
    skills: str
    """The project's folder of skills: the shared one, or its own where it does not read that."""
    user_skills: str
    """The user's folder of skills."""
    signs: tuple[str, ...]
    """Files and folders of a project by which it is known to be used there."""
    user_signs: tuple[str, ...]
    """The same in the home directory."""
    rules: str = ""
    """The file that it always reads, or one in its folder of rules."""
    rules_format: str = "block"
    """`block`: a marked block in a file which may hold more; else how the head of a file of its own is written (see `rules`)."""
    source: str = ""
    confirmed: bool = True
    """Whether all places were read in the vendor's own documentation; what others report is marked in the list."""


ASSISTANTS: dict[str, Assistant] = {
    entry.name: entry
    for entry in (
        Assistant(
            "claude-code", "Claude Code", ".claude/skills", ".claude/skills", (".claude", "CLAUDE.md", ".mcp.json"), (".claude",),
            "CLAUDE.md", source="https://code.claude.com/docs/en/skills",
        ),
        Assistant(
            "cursor", "Cursor", SHARED, ".cursor/skills", (".cursor", ".cursorrules"), (".cursor",), ".cursor/rules/accel-migrate.mdc", "globs",
            source="https://cursor.com/docs/context/skills", confirmed=False,
        ),
        Assistant(
            "copilot", "GitHub Copilot", SHARED, SHARED, (".github/copilot-instructions.md", ".github/instructions", ".github/skills"), (".copilot",),
            ".github/copilot-instructions.md", source="https://docs.github.com/en/copilot/concepts/agents/about-agent-skills",
        ),
        Assistant(
            "codex", "OpenAI Codex", SHARED, SHARED, (".codex",), (".codex",), "AGENTS.md",
            source="https://developers.openai.com/codex/skills", confirmed=False,
        ),
        Assistant(
            "gemini-cli", "Gemini CLI", SHARED, SHARED, (".gemini", "GEMINI.md"), (".gemini",), "GEMINI.md",
            source="https://github.com/google-gemini/gemini-cli/blob/main/docs/cli/skills.md",
        ),
        Assistant(
            "gemini-code-assist", "Gemini Code Assist", SHARED, SHARED, (".gemini", "GEMINI.md"), (".gemini",), "GEMINI.md",
            source="https://docs.cloud.google.com/gemini/docs/codeassist/agent-mode", confirmed=False,
        ),
        Assistant(
            "comate", "Baidu Comate", SHARED, ".comate/skills", (".comate",), (".comate",), ".comate/rules/accel-migrate.mdr", "globs",
            source="https://cloud.baidu.com/doc/COMATE/s/Nmma28iqe",
        ),
        Assistant(
            "codebuddy", "Tencent CodeBuddy", ".codebuddy/skills", ".codebuddy/skills", (".codebuddy", "CODEBUDDY.md"), (".codebuddy",),
            ".codebuddy/rules/accel-migrate/RULE.mdc", "codebuddy", source="https://copilot.tencent.com/docs/ide/Features/Skills",
        ),
        Assistant(
            "codearts", "Huawei CodeArts", ".codeartsdoer/skills", ".codeartsdoer/skills", (".codeartsdoer",), (".codeartsdoer",),
            ".codeartsdoer/rule/accel-migrate.mdc", "globs",
            source="https://support.huaweicloud.com/usermanual-cli/codeartsagent_cli_0019.html", confirmed=False,
        ),
        Assistant(
            "windsurf", "Windsurf", ".windsurf/skills", ".codeium/windsurf/skills", (".windsurf", ".windsurfrules"), (".codeium/windsurf",),
            ".windsurf/rules/accel-migrate.md", "plain", source="https://docs.windsurf.com/windsurf/cascade/skills", confirmed=False,
        ),
        Assistant(
            "cline", "Cline", ".cline/skills", ".cline/skills", (".cline", ".clinerules"), (".cline",), ".clinerules/accel-migrate.md", "plain",
            source="https://github.com/cline/cline/blob/main/docs/customization/skills.mdx",
        ),
        Assistant(
            "qwen-code", "Qwen Code", SHARED, ".qwen/skills", (".qwen", "QWEN.md"), (".qwen",), "AGENTS.md",
            source="https://github.com/QwenLM/qwen-code/blob/main/docs/users/features/skills.md",
        ),
        Assistant(
            "kilo", "Kilo Code", SHARED, ".kilo/skills", (".kilo", ".kilocode"), (".kilo", ".kilocode"), "AGENTS.md",
            source="https://kilo.ai/docs/customize/skills",
        ),
        Assistant(
            "opencode", "OpenCode", SHARED, SHARED, (".opencode", "opencode.json"), (".config/opencode",), "AGENTS.md",
            source="https://opencode.ai/docs/skills",
        ),
        Assistant(
            "qoder", "Qoder", ".qoder/skills", ".qoder/skills", (".qoder", ".lingma"), (".qoder", ".qoder-cn"), ".qoder/rules/accel-migrate.md", "globs",
            source="https://docs.qoder.com/zh/user-guide/rules", confirmed=False,
        ),
        Assistant(
            "trae", "Trae", ".trae/skills", ".trae/skills", (".trae",), (".trae", ".trae-cn"), ".trae/rules/accel-migrate.md", "globs",
            source="https://docs.trae.ai/ide/skills", confirmed=False,
        ),
    )
}  # fmt: skip
