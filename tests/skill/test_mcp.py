"""`accel mcp` as an assistant's client sees it, over standard input and output."""

from __future__ import annotations

import os
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from accel_migrate.assistants.bundle import skill_files
from accel_migrate.command.mcp_calls import MOST_CHARACTERS, MOST_ITEMS, bounded
from accel_migrate.command.umbrella import main
from codemod.conftest import Files, files
from skill.blocks import SKILL
from skill.test_commands import example

__all__ = ["files"]

ROOT = SKILL.parents[1]


def talk(folder: Path, conversation: Callable[[Any], Awaitable[None]]) -> None:
    """Start the server in `folder`, and have the conversation with a client of the official library."""
    pytest.importorskip("mcp")
    import anyio
    from mcp import Client, StdioServerParameters, stdio_client

    path = os.pathsep.join(str(ROOT / part) for part in ("codemod", "runtime"))
    code = "import sys; from accel_migrate.command.umbrella import main; sys.exit(main(['mcp']))"
    server = StdioServerParameters(
        command=sys.executable, args=["-c", code], cwd=str(folder), env={**os.environ, "PYTHONPATH": path}
    )

    async def meet() -> None:
        async with Client(stdio_client(server)) as client:
            await conversation(client)

    anyio.run(meet)


def test_the_whole_loop(files: Files) -> None:
    script, diff = example()
    folder = files({"train.py": script})

    async def conversation(client: Any) -> None:
        tools = {tool.name: tool for tool in (await client.list_tools()).tools}
        assert list(tools) == ["scan", "plan", "migrate", "check", "verify"]
        assert [name for name, tool in tools.items() if tool.annotations.read_only_hint] == ["scan", "plan"]
        assert all(tool.description for tool in tools.values())
        assert all({"path", "original"} & set(tool.input_schema["properties"]) for tool in tools.values())

        async def call(name: str, **arguments: Any) -> dict[str, Any]:
            result = await client.call_tool(name, arguments)
            assert not result.is_error, result
            return dict(result.structured_content)

        scanned = await call("scan", path="train.py")
        assert "`loader` is a data loader" in scanned["programs"][0]["explanation"]
        planned = await call("plan", path="train.py")
        assert planned["summary"] == {"edits": 17, "held_back": 0, "by_hand": 0}
        assert {edit["rule"] for edit in planned["programs"][0]["files"][0]["edits"]} >= {"prepare", "backward"}
        assert "sharing" not in planned
        shared = (await call("plan", path="train.py", batch=64, gpus=8, params="7B"))["sharing"]
        assert shared["recommended"] and {"per_process", "processes", "accumulation"} <= set(shared["splits"][0])
        shown = await call("migrate", path="train.py")
        assert [line.rstrip() for line in shown["programs"][0]["files"][0]["diff"].splitlines()] == diff.splitlines()
        assert (
            shown["written"] == []
            and os.listdir(folder) == ["train.py"]
            and (folder / "train.py").read_text() == script
        )
        written = await call("migrate", path="train.py", output="migrated")
        assert written["written"] == ["migrated/train.py"] and (folder / "migrated" / "train.py").exists()
        checked = await call("check", path="migrated/train.py")
        assert (checked["exit_status"], checked["findings"], checked["command"]) == (
            0,
            [],
            "accel check migrated/train.py --format json",
        )
        verified = await call("verify", original="train.py", migrated="migrated/train.py", steps=4)
        assert verified["verdict"] == "same" and [run["processes"] for run in verified["comparisons"]] == [1, 2]

    talk(folder, conversation)


def test_pages_are_resources_and_errors_are_said(files: Files) -> None:
    async def conversation(client: Any) -> None:
        addresses = [str(resource.uri) for resource in (await client.list_resources()).resources]
        assert addresses == [f"skill://{SKILL.name}/{name}" for name in skill_files() if name.endswith(".md")]
        page = await client.read_resource(f"skill://{SKILL.name}/references/hangs.md")
        assert page.contents[0].text == (SKILL / "references" / "hangs.md").read_text()
        result = await client.call_tool("verify", {"original": "nothing.py"})
        assert result.is_error and "nothing.py" in result.content[0].text
        for tool in ("scan", "plan", "migrate", "check"):
            result = await client.call_tool(tool, {"path": "nothing.py"})
            assert result.is_error and "nothing.py: no such file" in result.content[0].text, tool
        result = await client.call_tool("check", {"path": "train.py", "folder": "nowhere"})
        assert result.is_error and "nowhere: there is no such folder" in result.content[0].text

    talk(files({}), conversation)


def test_long_reports_are_cut_and_say_so() -> None:
    cut = bounded({"list": list(range(1000)), "inner": {"text": "a" * 100_000}, "short": [1]})
    assert len(cut["list"]) == MOST_ITEMS and len(cut["inner"]["text"]) == MOST_CHARACTERS
    assert cut["shortened"] == [f"list: {MOST_ITEMS} of 1000", f"inner.text: {MOST_CHARACTERS} of 100000 characters"]
    assert bounded({"short": [1]}) == {"short": [1]}


def test_help_needs_no_client(capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("mcp")
    assert main(["mcp", "--help"]) == 0
    assert "mcpServers" in capsys.readouterr().out
