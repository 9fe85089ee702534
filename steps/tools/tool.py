"""What the steps know of a tool besides the catalog: how it is judged, watched and simulated."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Generic, TypeVar

from steps.documents import Figure, Finding, Measurements, NamedRow
from steps.documents.measurements import Row
from steps.simulator.clock import Script
from steps.simulator.machine import SimulatedRun

R = TypeVar("R", bound=Row)

_NO_FIELDS = {"kind", "line"}

FindRows = Callable[[str, str], Sequence[Row]]
"""Returns the rows that a figure came from, the most telling first, given the name of the figure
and the message sizes that the expression names, joined by commas."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Sweep:
    """Which figures of a sweep over message sizes the loss of some sizes can change.

    Attributes:
        of_sizes: figures of given sizes, which the loss of other sizes does not change.
        greatest: figures that a lost size can only have made smaller.
        of_the_end: figures that come from the end of the sweep, and from where it broke off when it
            did.
        ceiling: more than any of them can be.
        sizes_lost: says which sizes are missing; None when all are there.
        largest_lost: says which sizes at the end are missing; None when it got to its end.
    """

    of_sizes: frozenset[str]
    greatest: frozenset[str]
    of_the_end: frozenset[str]
    ceiling: float
    sizes_lost: Callable[[Measurements], str | None]
    largest_lost: Callable[[Measurements], str | None]


class Pace(ABC):
    """Finds the progress of a running tool in its output; one for each output.

    Attributes:
        noun: what progress is, for example ``row``.
        repeats: the same step again is progress; otherwise it is the same one printed twice.
        done: the last step is over.
        figure: what the last step measured, for people; empty where it does not tell.
    """

    noun: ClassVar[str]
    repeats: ClassVar[bool] = False
    done: bool = False
    figure: str = ""

    @abstractmethod
    def steps(self, raw: bytes) -> Iterator[tuple[str, bool]]:
        """Yield the steps of a raw line, and whether a bar shows them that is redrawn."""

    @abstractmethod
    def usual_wait(self, waits: Sequence[float], longest: float) -> float:
        """Return how many seconds the next step may take where all goes on as before.

        Args:
            waits: seconds between the last steps; empty before the second.
            longest: the longest wait of all.
        """


class ToolSteps(ABC, Generic[R]):
    """A tool, as the steps know it. What has no default here every tool has to say.

    Attributes:
        name: as the catalog has it.
        row_type: class of its result rows.
        versions: that its simulated runs tell.
        printed: figures that no lost row can change: other lines of the output tell them.
        sweep: what the loss of message sizes changes; None where there are no sizes.
        results_outweigh_exit: it ends with an error code after every bad result, so that whole
            results say more than the code.
        pace: finds its progress; None where it prints only at its end.
        columns, title: of a table of its rows.
        numeric: its cells are numbers.
        varying: columns that are shown only where their cells differ.
    """

    name: ClassVar[str]
    row_type: type[R]
    versions: ClassVar[Mapping[str, str]]
    printed: ClassVar[frozenset[str]] = frozenset()
    sweep: ClassVar[Sweep | None] = None
    results_outweigh_exit: ClassVar[bool] = False
    pace: ClassVar[type[Pace] | None] = None
    columns: ClassVar[tuple[str, ...]] = ("row", "measured")
    title: ClassVar[str | None] = None
    numeric: ClassVar[bool] = False
    varying: ClassVar[frozenset[str]] = frozenset()

    def rows(self, read: Measurements) -> list[R]:
        """Return the rows of this tool."""
        return [row for row in read.rows if isinstance(row, self.row_type)]

    def fields(self, row: R) -> dict[str, Any]:
        """Return the fields of a row as expressions name them; what was not printed is absent."""
        if isinstance(row, NamedRow):
            return dict(row.values)
        return {name: value for name, value in row if value is not None and name not in _NO_FIELDS}

    def counted(self, read: Measurements) -> list[R]:
        """Return the rows that count, for example without warm-up."""
        return self.rows(read)

    @abstractmethod
    def row_name(self, row: R) -> str:
        """Name a row: ``8M, cycle 2``, ``step 41``, ``pcie GPU 3``."""

    @abstractmethod
    def row_parts(self, row: R) -> Iterable[str | None]:
        """Return what a row measured, in words; None for what it lacks."""

    def row_words(self, row: R) -> str:
        """Say what a row measured, for evidence whose line is not at hand."""
        parts = ", ".join(part for part in self.row_parts(row) if part)
        return f"{self.row_name(row)}: {parts or 'no value'}"

    def cells(self, row: R) -> tuple[str, ...]:
        """Return a row of the table, one text for each column."""
        return self.row_name(row), ", ".join(part for part in self.row_parts(row) if part)

    def quote(self, row: R, figure: str | None, read: Measurements) -> tuple[int | None, str]:
        """Return line and words of a row, as evidence of one of its figures."""
        return row.line if read.mode.numbered else None, self.row_words(row)

    @abstractmethod
    def rows_lost(self, read: Measurements) -> str | None:
        """Say why rows of single runs or results are missing, or may be; None when all are there.

        An expression over many rows can become true because the one row that made it false was
        lost. So the rows are held against what the figures, the findings and each other say.
        """

    def figures_lost(self, read: Measurements) -> str | None:
        """Say why the figures rest on fewer rows than there were; None when they do not."""
        return self.rows_lost(read)

    def rightly_absent(self, figure: str, read: Measurements) -> bool:
        """True when the output shows that a figure was not to be had; else it was lost."""
        return False

    @abstractmethod
    def find_rows(self, read: Measurements) -> FindRows:
        """Return what finds the rows that figures came from."""

    def computed_from(self, name: str, figure: Figure, read: Measurements) -> str | None:
        """Say what a figure was computed from, where no single row shows it."""
        return None

    def gpus(self, read: Measurements) -> dict[int, tuple[Mapping[str, float | int], list[R]]]:
        """Return figures and rows of every GPU that the rows name, by index."""
        return {}

    def unfinished(self, read: Measurements) -> str | None:
        """Say where an output stops that seems complete but tells of more to come."""
        return None

    def unexplained(self, read: Measurements) -> str | None:
        """Say which row is bad although no finding says so."""
        return None

    def check_gpus(self, read: Measurements, gpus_per_node: int) -> Sequence[Finding]:
        """Compare the GPUs that an output names with those that a node has."""
        return ()

    @abstractmethod
    def play(self, run: SimulatedRun) -> Script:
        """Return what a simulated run prints."""


def whole_number(figure: Figure | None) -> int | None:
    """Return the value of a figure that counts; None where it is absent or no count."""
    return figure.value if figure is not None and isinstance(figure.value, int) else None


def amount(value: float | None, unit: str) -> str | None:
    """Write a number with its unit; None where there is none."""
    return None if value is None else f"{value:g} {unit}".rstrip()


def fixed(value: float | None, digits: int = 2) -> str:
    """Write a number for a cell; a dash where there is none."""
    return "-" if value is None else f"{value:.{digits}f}"


def has_finding(read: Measurements, code: str) -> bool:
    """True when the output has a finding of this code."""
    return any(item.code == code for item in read.findings)
