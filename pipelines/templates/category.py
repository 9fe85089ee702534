"""One WorkflowTemplate for each catalog entry.

    certify    detect ─> category ─> aggregate           what runs when it is submitted alone
    category   groups ─> run ─> parse ─> isolation ─> evaluate
    isolation  pairs ─> run-pairs ─> parse-pairs ─> next-round (isolation again)

A certification refers to the template ``category``.
"""

from __future__ import annotations

from hera.workflows import DAG, Container, Parameter, Task, WorkflowTemplate
from hera.workflows import models as m

from catalog.entries.entry import Entry
from pipelines.templates import steps
from pipelines.templates.names import LABELS, input_parameter, output_of, template_name
from pipelines.templates.parameters import build, flags, of_entry
from pipelines.templates.shapes import (
    any_end,
    arguments,
    bounds,
    display_name,
    metadata,
    was_tried,
)
from pipelines.templates.steps import Options
from steps.isolate.core import MAX_ROUNDS

CATEGORY = "category"
_ISOLATION = "isolation"
_CERTIFY = "certify"

MAX_PODS = 500
"""Run pods of a category at once. They are small, but a controller creates about 20 a second."""


def category_template(entry: Entry, namespace: str, options: Options) -> WorkflowTemplate:
    """Return the WorkflowTemplate of a catalog entry."""
    tunables = of_entry(entry)
    description = f"{entry.description}\n\nCategory `{entry.id}`. Source: {entry.source}."
    isolates = "isolate" in entry.options
    replaced = [*flags(tunables), f"--set=categories={entry.id}"]
    templates: list[Container | DAG] = [
        steps.detect(options, replaced),
        steps.groups(options, entry.id),
        steps.run(options, entry.id),
        steps.parse(options, entry.id),
        steps.evaluate(options, entry.id),
        steps.aggregate(options),
        steps.finish(options, replaced),
    ]
    if isolates:
        templates += [steps.pairs(options, entry.id), _isolation()]
    return WorkflowTemplate(
        name=template_name(entry.id),
        namespace=namespace,
        labels={**LABELS, "readiness/category": template_name(entry.id)},
        annotations=metadata(entry.title, description),
        entrypoint=_CERTIFY,
        arguments=build(tunables),
        templates=[
            _certify(),
            _category(entry, isolates=isolates),
            *templates,
        ],
        **bounds(entry.title, description),
    )


def _certify() -> DAG:
    return DAG(
        name=_CERTIFY,
        fail_fast=False,
        tasks=[
            Task(name="detect", template="detect"),
            Task(name=CATEGORY, template=CATEGORY, depends="detect.Succeeded"),
            # Without a plan there is nothing to aggregate; the exit handler reports that.
            Task(
                name="aggregate",
                template="aggregate",
                depends=f"detect.Succeeded && {any_end(CATEGORY)}",
            ),
        ],
    )


def _category(entry: Entry, *, isolates: bool) -> DAG:
    tasks: list[Task | m.DAGTask] = [
        Task(name="groups", template="groups"),
        _fan_out("run", "groups"),
        Task(name="parse", template="parse", depends=was_tried("run")),
    ]
    if isolates:
        tasks.append(
            Task(
                name=_ISOLATION,
                template=_ISOLATION,
                depends="parse.Succeeded",
                arguments=arguments([("round", "1")]),
            )
        )
    last = _ISOLATION if isolates else "parse"
    tasks.append(Task(name="evaluate", template="evaluate", depends=any_end(last)))
    return DAG(
        name=CATEGORY,
        fail_fast=False,
        parallelism=MAX_PODS,
        annotations=display_name(template_name(entry.id)),
        tasks=tasks,
    )


def _isolation() -> DAG:
    """Return one round; it calls itself while there are pairs, `MAX_ROUNDS` times at most.

    Without pairs the fan-out is skipped, and what follows it omitted.
    """
    return DAG(
        name=_ISOLATION,
        fail_fast=False,
        parallelism=MAX_PODS,
        inputs=[Parameter(name="round")],
        annotations=display_name(f"isolation-round-{input_parameter('round')}"),
        tasks=[
            Task(
                name="pairs",
                template="pairs",
                arguments=arguments([("round", input_parameter("round"))]),
            ),
            _fan_out("run-pairs", "pairs"),
            Task(name="parse-pairs", template="parse", depends=was_tried("run-pairs")),
            Task(
                name="next-round",
                template=_ISOLATION,
                depends="parse-pairs.Succeeded",
                when=f"{input_parameter('round')} < {MAX_ROUNDS}",
                arguments=arguments([("round", "{{=asInt(inputs.parameters.round) + 1}}")]),
            ),
        ],
    )


def _fan_out(name: str, source: str) -> Task:
    return Task(
        name=name,
        template="run",
        depends=f"{source}.Succeeded",
        with_param=output_of(source, "groups"),
        arguments=arguments([("group", "{{item.group}}")]),
    )
