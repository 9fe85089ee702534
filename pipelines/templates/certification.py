"""The WorkflowTemplate of a whole certification: detect, the categories, aggregate.

    certification  detect ─> categories ─> aggregate
    categories     one after another what detect lists: the WorkflowTemplates of categories
    category       all categories that were asked for, side by side

Only what was asked for is in the tree of a workflow, in its order. Which template runs is chosen by
the item of a fan-out, which Argo can do in steps: in a DAG it looks the unexpanded name up again
once the task is over, does not find it, and calls the task an error. `categories` takes one item
at a time; where categories are to run side by side its only item is this WorkflowTemplate itself.
"""

from __future__ import annotations

from hera.workflows import DAG, Parameter, Step, Steps, Task, WorkflowTemplate
from hera.workflows import models as m

from pipelines.templates import steps
from pipelines.templates.category import CATEGORY
from pipelines.templates.names import (
    CERTIFICATION,
    LABELS,
    input_parameter,
    output_of,
)
from pipelines.templates.parameters import build, flags, of_certification
from pipelines.templates.shapes import any_end, arguments, bounds, display_name, metadata
from pipelines.templates.steps import Options

TITLE = "Cluster certification"
DESCRIPTION = """\
Proves node by node that a GPU cluster is ready for training.

Give a certification as YAML, or choose a **stage**, **categories** and **nodes** below.
The step `aggregate` prints the report and fails unless the result is PASS; the report also stays \
in a ConfigMap with the label `readiness/kind: Report`.
"""

_CATEGORIES = "categories"
_IN_TURN, _AT_ONCE = "in-turn", "at-once"


def certification_template(namespace: str, options: Options) -> WorkflowTemplate:
    """Return the WorkflowTemplate of a certification over all catalog entries."""
    tunables = of_certification()
    return WorkflowTemplate(
        name=CERTIFICATION,
        namespace=namespace,
        labels=dict(LABELS),
        annotations=metadata(TITLE, DESCRIPTION),
        entrypoint=CERTIFICATION,
        arguments=build(tunables),
        templates=[
            _certification(),
            _categories(),
            _at_once(),
            # Without a list no category runs, and the aggregation finds all missing.
            steps.detect(
                options,
                [*flags(tunables), f"--side-by-side={CERTIFICATION}"],
                [(_IN_TURN, "[]"), (_AT_ONCE, "[]")],
            ),
            steps.aggregate(options),
            steps.finish(options, flags(tunables)),
        ],
        **bounds(TITLE, DESCRIPTION),
    )


def _certification() -> DAG:
    lists = arguments([(name, output_of("detect", name)) for name in (_IN_TURN, _AT_ONCE)])
    return DAG(
        name=CERTIFICATION,
        fail_fast=False,
        tasks=[
            Task(name="detect", template="detect"),
            Task(
                name=_CATEGORIES,
                template=_CATEGORIES,
                depends="detect.Succeeded",
                arguments=lists,
            ),
            # Without a plan there is nothing to aggregate; the exit handler reports that.
            Task(
                name="aggregate",
                template="aggregate",
                depends=f"detect.Succeeded && {any_end(_CATEGORIES)}",
            ),
        ],
    )


def _categories() -> Steps:
    return Steps(
        name=_CATEGORIES,
        inputs=[Parameter(name=_IN_TURN), Parameter(name=_AT_ONCE)],
        parallelism=1,
        sub_steps=[
            _each(input_parameter(_IN_TURN), arguments([(_AT_ONCE, input_parameter(_AT_ONCE))]))
        ],
    )


def _at_once() -> Steps:
    return Steps(
        name=CATEGORY,
        inputs=[Parameter(name=_AT_ONCE)],
        annotations=display_name(_AT_ONCE),
        sub_steps=[_each(input_parameter(_AT_ONCE))],
    )


def _each(templates: str, given: list[Parameter] | None = None) -> Step:
    """Return a fan-out over a list of WorkflowTemplates; one that fails stops no other."""
    return Step(
        name=CATEGORY,
        template_ref=m.TemplateRef(name="{{item}}", template=CATEGORY),
        with_param=templates,
        arguments=given or [],
    )
