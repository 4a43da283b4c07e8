"""Seeds derived from what they are for, so that no generator's state needs saving."""

import hashlib


def derived(*parts: int | str) -> int:
    """A seed below 2**63 that depends on every part and on their order."""
    text = "/".join(map(str, parts))
    return int.from_bytes(hashlib.blake2b(text.encode(), digest_size=8).digest()) >> 1
