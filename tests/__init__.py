"""A package, so that none other called `tests` is found in its place; the one in verl, for one."""
