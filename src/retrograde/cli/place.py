"""Whether what a command writes can be written where it is to be, asked before any work."""

import os
from pathlib import Path


def check_out(out: Path, *, resume: bool) -> None:
    """Refuse an output directory that is in use or cannot be written, before any work.

    Raises:
        ValueError: it is, or cannot.
    """
    if not resume and out.is_dir() and any(out.iterdir()):
        raise ValueError(
            f"--out {out} is not empty; go on with what is in it (--resume), "
            f"or give another directory (--out)"
        )
    check_place(out, out)


def check_place(out: Path, folder: Path) -> None:
    """Refuse a directory that cannot be made, or be written in.

    Args:
        out: what is to be written, for the message.
        folder: the directory, which need not be there.

    Raises:
        ValueError: it cannot.
    """
    nearest = next(each for each in (folder, *folder.absolute().parents) if each.exists())
    if not nearest.is_dir():
        raise ValueError(f"--out {out}: a directory is needed, and {nearest} is a file")
    if not os.access(nearest, os.W_OK):
        raise ValueError(f"--out {out}: {nearest} cannot be written")
