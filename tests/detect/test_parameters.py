"""Parameters of a workflow stand over the YAML that it carries, and alone are enough."""

from __future__ import annotations

import pytest

from catalog.certification import Certification, parse_certification
from catalog.errors import InputError
from steps.detect.parameters import PARAMETERS, with_parameters

TEXT = """\
kind: Certification
metadata: {name: weekly}
spec:
  stage: burn-in
  target: {nodeSelector: {pool: a}}
  limits: {deadline: 6h}
  categories:
    - domain: communication
      variant: nccl-all-reduce
      options: {maxBytes: 8G}
    - {domain: diagnostics, variant: dcgm-level2}
"""


def read(text: str, **given: str) -> Certification:
    values = {name.replace("_", "-"): value for name, value in given.items()}
    return parse_certification(with_parameters(text, values, "wf-1"))


def test_unknown_parameters_are_refused_and_the_known_ones_named() -> None:
    with pytest.raises(InputError, match=r"node-selctor: is no parameter .*node-selector"):
        read(TEXT, node_selctor="pool=a")


@pytest.mark.parametrize("name", PARAMETERS)
def test_an_empty_parameter_keeps_what_the_text_says(name: str) -> None:
    assert read(TEXT, **{name: ""}) == read(TEXT)


def test_text_alone_is_taken_as_it_is() -> None:
    assert read(TEXT) == read(TEXT, stage="", categories="")
    assert read(TEXT).metadata.name == "weekly"


def test_parameters_alone_make_a_certification() -> None:
    made = read(
        "",
        categories="communication/nccl-all-reduce, diagnostics/dcgm-level1,",
        node_selector="pool=b, zone=z1",
        nodes_per_job="2",
        parallel_categories="true",
        deadline="12h",
    )
    assert made.metadata.name == "wf-1"
    assert [c.id for c in made.spec.categories] == [
        "communication/nccl-all-reduce",
        "diagnostics/dcgm-level1",
    ]
    assert made.spec.target.node_selector == {"pool": "b", "zone": "z1"}
    assert made.spec.nodes_per_job == 2
    assert made.spec.parallel_categories
    assert made.spec.limits.deadline == "12h"


def test_parameters_replace_and_keep_the_options_of_a_category() -> None:
    made = read(
        TEXT, stage="production", categories="communication/nccl-all-reduce", deadline="24h"
    )
    assert made.spec.stage == "production"
    assert [c.options.max_bytes for c in made.spec.categories] == ["8G"]
    assert made.spec.limits.deadline == "6h", "the deadline of the YAML goes before"


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"nodes_per_job": "two"}, "nodes-per-job: must be a whole number"),
        ({"node_selector": "pool"}, "node-selector: must be key=value"),
        ({"parallel_categories": "yes"}, "parallel-categories: must be true or false"),
        ({"deadline": "soon", "categories": "a/b"}, "spec.limits.deadline"),
    ],
)
def test_malformed_parameters_are_refused_by_name(given: dict[str, str], says: str) -> None:
    with pytest.raises(InputError, match=says):
        read("" if "categories" in given else TEXT, **given)


@pytest.mark.parametrize("known", ["5", "all", "{domain: a}", "[b]"])
def test_categories_replace_a_list_that_is_none(known: str) -> None:
    text = f"spec: {{stage: burn-in, categories: {known}}}"
    made = read(text, categories="diagnostics/dcgm-level1")
    assert [category.id for category in made.spec.categories] == ["diagnostics/dcgm-level1"]
