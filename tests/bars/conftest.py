"""The parser of expressions is built on first use, which takes longer than one example may."""

from __future__ import annotations

import pytest

from catalog.language.expressions import compile_expression


@pytest.fixture(scope="session", autouse=True)
def parser() -> None:
    compile_expression("1 == 1", {})
