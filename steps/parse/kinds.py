"""What each kind of output adds to the catalog's table of them: how it is recognised and read.

The readers of a tool stand in ``steps.parse.TOOL``, as its ``KINDS``. There is no other list of
them: a tool of the catalog without readers is an error when this is imported.
"""

from __future__ import annotations

from collections.abc import Iterator
from importlib import import_module

from catalog.facts.tools import BYSTANDERS, TOOLS
from catalog.reading.table import Table
from steps.parse.api import KindReader, ParseContext
from steps.parse.dcgm.smi import NvidiaSmiScanner
from steps.parse.kernel import KernelScanner
from steps.parse.launcher import LauncherScanner


def _of_tools() -> Iterator[KindReader]:
    for tool in TOOLS:
        readers: tuple[KindReader, ...] = import_module(f"steps.parse.{tool.name}").KINDS
        check_readers(tool.name, readers)
        yield from readers


def check_readers(tool: str, readers: tuple[KindReader, ...]) -> None:
    """Check that a tool has readers of the kinds of output that the catalog says it has.

    Raises:
        ValueError: it lacks some, or has others.
    """
    told = {kind.name for kind in TOOLS[tool].outputs}
    if told != {reader.name for reader in readers}:
        raise ValueError(f"steps.parse.{tool} does not read what the catalog tells: {told}")


def _kernel(name: str, context: ParseContext) -> KernelScanner:
    scanner = KernelScanner(name)
    scanner.begin(context)
    return scanner


KINDS: Table[KindReader] = Table("kind of output", _of_tools())
"""Every kind of output that is read, by name."""

for _bystander in (
    KindReader(name="nvidia-smi", scanners=(lambda name, _: NvidiaSmiScanner(name),)),
    KindReader(name="kernel-log", scanners=(_kernel,), inside_documents=True),
    KindReader(name="launcher-log", scanners=(lambda name, _: LauncherScanner(name),)),
):
    KINDS.register(_bystander)
if missing := {kind.name for kind in BYSTANDERS} - set(KINDS.names):
    raise ValueError(f"nothing reads {sorted(missing)}")
