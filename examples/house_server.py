"""An MCP server with one tool, for mcp_server.py to train with."""

from mcp.server import MCPServer

PLACES = {"key": "hall", "map": "attic", "rope": "cellar", "lamp": "shed", "coin": "hall"}
server = MCPServer("house", log_level="ERROR")


@server.tool()
def find(thing: str) -> str:
    """Say in which room a thing is."""
    return PLACES[thing]


if __name__ == "__main__":
    server.run()
