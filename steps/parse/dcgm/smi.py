"""Scans for nvidia-smi: lost GPUs, pending row remaps, memory errors, links that are down.

It reads ``nvidia-smi`` itself, ``-q``, ``-L`` and ``nvlink -s``, whole or in excerpts.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from catalog.facts.tools import output_kind
from steps.documents import Entity
from steps.parse.api import Line, ParseContext, Part
from steps.parse.dcgm import words
from steps.parse.dcgm.collect import Findings

_PCI = r"[0-9A-Fa-f]{4,8}:[0-9A-Fa-f]{2}:[0-9A-Fa-f]{2}(?:\.[0-9A-Fa-f])?"
_NO_HANDLE = re.compile(
    r"Unable to determine the device handle for (?:GPU|gpu) ?"
    r"(?P<index>\d{1,3}(?!\d)(?!:[0-9A-Fa-f]{2}:))?:? ?"
    rf"(?P<pci>{_PCI})?:? ?(?P<why>.*)"
)
_LOST = re.compile(rf"(?P<why>GPU is lost)|(?P<pci>{_PCI}).*GPU is lost")
_LISTED = re.compile(r"GPU (?P<index>\d{1,3}): (?P<name>.+?) \(UUID: (?P<uuid>GPU-[^)]*)\)?")
# nvlink -e and -i name the GPU without its UUID
_NAMED = re.compile(
    r"GPU (?P<index>\d{1,3}): (?:NVIDIA|Tesla|Quadro|GeForce|Graphics Device)\b[^:]*"
)
_QUERIED = re.compile(rf"GPU (?P<pci>{_PCI})")
_LINK = re.compile(r"Link (?P<link>\d+): (?P<state><inactive>|[\d.]+ GB/s)")
_LINK_ERRORS = re.compile(
    r"Link (?P<link>\d+): (?P<what>Replay|Recovery|CRC(?: \w+)?) Errors?: (?P<count>\d{1,18})"
)
_ALL_INACTIVE = "all links are inactive"
_FIELD = re.compile(r"(?P<indent>\s*)(?P<name>[A-Za-z][\w /().-]*?)\s+:\s(?P<value>.*)")
_HEADING = re.compile(r"(?P<indent>\s*)(?P<name>[A-Z][\w /().-]*)")
_TABLE_GPU = re.compile(
    rf"\|\s+(?P<index>\d+)\s+.*?\|\s+(?P<pci>{_PCI})\s+\S+\s+\|\s+(?P<ecc>\S+)\s+\|"
)
_TABLE_TITLE = re.compile(r"\|\s*NVIDIA-SMI (?P<smi>\S+)\s+Driver Version: (?P<driver>\S+)")
_UNCORRECTABLE = re.compile(r"(?:\w+ )?Uncorrectable(?: \w+)?|Total")

_SECTIONS = re.compile(
    r"\bVolatile\b|\bAggregate\b|Single Bit|Double Bit|Retired Pages|Remapped Rows"
)
_FIELDS = re.compile(
    r"\|  |NVIDIA-SMI|No devices were found|links are inactive|Attached GPUs|Driver Version|"
    r"ncorrectable|\bTotal |Pending|Remapping Failure|Threshold Exceeded|Thermal Slowdown"
)


class _Sighting(NamedTuple):
    code: str
    variant: str | None
    message: str
    entity: Entity
    line: Line


class NvidiaSmiScanner:
    """Reads the text output of nvidia-smi line by line.

    Args:
        file: name of the output.
    """

    wants: tuple[re.Pattern[str], ...] = (
        _NO_HANDLE,
        _LOST,
        _LISTED,
        _NAMED,
        _QUERIED,
        _LINK,
        _LINK_ERRORS,
        _SECTIONS,
        _FIELDS,
    )

    def __init__(self, file: str) -> None:
        self._file = file
        self._claimed = 0
        self._versions: dict[str, str] = {}
        self._node: str | None = None
        self._sightings: list[_Sighting] = []
        self._listed: dict[int, int] = {}
        self._listing_only = True
        self._attached: tuple[int, Line] | None = None
        self._none_found: Line | None = None
        self._gpu = Entity()
        self._path: list[tuple[int, str]] = []
        self._links: dict[int | None, list[tuple[str, str, Line]]] = {}

    def feed(self, line: Line) -> None:
        """Take one line."""
        readers = (self._lost, self._table, self._gpu_line, self._link, self._field)
        if any(reader(line, line.text) for reader in readers):
            self._claimed += 1

    def _lost(self, line: Line, text: str) -> bool:
        if not any(hint in text for hint in ("device handle", "is lost", "No devices")):
            return False
        match = _NO_HANDLE.search(text)
        if match:
            why = match["why"].strip(" .")
            if "permission" in why.lower():
                return True
            index = words.gpu_index(match["index"])
            message = f"nvidia-smi cannot reach the GPU: {why or 'no reason given'}"
            entity = Entity(node=line.host, gpu=index, pci=match["pci"])
            self._see("GPU_FELL_OFF_BUS", message, entity, line)
            return True
        if "No devices were found" in text:
            self._none_found = line
            return True
        lost = _LOST.search(text)
        if lost and "Xid" not in text and "NVRM" not in text:
            entity = Entity(node=line.host, pci=lost["pci"] or self._gpu.pci, gpu=self._gpu.gpu)
            self._see("GPU_FELL_OFF_BUS", "the GPU is lost", entity, line)
            return True
        return False

    def _table(self, line: Line, text: str) -> bool:
        if not text.lstrip().startswith("|"):
            return False
        title = _TABLE_TITLE.search(text)
        if title:
            self._versions["driver"] = title["driver"]
            return True
        row = _TABLE_GPU.search(text)
        if row is None:
            return False
        index = int(row["index"])
        self._listed.setdefault(index, line.number)
        errors = words.number(row["ecc"])
        if errors:
            entity = Entity(node=line.host, gpu=words.gpu_index(index), pci=row["pci"])
            self._uncorrectable(int(errors), "volatile", entity, line)
        return True

    def _gpu_line(self, line: Line, text: str) -> bool:
        stripped = text.strip()
        if not stripped.startswith("GPU "):
            return False
        listed = _LISTED.match(stripped)
        if listed:
            index = int(listed["index"])
            self._gpu = Entity(node=line.host, gpu=words.gpu_index(index))
            self._listed.setdefault(index, line.number)
            return True
        if named := _NAMED.fullmatch(stripped):
            self._gpu = Entity(node=line.host, gpu=words.gpu_index(named["index"]))
            return False  # others print such a line as well
        queried = _QUERIED.fullmatch(stripped)
        if queried and not text[:1].isspace():
            self._gpu = Entity(node=line.host, pci=queried["pci"])
            self._path = []
            self._listing_only = False
            return True
        return False

    def _link(self, line: Line, text: str) -> bool:
        if "ink" not in text:
            return False
        if _ALL_INACTIVE in text:
            self._listing_only = False
            self._see("NVLINK_DOWN", "all NVLinks are inactive", self._gpu, line)
            return True
        errors = _LINK_ERRORS.search(text)
        if errors and self._gpu.gpu is not None:
            self._listing_only = False
            if int(errors["count"]):
                says = f"NVLink {errors['link']}: {errors['count']} {errors['what']} errors"
                self._see("NVLINK_ERRORS", says, self._gpu, line)
            return True
        link = _LINK.search(text)
        if link and self._gpu.gpu is not None:
            self._listing_only = False
            self._links.setdefault(self._gpu.gpu, []).append((link["link"], link["state"], line))
            return True
        return False

    def _field(self, line: Line, text: str) -> bool:
        """Follow the indentation of ``-q``; a field counts only inside its section."""
        if self._gpu.pci is None or not text[:1].isspace():
            self._gpu = Entity() if self._gpu.pci else self._gpu
            return self._top(line, text)
        field = _FIELD.fullmatch(text)
        found = field or _HEADING.fullmatch(text.rstrip())
        if found is None:
            return False
        indent = len(found["indent"])
        while self._path and self._path[-1][0] >= indent:
            self._path.pop()
        if field is None:
            self._path.append((indent, found["name"]))
        else:
            self._weigh(line, field["name"], field["value"].strip())
        return True

    def _top(self, line: Line, text: str) -> bool:
        """Read the fields before the first GPU."""
        name, _, value = text.partition(" : ")
        if name.strip() == "Attached GPUs":
            number = words.number(value.strip())
            self._attached = None if number is None else (int(number), line)
            return True
        if name.strip() == "Driver Version" and value:
            self._versions["driver"] = value.strip()
            return True
        return False

    def _weigh(self, line: Line, name: str, value: str) -> None:
        section = [heading for _, heading in self._path]
        yes = value.lower() == "yes"
        if name.startswith("Pending") and yes and "Remapped Rows" in section:
            self._pending("a row remap is pending", line)
        elif name.startswith("Pending") and yes and "Retired Pages" in section:
            self._pending("a page retirement is pending", line)
        elif name == "Remapping Failure Occurred" and yes:
            self._see(
                "ROW_REMAP_FAILED",
                "a memory row could not be remapped",
                self._gpu,
                line,
            )
        elif name == "SRAM Threshold Exceeded" and yes:
            self._see(
                "ECC_UNCORRECTABLE",
                "the SRAM error threshold is exceeded",
                self._gpu,
                line,
            )
        elif "Volatile" in section and _UNCORRECTABLE.fullmatch(name):
            errors = words.number(value)
            if name == "Total" and "Double Bit" not in section:
                return
            if errors:
                self._uncorrectable(int(errors), name, self._gpu, line)
        elif name == "HW Thermal Slowdown" and value == "Active":
            self._see("GPU_THERMAL", "the GPU slows down because of heat", self._gpu, line)

    def _pending(self, message: str, line: Line) -> None:
        self._see("ROW_REMAP_PENDING", message, self._gpu, line)

    def _uncorrectable(self, number: int, name: str, entity: Entity, line: Line) -> None:
        self._see(
            "ECC_UNCORRECTABLE",
            f"{number} uncorrectable memory errors since the last reset ({name})",
            entity,
            line,
        )

    def _see(self, code: str, message: str, entity: Entity, line: Line) -> None:
        self._sightings.append(_Sighting(code, None, message, entity, line))

    def finish(self, context: ParseContext) -> Part:
        """Return what was found."""
        findings = Findings(self._file, context.node)
        for sighting in [*self._sightings, *self._links_down()]:
            self._add(findings, context, sighting)
        if self._claimed:
            self._count(findings, context)
        return Part(
            mode=output_kind("nvidia-smi"),
            claimed=self._claimed,
            tool="nvidia-smi",
            findings=findings.finish(),
            versions=self._versions,
        )

    def _add(self, findings: Findings, context: ParseContext, seen: _Sighting) -> None:
        code, variant = seen.code, seen.variant
        if code == "NVLINK_DOWN" and context.hardware.nvlink is False:
            code, variant = "DCGM_CONFIG", "no-nvlink"
        about = seen.entity.model_copy(update={"node": seen.entity.node or context.node})
        where = str(about)
        findings.add(
            code,
            f"{where}: {seen.message}" if where else seen.message,
            variant=variant,
            entities=(about,) if where else (),
            text=seen.line.text.strip(),
            line=seen.line.number,
        )

    def _links_down(self) -> list[_Sighting]:
        """All links down is a fault; single ones may be unused on this board."""
        seen = []
        for gpu, links in self._links.items():
            down = [(link, line) for link, state, line in links if state == "<inactive>"]
            if not down:
                continue
            everything = len(down) == len(links)
            names = ", ".join(link for link, _ in down)
            message = "all NVLinks are inactive" if everything else f"NVLink {names} inactive"
            variant = None if everything else "some-links"
            entity = Entity(node=down[0][1].host, gpu=gpu)
            seen.append(_Sighting("NVLINK_DOWN", variant, message, entity, down[0][1]))
        return seen

    def _count(self, findings: Findings, context: ParseContext) -> None:
        """Compare the GPUs that are listed with the profile."""
        expected = context.hardware.gpus_per_node
        if self._none_found:
            # Inside a container this is as likely a missing device request as a dead driver.
            findings.add(
                "GPU_MISSING",
                "nvidia-smi found no GPU",
                text=self._none_found.text.strip(),
                line=self._none_found.number,
                variant="none-visible",
            )
        number, place = len(self._listed), None
        whole = self._listing_only and 0 in self._listed
        if self._attached:
            number, place = self._attached[0], self._attached[1]
            whole = True
        if not expected or not whole or number >= expected:
            return
        absent = [gpu for gpu in range(max(self._listed, default=0)) if gpu not in self._listed]
        gaps = f"; index {', '.join(map(str, absent))} is absent" if absent else ""
        findings.add(
            "GPU_MISSING",
            f"nvidia-smi lists {number} of {expected} GPUs{gaps}",
            entities=tuple(Entity(node=context.node, gpu=gpu) for gpu in absent)
            or findings.node_entity(),
            text=place.text.strip() if place else f"{number} GPUs listed",
            line=place.number if place else min(self._listed.values(), default=None),
        )
