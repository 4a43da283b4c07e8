"""Builds the word-level tokenizer that ships with the package, from what its environments say.

Run as `python scripts/build_tokenizer.py [FOLDER]`; FOLDER is `src/retrograde/rendering/chat`
unless given. Run it again after changing the words of hop, lake or market.
"""

import sys
from pathlib import Path

from retrograde.backends.word_tokenizer import write_tokenizer
from retrograde.data.vocabulary import Vocabulary
from retrograde.environments import hop, lake, market

SHIPPED = Vocabulary(
    phrases=(*hop.PHRASES, *lake.PHRASES, *market.PHRASES),
    words=(*hop.WORDS, *lake.WORDS, *market.WORDS),
)


def main(arguments: list[str]) -> int:
    """Write the folder."""
    folder = Path(arguments[0] if arguments else "src/retrograde/rendering/chat")
    write_tokenizer(SHIPPED, folder)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
