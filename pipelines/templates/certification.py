"""The WorkflowTemplate of a whole certification: detect, the categories, aggregate.

There is one task for each catalog entry, one after another, guarded by whether it was asked for.
``at-once`` is a DAG of the same tasks side by side, for those who ask for that.
"""

from __future__ import annotations

from collections.abc import Iterable

from hera.workflows import DAG, Parameter, Task, WorkflowTemplate
from hera.workflows import models as m

from catalog.entries.entry import Entry, builtin_entries
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
            _certification(entries),
            _at_once(entries),
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


def _certification(entries: Iterable[Entry]) -> DAG:
    parallel = f"'{output_of('detect', 'parallel')}'"
    asked = output_of("detect", "categories")
    tasks: list[Task | m.DAGTask] = [Task(name="detect", template="detect")]
    before = ""
    for entry in entries:
        # Each task hangs on detect too, not only on the one before. Past the deadline of the
        # workflow Argo fails a task that has not begun, forgets what follows it, and then waits for
        # ever for what it cannot reach.
        depends = f"detect.Succeeded && {any_end(before)}" if before else "detect.Succeeded"
        when = f"{parallel} != 'true' && {_is_in(entry, asked)}"
        tasks.append(_category(entry, depends, when))
        before = template_name(entry.id)
    tasks += [
        Task(
            name=_AT_ONCE,
            template=_AT_ONCE,
            depends="detect.Succeeded",
            when=f"{parallel} == 'true'",
            arguments=arguments([("categories", asked)]),
        ),
        Task(
            name="aggregate",
            template="aggregate",
            depends=f"{any_end(before)} && {any_end(_AT_ONCE)}",
        ),
    ]
    return DAG(name=CERTIFICATION, fail_fast=False, tasks=tasks)


def _at_once(entries: Iterable[Entry]) -> DAG:
    asked = input_parameter("categories")
    return DAG(
        name=_AT_ONCE,
        fail_fast=False,
        inputs=[Parameter(name="categories")],
        tasks=[_category(entry, None, _is_in(entry, asked)) for entry in entries],
    )


def _category(entry: Entry, depends: str | None, when: str) -> Task:
    return Task(
        name=template_name(entry.id),
        template_ref=m.TemplateRef(name=template_name(entry.id), template=CATEGORY),
        depends=depends,
        when=when,
    )


def _is_in(entry: Entry, categories: str) -> str:
    """Return the condition that an entry is in a list.

    Commas at both ends keep nccl-loopback apart from nccl-loopback-nvswitch.
    """
    return f"',{categories},' =~ ',{entry.id},'"
