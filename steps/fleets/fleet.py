"""Fleets: where nodes and runs come from when there is no cluster.

A fleet file (``kind: Fleet``) holds nodes and either the stored outputs of real runs (recorded) or
a seed and faults (simulated).
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from catalog.hardware.platforms import architecture_of
from catalog.reading.source import Source, read_one, validate
from steps.fleets.fleet_document import (
    FleetDocument,
    NodeSet,
    SimulatedSpec,
    check_faults,
    check_file,
    check_gpus,
    check_outputs,
    check_words,
)
from steps.fleets.node_objects import (
    address_of,
    cordoned,
    gpus_of,
    labels_of,
    make_nodes,
    make_pods,
    names_of,
    not_ready,
    without_gpu,
)
from steps.fleets.recorded import RecordedFleet
from steps.fleets.simulated import SimulatedFleet
from steps.jobs.job import Fleet, Job, JobResult
from steps.nodes.files import read_objects
from steps.nodes.labels import PRODUCT_LABEL
from steps.simulator.faults import Cordon, Fault, LostGpu, NotReady, of_kind
from steps.simulator.machine import Machine

__all__ = ["Fleet", "Job", "JobResult", "load_fleet"]


def load_fleet(path: Path) -> Fleet:
    """Read a fleet file and the files that it names.

    Raises:
        InputError: with file, line and field of the first problem.
    """
    source = read_one(path)
    check_words(source)
    document = validate(source, FleetDocument)
    spec = document.spec
    nodes = make_nodes(spec.nodes)
    pods = make_pods(spec.nodes)
    if spec.nodes_file:
        check_file(source, ("spec", "nodesFile"), path.parent / spec.nodes_file)
        nodes += read_objects(path.parent / spec.nodes_file, "Node")
    if spec.pods_file:
        check_file(source, ("spec", "podsFile"), path.parent / spec.pods_file)
        pods += read_objects(path.parent / spec.pods_file, "Pod")
    names = names_of(source, nodes)
    if isinstance(spec, SimulatedSpec):
        check_faults(source, spec.faults, names)
        return _simulated(source, spec, nodes, pods)
    check_outputs(source, spec.outputs, names, path.parent)
    return RecordedFleet(
        name=document.metadata.name,
        nodes=nodes,
        pods=pods,
        outputs=spec.outputs,
        folder=path.parent,
        start=spec.start,
    )


def _simulated(
    source: Source,
    spec: SimulatedSpec,
    nodes: list[dict[str, Any]],
    pods: list[dict[str, Any]],
) -> SimulatedFleet:
    sets = {name: item for item in spec.nodes for name in item.names}
    machines = {}
    listed = []
    for node in nodes:
        name = str(node["metadata"]["name"])
        lasting = [fault for fault in spec.faults if name in fault.node and _lasts(fault)]
        machines[name] = _machine(node, sets.get(name), lasting)
        listed.append(_with_state(node, lasting))
    check_gpus(source, spec.faults, {name: machine.gpus for name, machine in machines.items()})
    return SimulatedFleet(
        seed=spec.seed,
        start=spec.start,
        nodes=listed,
        pods=pods,
        machines=machines,
        faults=spec.faults,
    )


def _lasts(fault: Fault) -> bool:
    """Say whether a fault is there before anything runs, so that the Node object shows it."""
    return isinstance(fault, Cordon | NotReady | LostGpu) and fault.at is None


def _machine(node: dict[str, Any], item: NodeSet | None, faults: Sequence[Fault]) -> Machine:
    name = str(node["metadata"]["name"])
    product = labels_of(node).get(PRODUCT_LABEL, "")
    unavailable = None
    if of_kind(faults, Cordon) or (item and item.cordoned):
        unavailable = "were unschedulable"
    if of_kind(faults, NotReady) or (item and not item.ready):
        unavailable = "had untolerated taint {node.kubernetes.io/unreachable: }"
    return Machine(
        name=name,
        product=product,
        architecture=architecture_of(product),
        gpus=gpus_of(node),
        lost=frozenset(fault.gpu for fault in of_kind(faults, LostGpu)),
        performance=item.performance if item else 1.0,
        unavailable=unavailable,
        address=address_of(name),
    )


def _with_state(node: dict[str, Any], faults: Sequence[Fault]) -> dict[str, Any]:
    for fault in faults:
        match fault:
            case LostGpu():
                node = without_gpu(node)
            case Cordon():
                node = cordoned(node)
            case NotReady():
                node = not_ready(node, fault.message)
            case _:
                pass
    return node
