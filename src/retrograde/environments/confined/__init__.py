"""Processes that confine themselves: for code that nobody has read, and for reading answers."""
