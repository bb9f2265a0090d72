"""The assistants: one entry each. A new one, or a place that has moved, is an edit of this table alone."""

from __future__ import annotations

from dataclasses import dataclass

SHARED = ".agents/skills"
"""The folder that many assistants read, in a project and in the home directory."""
CHECKED = "2026"
"""When the places were looked up: in the course of this year, each at a day of its own."""


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
    """The page or file where the places were read, or who reports them; no address where only part of it is known."""
    confirmed: bool = True
    """Whether all places were read in the vendor's own documentation; what others report is marked in the list."""


ASSISTANTS: dict[str, Assistant] = {
    entry.name: entry
    for entry in (
        Assistant(
            "claude-code", "Claude Code", ".claude/skills", ".claude/skills", (".claude", "CLAUDE.md", ".mcp.json"), (".claude",),
            "CLAUDE.md", source="code.claude.com, skills.md",
        ),
        Assistant(
            "cursor", "Cursor", SHARED, ".cursor/skills", (".cursor", ".cursorrules"), (".cursor",), ".cursor/rules/accel-migrate.mdc", "globs",
            source="cursor.com/docs/context/skills.md (an older copy); .agents: table of the npm package skills 1.7.4", confirmed=False,
        ),
        Assistant(
            "copilot", "GitHub Copilot", SHARED, SHARED, (".github/copilot-instructions.md", ".github/instructions", ".github/skills"), (".copilot",),
            ".github/copilot-instructions.md", source="docs.github.com, add-skills and about-agent-skills; names of the files of instructions not confirmed", confirmed=False,
        ),
        Assistant(
            "codex", "OpenAI Codex", SHARED, SHARED, (".codex",), (".codex",), "AGENTS.md",
            source="openai/codex docs/skills.md (early); today's paths from third parties", confirmed=False,
        ),
        Assistant(
            "gemini-cli", "Gemini CLI", SHARED, SHARED, (".gemini", "GEMINI.md"), (".gemini",), "GEMINI.md",
            source="gemini-cli docs/cli/skills.md, gemini-md.md",
        ),
        Assistant(
            "gemini-code-assist", "Gemini Code Assist", SHARED, SHARED, (".gemini", "GEMINI.md"), (".gemini",), "GEMINI.md",
            source="docs.cloud.google.com/gemini/docs/codeassist/agent-mode; that its agent mode reads as Gemini CLI does is not confirmed", confirmed=False,
        ),
        Assistant(
            "comate", "Baidu Comate", SHARED, ".comate/skills", (".comate",), (".comate",), ".comate/rules/accel-migrate.mdr", "globs",
            source="cloud.baidu.com/doc/COMATE/s/Nmma28iqe and /s/Zm9l4agw3; the head of a rule as Cursor writes it is not confirmed", confirmed=False,
        ),
        Assistant(
            "codebuddy", "Tencent CodeBuddy", ".codebuddy/skills", ".codebuddy/skills", (".codebuddy", "CODEBUDDY.md"), (".codebuddy",),
            ".codebuddy/rules/accel-migrate/RULE.mdc", "codebuddy", source="copilot.tencent.com/docs/ide/Features/Skills; tencentcloud.com document 1256/77295",
        ),
        Assistant(
            "codearts", "Huawei CodeArts", ".codeartsdoer/skills", ".codeartsdoer/skills", (".codeartsdoer",), (".codeartsdoer",),
            ".codeartsdoer/rule/accel-migrate.mdc", "globs",
            source="support.huaweicloud.com usermanual-cli/codeartsagent_cli_0019; rule or rules is not confirmed", confirmed=False,
        ),
        Assistant(
            "windsurf", "Windsurf", ".windsurf/skills", ".codeium/windsurf/skills", (".windsurf", ".windsurfrules"), (".codeium/windsurf",),
            ".windsurf/rules/accel-migrate.md", "plain", source="docs.windsurf.com/windsurf/cascade/skills.md; rules from third parties", confirmed=False,
        ),
        Assistant(
            "cline", "Cline", ".cline/skills", ".cline/skills", (".cline", ".clinerules"), (".cline",), ".clinerules/accel-migrate.md", "plain",
            source="cline/cline docs/customization/skills.mdx; rules not confirmed", confirmed=False,
        ),
        Assistant(
            "qwen-code", "Qwen Code", SHARED, ".qwen/skills", (".qwen", "QWEN.md"), (".qwen",), "AGENTS.md",
            source="QwenLM/qwen-code docs/users/features/skills.md; AGENTS.md not confirmed", confirmed=False,
        ),
        Assistant(
            "kilo", "Kilo Code", SHARED, ".kilo/skills", (".kilo", ".kilocode"), (".kilo", ".kilocode"), "AGENTS.md",
            source="kilo.ai/docs/customize/skills; AGENTS.md not confirmed", confirmed=False,
        ),
        Assistant(
            "opencode", "OpenCode", SHARED, SHARED, (".opencode", "opencode.json"), (".config/opencode",), "AGENTS.md",
            source="a copy of its documentation (packages/web, skills.mdx)", confirmed=False,
        ),
        Assistant(
            "qoder", "Qoder", ".qoder/skills", ".qoder/skills", (".qoder", ".lingma"), (".qoder", ".qoder-cn"), ".qoder/rules/accel-migrate.md", "globs",
            source="docs.qoder.com/zh/user-guide/rules; skills from the table of the npm package skills", confirmed=False,
        ),
        Assistant(
            "trae", "Trae", ".trae/skills", ".trae/skills", (".trae",), (".trae", ".trae-cn"), ".trae/rules/accel-migrate.md", "globs",
            source="table of the npm package skills; a copy of its documentation (third parties)", confirmed=False,
        ),
    )
}  # fmt: skip
