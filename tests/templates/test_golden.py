"""The committed manifests are what the definitions render.

After a wanted change write them anew: ``REWRITE_GOLDEN=1 pytest tests/templates``.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest
import yaml

from pipelines.render import Rendering, render, to_yaml, write

COMMITTED = Path(__file__).parents[2] / "pipelines" / "manifests"


@pytest.fixture(scope="module", autouse=True)
def _rewritten() -> None:
    if os.environ.get("REWRITE_GOLDEN"):
        for stale in [path for path in COMMITTED.rglob("*") if path.is_file()]:
            stale.unlink()
        write(render(Rendering()), COMMITTED)


RENDERED = render(Rendering())


@pytest.mark.parametrize("name", RENDERED)
def test_committed_text_is_rendered_again(name: str) -> None:
    assert (COMMITTED / name).read_text(encoding="utf-8") == to_yaml(RENDERED[name])


@pytest.mark.parametrize("name", RENDERED)
def test_text_holds_the_objects(name: str) -> None:
    assert list(yaml.safe_load_all(to_yaml(RENDERED[name]))) == RENDERED[name]


def test_nothing_else_is_committed() -> None:
    found = {str(path.relative_to(COMMITTED)) for path in COMMITTED.rglob("*") if path.is_file()}
    assert found == set(RENDERED)


def test_rendering_is_deterministic() -> None:
    again = render(Rendering())
    assert list(again) == list(RENDERED)
    assert [to_yaml(docs) for docs in again.values()] == [
        to_yaml(docs) for docs in RENDERED.values()
    ]


def test_the_base_lists_every_object() -> None:
    base = RENDERED["kustomization.yaml"][0]["resources"]
    assert set(base) == set(RENDERED) - {"kustomization.yaml", "kustomizeconfig"}
