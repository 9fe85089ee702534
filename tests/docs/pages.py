"""The pages that people read, and the blocks of code in them.

Commands in ``sh`` blocks run anywhere and are run by `tests.docs.test_pages`; those in ``bash``
blocks need a cluster and are run by `tests.cluster.test_installation`.
"""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
_BLOCK = re.compile(r"^```(\w*)\n(.*?)^```$", re.DOTALL | re.MULTILINE)


def blocks(page: Path, kind: str) -> list[str]:
    """Return the blocks of one language, in their order."""
    return [text for found, text in _BLOCK.findall(page.read_text("utf-8")) if found == kind]


def commands(page: Path, kind: str) -> list[str]:
    """Return the command lines of all blocks of one language, in their order."""
    return [line for block in blocks(page, kind) for line in block.splitlines() if line]
