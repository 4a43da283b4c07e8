"""Tools of any kind as an environment: Python functions, objects, MCP servers."""
