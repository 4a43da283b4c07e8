"""A package, so that no other that is called `tests` is found in its place; verl's wheel has one."""
