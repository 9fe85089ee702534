"""One category on one cohort: which nodes can run it, in which groups, with which workload."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from catalog.bars.bar_file import OwnBars
from catalog.bars.required import bars_for
from catalog.certification import Certification
from catalog.entries.entry import Entry, Launcher
from catalog.hardware.profile import Profiles
from catalog.reading.source import Source
from catalog.workload.resolve import (
    Prepared,
    Request,
    prepare,
    resolve_workload,
    tensor_parallel,
    tolerations_of,
)
from catalog.workload.workload import Workload
from steps.detect.cohorts import CohortPlan
from steps.detect.facts import Observed
from steps.detect.groups import (
    Draft,
    one_by_one,
    packed,
    per_domain,
    screening,
    valid_size,
)
from steps.detect.target import tolerated
from steps.documents import BarSet, Exclusion
from steps.nodes.labels import CORDON_TAINT


@dataclass(slots=True)
class PartPlan:
    """What came out for one category on one cohort.

    Attributes:
        workload: None when no node can run it.
        drafts: groups without ids.
        excluded: nodes of the cohort that are in no group.
        notes: for people.
    """

    cohort: str
    workload: Workload | None = None
    bars: tuple[BarSet, ...] = ()
    drafts: list[Draft] = field(default_factory=list)
    excluded: list[Exclusion] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)


class PartMaker:
    """Plans one category, cohort by cohort."""

    def __init__(
        self,
        entry: Entry,
        certification: Certification,
        index: int,
        profiles: Profiles,
        source: Source | None,
        *,
        own_bars: OwnBars,
        isolate: bool,
        recorded: bool,
    ) -> None:
        self.entry = entry
        self.certification = certification
        self.index = index
        self.profiles = profiles
        self.own_bars = own_bars
        self.source = source
        self.isolate = isolate
        self.recorded = recorded

    def make(self, cohort: CohortPlan) -> PartPlan:
        """Plan the category on a cohort; every node ends in a draft or in ``excluded``."""
        part = PartPlan(cohort.cohort.id)
        prepared = prepare(
            Request(
                entry=self.entry,
                certification=self.certification,
                index=self.index,
                hardware=cohort.cohort.hardware,
                seen=cohort.seen,
                profiles=self.profiles,
                profile=cohort.profile,
                source=self.source,
            )
        )
        part.notes += [f"{cohort.cohort.id}: {note}" for note in prepared.needs.notes]
        usable = self._usable(cohort.nodes, prepared, part)
        if not usable:
            return part
        part.drafts = self._groups(usable, prepared, cohort, part)
        if not part.drafts:
            return part
        size = max(len(draft.nodes) for draft in part.drafts)
        part.workload = resolve_workload(prepared, size)
        part.bars = self._bars(part.workload, part.drafts, cohort, prepared.scale)
        part.notes += [f"{cohort.cohort.id}: {note}" for note in _unprovable(part)]
        return part

    def _exclude(self, part: PartPlan, name: str, code: str, message: str) -> None:
        part.excluded.append(
            Exclusion(node=name, code=code, message=message, category=self.entry.id)
        )

    def _usable(
        self, nodes: Sequence[Observed], prepared: Prepared, part: PartPlan
    ) -> list[Observed]:
        tolerations = tolerations_of(prepared, len(nodes))
        needed = int(prepared.needs.gpus.value)
        usable = []
        for node in nodes:
            hard = [
                taint
                for taint in node.taints
                if taint.effect in {"NoSchedule", "NoExecute"}
                and not tolerated(taint, tolerations)
                and taint.key != CORDON_TAINT
            ]
            lacking = self._pointless(node, prepared) or _lacking(
                node, {**prepared.needs.requests, **prepared.needs.claims}
            )
            if hard:
                self._exclude(part, node.name, "NODE_EXCLUDED_TAINTED", f"taint {hard[0]}")
            elif node.facts.gpus is not None and node.facts.gpus < needed:
                message = f"has {node.facts.gpus}, needs {needed}"
                if not node.facts.gpus and not node.gpus_registered:
                    message += "; does the device plugin run?"
                self._exclude(part, node.name, "NODE_EXCLUDED_GPU_COUNT", message)
            elif lacking:
                self._exclude(part, node.name, "NODE_EXCLUDED_NIC_MISSING", lacking)
            else:
                usable.append(node)
        return usable

    def _pointless(self, node: Observed, prepared: Prepared) -> str | None:
        """Say why a test of the network devices would test none of them."""
        access = prepared.options.get("rdmaDeviceAccess")
        by_path = access is not None and access.value == "hostPath"
        if self.entry.facts.get("path") != "nic" or prepared.needs.nics.value or by_path:
            return None
        if node.allocatable is None:
            return None
        return "the test is of network devices and none is requested; set mlnxPerNode"

    def _groups(
        self,
        usable: Sequence[Observed],
        prepared: Prepared,
        cohort: CohortPlan,
        part: PartPlan,
    ) -> list[Draft]:
        names = [node.name for node in usable]
        part.notes += [f"{cohort.cohort.id}: {note}" for note in _unused(prepared, len(names))]
        if prepared.scale == "intra-node":
            return self._sized(one_by_one(names), prepared, part)
        key = self._topology_key(prepared, cohort)
        domains = {node.name: node.labels[key] for node in usable if key and node.labels.get(key)}
        wanted = prepared.options.get("nodesPerJob")
        size = int(wanted.value) if wanted and wanted.value else None
        if prepared.scale == "intra-rack":
            for name in names:
                if name not in domains:
                    what = f"label {key} is missing" if key else "no topologyKey is known"
                    self._exclude(part, name, "LABEL_MISSING", what)
            return self._sized(per_domain(names, domains, size), prepared, part)
        if prepared.scale == "diagnose":
            return self._sized(self._screens(names, domains, prepared, part), prepared, part)
        fits = self._valid_size(min(size or len(names), len(names)), prepared, size)
        if fits is None:
            for name in names:
                self._exclude(
                    part, name, "NOT_ENOUGH_NODES", self._too_few(len(names), prepared, size)
                )
            return []
        return packed(names, fits, domains)

    def _screens(
        self,
        names: Sequence[str],
        domains: Mapping[str, str],
        prepared: Prepared,
        part: PartPlan,
    ) -> list[Draft]:
        """Screen by NVLink domain, or by the stated one; else in chunks."""
        smallest = max(2, int(prepared.options["minGroupSize"].value))
        stated = prepared.options.get("topologyKey")
        tight = bool(stated and stated.value) or bool(prepared.mnnvl.value)
        if not tight or len(set(domains.values())) < 2:
            return screening(names, smallest)
        for name in names:
            if name not in domains:
                self._exclude(part, name, "LABEL_MISSING", "the label of its domain is missing")
        return per_domain(names, domains)

    def _sized(self, drafts: Sequence[Draft], prepared: Prepared, part: PartPlan) -> list[Draft]:
        """Lower groups to a size that the workload can run at, or exclude their nodes."""
        kept: list[Draft] = []
        for draft in drafts:
            count = len(draft.nodes)
            fits = self._valid_size(count, prepared, None)
            if fits is None:
                for name in draft.nodes:
                    message = self._too_few(count, prepared, None)
                    self._exclude(part, name, "NOT_ENOUGH_NODES", message)
            elif fits == count:
                kept.append(draft)
            else:
                kept += [cut._replace(domain=draft.domain) for cut in packed(draft.nodes, fits, {})]
        return kept

    def _fewest(self, prepared: Prepared, wanted: int | None) -> int:
        """Return the fewest nodes; one node alone tests no fabric unless that is asked for."""
        crosses = self.entry.launcher is Launcher.MPI and prepared.scale != "intra-node"
        return max(self.entry.min_nodes, 2 if crosses and wanted != 1 else 1)

    def _valid_size(self, count: int, prepared: Prepared, wanted: int | None) -> int | None:
        return valid_size(
            count,
            int(prepared.needs.gpus.value),
            min_nodes=self._fewest(prepared, wanted),
            min_gpus=self.entry.min_gpus,
            model_gpus=tensor_parallel(self.entry, prepared.request.hardware.gpu),
        )

    def _too_few(self, count: int, prepared: Prepared, wanted: int | None) -> str:
        gpus = int(prepared.needs.gpus.value)
        fewest = self._fewest(prepared, wanted)
        if count < fewest:
            return f"has {count}, needs {fewest} usable nodes"
        need = max(
            self.entry.min_gpus,
            tensor_parallel(self.entry, prepared.request.hardware.gpu),
        )
        return f"has {count} x {gpus} GPUs, needs {need}"

    def _topology_key(self, prepared: Prepared, cohort: CohortPlan) -> str | None:
        stated = prepared.options.get("topologyKey")
        if stated is not None and stated.value:
            return str(stated.value)
        return cohort.profile.profile.topology_key if cohort.profile else None

    def _bars(
        self,
        workload: Workload,
        drafts: Sequence[Draft],
        cohort: CohortPlan,
        scale: str,
    ) -> tuple[BarSet, ...]:
        key = cohort.profile.profile.topology_key if cohort.profile else None
        domain_of = {node.name: node.labels.get(key or "") for node in cohort.nodes}
        members: dict[int, list[tuple[str, ...]]] = defaultdict(list)
        for draft in drafts:
            members[len(draft.nodes)].append(draft.nodes)
        if self.isolate and max(members) > 1:
            # Any two nodes may become a pair.
            everybody = tuple(node for draft in drafts for node in draft.nodes)
            members[1] += []
            members[2].append(everybody)
        found = []
        for size, groups in sorted(members.items()):
            inside = all(_in_one_domain(group, domain_of) for group in groups)
            bars, missing = bars_for(
                self.entry,
                self.certification.spec.stage,
                replace(workload.hardware, one_domain=inside),
                size,
                workload.options,
                scale=scale,
                own=self.own_bars,
                recorded=self.recorded,
            )
            found.append(BarSet(nodes=size, bars=bars, missing=missing))
        return tuple(found)


def _in_one_domain(nodes: Sequence[str], domain_of: Mapping[str, str | None]) -> bool:
    """Say that no two of the nodes are known to be in different domains."""
    return len({domain_of[node] for node in nodes if domain_of.get(node)}) < 2


def _unused(prepared: Prepared, nodes: int) -> Iterator[str]:
    """Say that a stated minGroupSize changes nothing."""
    smallest = prepared.options.get("minGroupSize")
    if smallest is None or not smallest.replaced:
        return
    if prepared.scale != "diagnose":
        yield f"minGroupSize {smallest.value} is for testScale diagnose, not {prepared.scale}"
    elif smallest.value > nodes:
        yield f"minGroupSize {smallest.value} is above the {nodes} usable nodes: one group"


def _unprovable(part: PartPlan) -> Iterator[str]:
    """Say that a bar asks for a repetition that the certification has switched off."""
    cycles = part.workload.options.get("numCycles") if part.workload else None
    asked = any(bar.key == "cycleSpread" for bars in part.bars for bar in bars.bars)
    if cycles is not None and cycles.value == 1 and asked:
        yield "numCycles 1 shows no cycleSpread, which this stage asks for"


def _lacking(node: Observed, requests: Mapping[str, int]) -> str | None:
    """Say which network devices a node lacks; one that does not tell is not held short."""
    if node.allocatable is None:
        return None
    for name, units in requests.items():
        if node.allocatable.get(name, 0) < units:
            return f"{name}: has {node.allocatable.get(name, 0)}, needs {units}"
    return None
