"""The WorkflowTemplate of a whole certification: detect, the categories, aggregate.

The categories run ``in-order``, one task for each catalog entry, or ``at-once``, the same tasks
side by side.
"""

from __future__ import annotations

from collections.abc import Iterable

from hera.workflows import DAG, Parameter, Task, WorkflowTemplate
from hera.workflows import models as m

from catalog.entry import Entry, builtin_entries
from pipelines.templates import steps
from pipelines.templates.category import CATEGORY
from pipelines.templates.names import (
    CERTIFICATION,
    LABELS,
    input_parameter,
    output_of,
    parameter,
    template_name,
)
from pipelines.templates.parameters import CATEGORIES, flags, of_certification
from pipelines.templates.parameters import CATEGORY as ONE_CATEGORY
from pipelines.templates.shapes import any_end, arguments, bounds, finish, metadata
from pipelines.templates.steps import Options

TITLE = "Cluster certification"
DESCRIPTION = """\
Proves node by node that a GPU cluster is ready for training.

Give a certification as YAML, or choose a **stage**, **categories** and **nodes** below.
The step `aggregate` prints the report and fails unless the result is PASS; the report also stays \
in a ConfigMap with the label `readiness/kind: Report`.
"""

_IN_ORDER = "in-order"
_AT_ONCE = "at-once"


def certification_template(namespace: str, options: Options) -> WorkflowTemplate:
    """Return the WorkflowTemplate of a certification over all catalog entries."""
    entries = tuple(builtin_entries().values())
    tunables = of_certification()
    chosen = f"--categories={parameter(ONE_CATEGORY.name)},{parameter(CATEGORIES.name)}"
    aggregate = steps.aggregate(options)
    clean = steps.clean(options)
    return WorkflowTemplate(
        name=CERTIFICATION,
        namespace=namespace,
        labels=dict(LABELS),
        annotations=metadata(TITLE, DESCRIPTION),
        entrypoint=CERTIFICATION,
        arguments=[tunable.build() for tunable in tunables],
        templates=[
            _certification(),
            _categories(_IN_ORDER, entries, in_order=True),
            _categories(_AT_ONCE, entries, in_order=False),
            # Without a list of categories none runs, and the aggregation finds all missing.
            steps.detect(
                options, [*flags(tunables), chosen], [("categories", ""), ("parallel", "false")]
            ),
            aggregate,
            clean,
            finish(clean, aggregate),
        ],
        **bounds(TITLE, DESCRIPTION),
    )


def _certification() -> DAG:
    return DAG(
        name=CERTIFICATION,
        fail_fast=False,
        tasks=[
            Task(name="detect", template="detect"),
            _branch(_IN_ORDER, "!="),
            _branch(_AT_ONCE, "=="),
            Task(
                name="aggregate",
                template="aggregate",
                depends=f"{any_end(_IN_ORDER)} && {any_end(_AT_ONCE)}",
            ),
        ],
    )


def _branch(name: str, comparison: str) -> Task:
    return Task(
        name=name,
        template=name,
        depends="detect.Succeeded",
        when=f"'{output_of('detect', 'parallel')}' {comparison} 'true'",
        arguments=arguments([("categories", output_of("detect", "categories"))]),
    )


def _categories(name: str, entries: Iterable[Entry], *, in_order: bool) -> DAG:
    tasks: list[Task | m.DAGTask] = []
    for entry in entries:
        before = any_end(str(tasks[-1].name)) if in_order and tasks else None
        tasks.append(
            Task(
                name=template_name(entry.id),
                template_ref=m.TemplateRef(name=template_name(entry.id), template=CATEGORY),
                depends=before,
                # A pattern and not `in`: commas at both ends keep nccl-loopback apart from
                # nccl-loopback-nvswitch.
                when=f"',{input_parameter('categories')},' =~ ',{entry.id},'",
            )
        )
    return DAG(name=name, fail_fast=False, inputs=[Parameter(name="categories")], tasks=tasks)
