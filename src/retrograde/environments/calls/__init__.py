"""How policies write calls of tools, and how they are read: one module for each format."""
