"""How the commands' help is laid out: prose is folded, examples stand as they are written."""

import argparse

EXAMPLES = "example"


class Folded(argparse.HelpFormatter):
    """Folds a description, and leaves what begins with "example" alone; shows defaults."""

    def _fill_text(self, text: str, width: int, indent: str) -> str:
        if text.startswith(EXAMPLES):
            return "".join(f"{indent}{line}\n" for line in text.splitlines())
        return super()._fill_text(text, width, indent)

    def _get_help_string(self, action: argparse.Action) -> str | None:
        said = action.help or ""
        plain = action.default in (None, False, argparse.SUPPRESS) or "default" in said
        return said if plain else f"{said} (default: %(default)s)"
