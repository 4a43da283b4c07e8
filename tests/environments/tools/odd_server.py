"""An MCP server whose tools do all that tools of other people do. `PORT` serves over HTTP."""

import os
import sys
import time

from mcp.server import MCPServer
from mcp.types import EmbeddedResource, ImageContent, TextContent, TextResourceContents

server = MCPServer("odd", log_level="CRITICAL")


@server.tool()
def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


@server.tool()
def table() -> dict[str, list[int]]:
    """A structured result."""
    return {"rows": [1, 2]}


@server.tool()
def parts() -> list[TextContent | ImageContent | EmbeddedResource]:
    """A result of several parts."""
    held = TextResourceContents(uri="file:///a.txt", text="in a file")
    return [
        TextContent(type="text", text="seen:"),
        ImageContent(type="image", data="aGk=", mime_type="image/png"),
        EmbeddedResource(type="resource", resource=held),
    ]


@server.tool()
def huge() -> str:
    """More than anybody reads."""
    return "x" * 2_000_000


@server.tool()
def boom() -> str:
    """Raises."""
    raise RuntimeError("broken")


@server.tool()
def hang() -> str:
    """Never comes back."""
    time.sleep(600)
    return "late"


@server.tool()
def die() -> str:
    """Takes the server down."""
    sys.stderr.write("goodbye\n")
    sys.stderr.flush()
    os._exit(3)


if __name__ == "__main__":
    if len(sys.argv) > 1:
        server.run("streamable-http", port=int(sys.argv[1]))
    else:
        server.run()
