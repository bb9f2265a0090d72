"""`accel mcp`: the commands as tools and the skill's pages as resources, for assistants that speak the Model Context Protocol.

On standard input and output. https://modelcontextprotocol.io
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from functools import wraps
from typing import TYPE_CHECKING, Any

from accel_migrate import __version__
from accel_migrate.assistants.bundle import NAME, skill_files
from accel_migrate.command.arguments import Parser
from accel_migrate.command.mcp_tools import TOOLS, instructions
from accel_migrate.errors import UserError

if TYPE_CHECKING:
    from mcp.server.mcpserver import MCPServer

ADDRESS = f"skill://{NAME}/"
"""Before the path of a page in the skill's folder."""


def main(argv: Sequence[str] | None = None) -> int:
    """Serve until the client closes the connection; returns the exit status."""
    parser = Parser(
        prog="accel mcp",
        description="A server of the Model Context Protocol on standard input and output: scan, plan, migrate, check and verify as tools, the pages of "
        "the skill as resources. Started by an assistant, which has it in its settings: "
        '{"mcpServers": {"accel": {"command": "accel", "args": ["mcp"]}}}',
        allow_abbrev=False,
    )
    try:
        parser.parse_args(sys.argv[1:] if argv is None else argv)
    except SystemExit as stop:
        return stop.code if isinstance(stop.code, int) else 2
    server().run("stdio")
    return 0


def server() -> MCPServer:
    """The server with its tools and resources."""
    from mcp.server.mcpserver import MCPServer
    from mcp.types import ToolAnnotations

    made = MCPServer(
        "accel", title="accel-migrate", version=__version__, instructions=instructions(), log_level="WARNING"
    )
    for tool, reads_only in TOOLS.items():
        notes = ToolAnnotations(read_only_hint=reads_only, destructive_hint=not reads_only, open_world_hint=False)
        made.add_tool(_telling(tool), annotations=notes, structured_output=True)
    for name, content in skill_files().items():
        if name.endswith(".md"):
            _add_page(made, name, content.decode())
    return made


def _telling(tool: Callable[..., Any]) -> Callable[..., Any]:
    """The tool, whose errors for users reach the assistant as they are."""
    from mcp.server.mcpserver.exceptions import ToolError

    @wraps(tool)
    async def call(*args: Any, **kwargs: Any) -> Any:
        try:
            return await tool(*args, **kwargs)
        except UserError as error:
            raise ToolError(str(error)) from None

    return call


def _add_page(made: MCPServer, name: str, text: str) -> None:
    title = (
        next(line.lstrip("# ") for line in text.splitlines() if line.startswith("# "))
        if "\n# " in f"\n{text}"
        else name
    )

    @made.resource(ADDRESS + name, name=name, title=title, mime_type="text/markdown")
    def page() -> str:
        return text
