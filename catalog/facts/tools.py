"""The tools whose outputs are judged, and the kinds of output: what is known of them as data.

What reading, judging and simulating a tool adds is in `steps.tools`, what recognising and reading a
kind of output adds in `steps.parse.kinds`, under the same names; each checks that it has them all.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Literal

from catalog.reading.model import Model
from catalog.reading.source import shipped
from catalog.reading.table import Table


class OutputKind(Model):
    """A kind of output.

    Attributes:
        name: as Measurements give it.
        tool: the tool whose result it holds; None of one that stands beside a result.
        exact: its numbers are exact, those of a table beside it are rounded.
        numbered: its rows know the line that they stand in.
        weighs_exit: its reader holds the exit code of the tool against the results.
        of_attempts: it tells how the tool was started and ended: what went wrong is made up for by
            a later attempt that completed, and alone it shows that no result was printed.
        looks_like: what tells a JSON document of the kind when it is cut off; a regular expression.
    """

    name: str
    tool: str | None = None
    exact: bool = False
    numbered: bool = True
    weighs_exit: bool = False
    of_attempts: bool = False
    looks_like: str | None = None

    def __str__(self) -> str:
        return self.name


class FieldType(Model):
    """A figure, or a field of a result row.

    Attributes:
        type: double (a measured number), int (a count), map (doubles by message size),
            string, bool.
        unit: GB/s, us, ratio, count, …
        says: one line for people.
        optional: some outputs of the tool do not have it.
    """

    type: Literal["double", "int", "map", "string", "bool"]
    unit: str
    says: str
    optional: bool = False


class Expectation(Model):
    """What hardware lets a tool reach.

    Attributes:
        by: what bounds it: the ``links`` between the ranks, ``copies`` of single GPUs, or the cores
            that a ``model`` is trained on.
        unit: unit of the figures that are expected.
        figure: the one that is published for all of them; None where each has its own.
    """

    by: Literal["links", "copies", "model"]
    unit: str
    figure: str | None = None


class CodeRule(Model):
    """The reason code of bars, by what they test; see `catalog.language.expressions.code_of`.

    Attributes:
        code: reason code.
        only: figures and fields; the bar tests nothing else. Empty: any.
        units: the bar tests a figure or field of one of these units. Empty: of any.
        not_with: units of figures beside which the rule does not hold.
    """

    code: str
    only: tuple[str, ...] = ()
    units: tuple[str, ...] = ()
    not_with: tuple[str, ...] = ()


class Tool(Model):
    """A tool.

    Attributes:
        name: as entries name it.
        outputs: the kinds of output that hold its result, the best first.
        figures: that expressions may name.
        rows: fields of its result rows.
        expected: what hardware lets it reach; None where nobody knows.
        tells_gpus_apart: its rows name single GPUs, so that there can be bars on each.
        same_bars: its categories all have the same bars, so that any of them will do for an output
            of which nobody knows the category.
        codes: reason codes of its bars, the first that fits; else ThresholdViolation.
        crash: reason code of a run whose process ends badly.
        timeout_of_node: reason code of a run of one node that does not end in time; None where that
            says nothing of the node.
    """

    name: str
    outputs: tuple[OutputKind, ...]
    figures: dict[str, FieldType]
    rows: dict[str, FieldType] = {}
    expected: Expectation | None = None
    tells_gpus_apart: bool = False
    same_bars: bool = False
    codes: tuple[CodeRule, ...] = ()
    crash: str = "WorkloadFailed"
    timeout_of_node: str | None = None

    @property
    def measures_links(self) -> bool:
        """Whether it measures the links between its ranks, by messages of several sizes."""
        return self.expected is not None and self.expected.by == "links"


BYSTANDERS = (
    OutputKind(name="nvidia-smi"),
    OutputKind(name="launcher-log", of_attempts=True),
    OutputKind(name="kernel-log"),
)
"""Kinds of output that accompany a tool's and have no result of their own."""
UNKNOWN_OUTPUT = OutputKind(name="unknown")
"""What nothing recognises."""


def tool_of(name: str, data: dict[str, Any]) -> Tool:
    """Read a tool from data as in ``tools.yaml``.

    Raises:
        ValidationError: a field is missing, unknown or of another type.
    """
    outputs = [{**item, "name": kind, "tool": name} for kind, item in data["outputs"].items()]
    return Tool.model_validate({**data, "name": name, "outputs": outputs})


def _shipped() -> Iterator[Tool]:
    for name, data in shipped("facts/tools.yaml").data.items():
        yield tool_of(name, data)


TOOLS: Table[Tool] = Table("tool", _shipped())
"""Every tool, by name."""


def output_kinds() -> tuple[OutputKind, ...]:
    """Return every kind of output, those with a result first and the best of them foremost."""
    return (*(kind for tool in TOOLS for kind in tool.outputs), *BYSTANDERS, UNKNOWN_OUTPUT)


def output_kind(name: str) -> OutputKind:
    """Return a kind of output by name.

    Raises:
        ValueError: there is none of this name.
    """
    for kind in output_kinds():
        if kind.name == name:
            return kind
    raise ValueError(f"there is no kind of output {name!r}")
