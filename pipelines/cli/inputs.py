"""What a person names: files, directories and standard input."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any, BinaryIO

import typer

from catalog.errors import InputError, Place
from steps.nodes.files import MAX_BYTES, parse_objects, read_objects

OutputFiles = Annotated[
    list[str],
    typer.Argument(
        metavar="FILE",
        help="Tool outputs, gzipped or not; a directory stands for all its files, - for stdin.",
    ),
]


def expand(names: list[str]) -> list[str]:
    """Replace directories by the files below them, in name order; hidden files are left out.

    Raises:
        InputError: a path does not exist, is a device or pipe, or is a directory without files.
    """
    found: list[str] = []
    for name in names:
        path = Path(name)
        if name == "-" or path.is_file():
            found.append(name)
        elif path.is_dir():
            below = sorted(
                item
                for item in path.rglob("*")
                if item.is_file()
                and not any(part.startswith(".") for part in item.relative_to(path).parts)
            )
            if not below:
                raise InputError("is a directory without files", Place(name))
            found += [str(item) for item in below]
        elif path.exists():
            # A device or pipe may never end.
            hint = "pipe it: ... | readiness parse -"
            raise InputError("is no regular file", Place(name), hint)
        else:
            raise InputError("does not exist", Place(name))
    return list(dict.fromkeys(found))


def read_kubectl(file: Path, kind: str) -> list[dict[str, Any]]:
    """Read Kubernetes objects of one kind from what kubectl wrote, ``-`` for standard input.

    Raises:
        InputError: it cannot be read, is damaged, or holds something else.
    """
    name = str(file)
    if name != "-":
        return read_objects(file, kind)
    with opened(name) as stream:
        data = stream.read(MAX_BYTES + 1)
    if len(data) > MAX_BYTES:
        raise InputError(f"is larger than {MAX_BYTES // 2**20} MiB", Place(name))
    try:
        return parse_objects(data.decode("utf-8-sig"), name, kind)
    except UnicodeDecodeError as error:
        raise InputError("is not UTF-8 text", Place(name)) from error


@contextmanager
def opened(name: str) -> Iterator[BinaryIO]:
    """Open a file, or standard input for ``-``.

    Raises:
        InputError: it cannot be read.
    """
    if name == "-":
        if sys.stdin is None:
            raise InputError("standard input is closed", Place(name))
        yield sys.stdin.buffer
        return
    try:
        with Path(name).open("rb") as file:
            yield file
    except OSError as error:
        raise InputError(f"cannot be read: {error.strerror}", Place(name)) from error
