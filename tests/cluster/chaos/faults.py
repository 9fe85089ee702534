"""The table of faults.

A fault is told its scenes (one, or several for what concerns a node or the whole machine), waits
for its moment, and says whether it happened: a step may be over before anybody can touch it.
"""

from __future__ import annotations

import base64
import json
import signal
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial

from tests.cluster import dress, processes
from tests.cluster import node as nodes
from tests.cluster.bad_network import bad_network
from tests.cluster.chaos.oracle import Fall
from tests.cluster.chaos.scene import Object, Scene
from tests.cluster.pod_processes import programs_of, send, squeeze_memory
from tests.cluster.shell import LabError

Scenes = Sequence[Scene]

LONG_RUN_MS = 100
"""Pause after each collective that makes a run last about fifteen seconds."""

_PROCESS_SECONDS = 30

_LAB_RECORD = threading.Lock()
"""Two who change the lab's record of its programs at once would forget each other's."""
_MISSING_IMAGE = "registry.invalid/none:1"
_WITHOUT = frozenset[str]()


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """One row of the table.

    Attributes:
        name: of the fault.
        how: how it is done.
        phase: when.
        act: does it; false when it came too late.
        casts: certifications it is done to: one of them, or all of them at once if it is wide.
        wide: it concerns several certifications, not one.
        alone: it concerns the whole machine, so that nothing else may run beside it.
        pause_ms: length of the run, see `LONG_RUN_MS`.
        image, env: of the workload.
        may_lack_report: a user ended the workflow in the way that leaves no report.
        sound: it must not keep the nodes from being measured.
        codes: of these one is in the report if it is no PASS; none: any will do.
        names: how the workflows are named; empty: by Argo.
        shared_nodes: all certifications are of the same nodes.
    """

    name: str
    how: str
    phase: str
    act: Callable[[Scenes], bool]
    casts: tuple[str, ...] = ("healthy", "failing")
    wide: bool = False
    alone: bool = False
    pause_ms: int = 0
    image: str = ""
    env: tuple[tuple[str, str], ...] = ()
    may_lack_report: bool = False
    sound: bool = False
    codes: frozenset[str] = _WITHOUT
    names: str = ""
    shared_nodes: bool = False
    own_namespace: bool = False


def find(name: str) -> Fault:
    """Return a fault by name."""
    return next(fault for fault in FAULTS if fault.name == name)


# --- what is done to processes and pods ----------------------------------------------------------


def _on_step(template: str, verb: Callable[[Scene, Object], bool], scenes: Scenes) -> bool:
    (scene,) = scenes
    pod = scene.step(template)
    return pod is not None and verb(scene, pod)


def _on_member(role: str, verb: Callable[[Scene, Object], bool], scenes: Scenes) -> bool:
    (scene,) = scenes
    pod = scene.member(role)
    if pod is None:
        return False
    scene.pause(8)
    return verb(scene, pod)


def _programs(scene: Scene, pod: Object) -> list[int]:
    end = time.monotonic() + _PROCESS_SECONDS
    while time.monotonic() < end and not scene.over:
        if found := programs_of(pod):
            return found
        time.sleep(0.1)
    return []


def _kill(scene: Scene, pod: Object) -> bool:
    if not _programs(scene, pod):
        return False
    scene.pause(1.0)
    return send(programs_of(pod), signal.SIGKILL) > 0


def _freeze(scene: Scene, pod: Object) -> bool:
    if not _programs(scene, pod):
        return False
    scene.pause(1.0)
    return send(programs_of(pod), signal.SIGSTOP) > 0


def _delete_pod(scene: Scene, pod: Object) -> bool:
    scene.pause(2)
    force = ["--force", "--grace-period=0"] if scene.random.random() < 0.5 else []
    name = pod["metadata"]["name"]
    words = ["delete", "pod", name, "--wait=false", *force, "-n", scene.namespace]
    return "deleted" in scene.lab.try_kubectl(*words).stdout


def _out_of_memory(scene: Scene, pod: Object) -> bool:
    found = _programs(scene, pod)
    try:
        return bool(found) and squeeze_memory(found[0], 256 * 1024)
    except OSError:
        return False


# --- what is done to objects ---------------------------------------------------------------------


def _delete_map(scene: Scene, item: Object) -> None:
    scene.kubectl("delete", "configmap", item["metadata"]["name"])


def _damage_map(scene: Scene, item: Object) -> None:
    """Cut the content to its first bytes, which nobody can do to an immutable object in place."""
    changed: Object = {"apiVersion": "v1", "kind": "ConfigMap"}
    changed |= {"immutable": True} if item.get("immutable") else {}
    keep = ("name", "namespace", "labels", "annotations", "ownerReferences")
    changed["metadata"] = {key: item["metadata"][key] for key in keep if key in item["metadata"]}
    for part in ("data", "binaryData"):
        if part in item:
            changed[part] = {key: _cut(part, text) for key, text in item[part].items()}
    _delete_map(scene, item)
    scene.kubectl("create", "-f", "-", stdin=json.dumps(changed))


def _cut(part: str, text: str) -> str:
    if part == "data":
        return text[:40]
    return base64.b64encode(base64.b64decode(text)[:40]).decode()


def _on_document(kind: str, verb: Callable[[Scene, Object], None], scenes: Scenes) -> bool:
    (scene,) = scenes
    item = scene.document(kind)
    if item is None:
        return False
    scene.pause(1.5)
    if kind in {"RunRecord", "Measurements", "log"}:
        # Which group it is of stands in its key; a category has few, so all of it is forgiven.
        key = item["metadata"].get("annotations", {}).get("readiness/key", "")
        nodes_of = {run for run in _groups(scene) if run in key}
        scene.lost |= nodes_of or set(_groups(scene))
    verb(scene, item)
    return True


def _groups(scene: Scene) -> list[str]:
    return [f"intra-node-{number}" for number in range(len(scene.nodes))] + ["full-scale-0"]


def _on_group_map(verb: Callable[[Scene, Object], None], scenes: Scenes) -> bool:
    (scene,) = scenes
    item = scene.group_map()
    if item is not None:
        scene.pause(5)
        verb(scene, item)
    return item is not None


def _on_object(kind: str, words: Sequence[str], scenes: Scenes) -> bool:
    (scene,) = scenes
    name = scene.named(kind)
    if name is None:
        return False
    scene.pause(5)
    verb, *rest = words
    done = scene.lab.try_kubectl(verb, name, *rest, "-n", scene.namespace)
    return done.returncode == 0


# --- what is done to nodes -----------------------------------------------------------------------


def _on_node(verb: Callable[[Scenes, str], bool], scenes: Scenes) -> bool:
    """Choose a node under test while its worker runs."""
    scene = scenes[0].random.choice(list(scenes))
    name = scene.random.choice(scene.nodes)
    if scene.member("worker", name) is None:
        return False
    scene.pause(12)
    return verb(scenes, name)


@contextmanager
def _spoiled(scenes: Scenes, name: str, *, away: bool) -> Iterator[None]:
    """Let a node be as the `with` block makes it until every certification is over."""
    since = time.time()
    for scene in scenes:
        scene.touched.add(name)
        if away:
            scene.fallen[name] = Fall(since)
    yield
    for scene in scenes:
        scene.wait_end()


def _cordon(scenes: Scenes, name: str) -> bool:
    lab = scenes[0].lab
    try:
        with _spoiled(scenes, name, away=False):
            lab.cordon(name)
    finally:
        lab.uncordon(name)
    return True


def _taint(scenes: Scenes, name: str) -> bool:
    lab = scenes[0].lab
    try:
        with _spoiled(scenes, name, away=False):
            lab.kubectl("taint", "node", name, "chaos=yes:NoExecute", "--overwrite")
    finally:
        lab.try_kubectl("taint", "node", name, "chaos-")
    return True


def _delete_node(scenes: Scenes, name: str) -> bool:
    lab = scenes[0].lab
    try:
        with _spoiled(scenes, name, away=True):
            lab.kubectl("delete", "node", name, "--wait=false")
    finally:
        # A kubelet makes its node object only when it starts.
        with _LAB_RECORD:
            lab.stop_kubelet(name)
            lab.start_kubelet(name)
        lab.dress(name, dress.ONPREM_H100)
    return True


def _power_off(scenes: Scenes, name: str) -> bool:
    lab = scenes[0].lab
    try:
        with _spoiled(scenes, name, away=True), _LAB_RECORD:
            lab.kill_node(name)
    finally:
        with _LAB_RECORD:
            lab.start_node(name)
    return True


def _power_cycle(scenes: Scenes, name: str) -> bool:
    """The node comes back while the certification still runs."""
    lab = scenes[0].lab
    since = time.time()
    with _LAB_RECORD:
        lab.kill_node(name)
    scenes[0].pause(20)
    with _LAB_RECORD:
        lab.start_node(name)
    for scene in scenes:
        scene.touched.add(name)
        scene.fallen[name] = Fall(since, time.time())
    return True


def _stop_kubelet(scenes: Scenes, name: str) -> bool:
    lab = scenes[0].lab
    try:
        with _spoiled(scenes, name, away=True), _LAB_RECORD:
            lab.stop_kubelet(name)
    finally:
        with _LAB_RECORD:
            lab.start_kubelet(name)
    return True


def _freeze_kubelet(scenes: Scenes, name: str) -> bool:
    lab = scenes[0].lab
    since = time.time()
    with processes.paused(lab.state.processes[f"kubelet-{name}"]):
        time.sleep(scenes[0].random.uniform(20, 40))
    for scene in scenes:
        scene.touched.add(name)
        scene.fallen[name] = Fall(since, time.time())
    return True


# --- what is done to the machine -----------------------------------------------------------------


def _in_the_middle(verb: Callable[[Scenes], None], scenes: Scenes) -> bool:
    """Wait for a moment between the first plan and the last report."""
    scenes[0].pause(70)
    if all(scene.over for scene in scenes):
        return False
    verb(scenes)
    return True


def _restart(name: str, scenes: Scenes) -> None:
    down = scenes[0].random.uniform(0, 15)
    processes.restart(scenes[0].lab.state, name, down=down)


def _freeze_program(name: str, scenes: Scenes) -> None:
    with processes.paused(scenes[0].lab.state.processes[name]):
        time.sleep(scenes[0].random.uniform(10, 40))


def _restart_node_runtime(scenes: Scenes, name: str) -> bool:
    with _LAB_RECORD:
        state = scenes[0].lab.state
        processes.stop(state, f"containerd-{name}", grace=0)
        scenes[0].pause(5)
        nodes.start_containerd(state, name)
    return True


def _bad_network(scenes: Scenes) -> bool:
    with bad_network(scenes[0].random.randrange(2**31)):
        for scene in scenes:
            scene.wait_end()
    return True


# --- what users do -------------------------------------------------------------------------------

_USER_STEPS = ("detect", "groups", "run", "run", "run", "parse", "evaluate")


def _argo(verb: str, scenes: Scenes) -> bool:
    (scene,) = scenes
    template = scene.random.choice(_USER_STEPS)
    if scene.step(template) is None:
        return False
    scene.pause(10 if template == "run" else 2)
    try:
        scene.argo(verb)
    except LabError:
        return False
    return True


def _stop_then(verb: str, scenes: Scenes) -> bool:
    (scene,) = scenes
    if scene.member("worker") is None:
        return False
    scene.pause(4)
    scene.argo("stop")
    if not scene.wait_end():
        return False
    scene.submitted = time.time()
    scene.lost |= set(_groups(scene))
    said = scene.argo(verb, "-o", "name").split()
    if verb == "resubmit":
        scene.name = said[-1]
    scene.live.wait(lambda: bool(scene.phase) and not scene.over, timeout=60)
    # What was measured from here on is not forgiven.
    scene.lost.clear()
    return True


def _nothing(_: Scenes) -> bool:
    return True


def _quota(scenes: Scenes) -> bool:
    """Allow no more pods than there are; the controllers count with a delay, as they do."""
    (scene,) = scenes
    template = scene.random.choice(("detect", "groups", "run"))
    if scene.step(template) is None:
        return False
    hard = {"pods": "1"} if scene.random.random() < 0.5 else {"requests.nvidia.com/gpu": "0"}
    quota = {"kind": "ResourceQuota", "apiVersion": "v1", "metadata": {"name": "chaos"}}
    scene.lab.apply(quota | {"spec": {"hard": hard}}, namespace=scene.namespace)
    try:
        time.sleep(scene.random.uniform(20, 60))
    finally:
        scene.kubectl("delete", "resourcequota", "chaos")
    return True


# --- the table -----------------------------------------------------------------------------------

_STEPS = ("detect", "groups", "run", "parse", "pairs", "evaluate", "aggregate", "finish")
_STEP_VERBS = {
    "kill": ("SIGKILL to its program", _kill),
    "delete": ("kubectl delete pod, at random by force", _delete_pod),
    "freeze": ("SIGSTOP to its program", _freeze),
}
_DOCUMENTS = {
    "Plan": "after detect",
    "RunRecord": "after the run",
    "log": "during the run",
    "Measurements": "after parse",
    "IsolationRound": "after pairs",
    "Verdict": "after evaluate",
}
_MAP_VERBS = {"delete": ("kubectl delete", _delete_map), "damage": ("cut to 40 bytes", _damage_map)}
_NODE_VERBS = {
    "cordon": ("kubectl cordon", _cordon),
    "taint": ("kubectl taint NoExecute", _taint),
    "delete node": ("kubectl delete node, its kubelet runs on", _delete_node),
    "power off": ("every process of the node killed", _power_off),
    "power cycle": ("the same, back within 20 s", _power_cycle),
    "stop kubelet": ("SIGTERM, containers run on", _stop_kubelet),
    "freeze kubelet": ("SIGSTOP for 20 to 40 s", _freeze_kubelet),
    "restart containerd": ("SIGKILL, back within 5 s", _restart_node_runtime),
}
_PROGRAMS = {
    "API server": "kube-apiserver",
    "controller manager": "kube-controller-manager",
    "scheduler": "kube-scheduler",
    "Argo controller": "workflow-controller",
    "etcd": "etcd",
}
_ON_NODE = ("healthy", "gang")
_ON_MACHINE = ("healthy", "failing", "gang", "failing pair")
_ANY_NODE = ("healthy", "failing", "healthy pair", "failing pair")


def _of_steps() -> Iterator[Fault]:
    for verb, (how, act) in _STEP_VERBS.items():
        for step in _STEPS:
            yield Fault(
                name=f"{verb} {step}",
                how=how,
                phase=f"{step} step",
                act=partial(_on_step, step, act),
                casts=_ANY_NODE if step in {"run", "parse"} else ("healthy", "failing"),
                pause_ms=LONG_RUN_MS if step == "run" else 0,
                sound=step != "run",
            )
    for step in ("parse", "evaluate"):
        yield Fault(
            name=f"out of memory {step}",
            how="its control group is left 256 KiB",
            phase=f"{step} step",
            act=partial(_on_step, step, _out_of_memory),
            sound=True,
        )


def _of_members() -> Iterator[Fault]:
    for verb, (how, act) in _STEP_VERBS.items():
        for role in ("worker", "launcher"):
            yield Fault(
                name=f"{verb} {role}",
                how=how,
                phase="tool runs",
                act=partial(_on_member, role, act),
                casts=("gang",) if role == "launcher" else ("healthy", "failing pair", "gang"),
                pause_ms=LONG_RUN_MS,
            )


def _of_objects() -> Iterator[Fault]:
    for verb, (how, act) in _MAP_VERBS.items():
        for kind, phase in _DOCUMENTS.items():
            yield Fault(
                name=f"{verb} {kind}",
                how=how,
                phase=phase,
                act=partial(_on_document, kind, act),
                casts=_ANY_NODE,
                sound=kind in {"Verdict", "IsolationRound"},
            )
        yield Fault(
            name=f"{verb} ConfigMap of a run",
            how=how,
            phase="tool runs",
            act=partial(_on_group_map, act),
            casts=("gang",),
            pause_ms=LONG_RUN_MS,
        )
    empty = ["--type=merge", "-p", '{"data":null}']
    suspend = ["--type=merge", "-p", '{"spec":{"suspend":true}}']
    stolen = ["--type=merge", "-p", '{"spec":{"holderIdentity":"somebody-else"}}']
    for name, kind, words, cast in (
        ("delete Secret", "secret", ["delete"], "gang"),
        ("damage Secret", "secret", ["patch", *empty], "gang"),
        ("delete Job", "job", ["delete", "--wait=false"], "healthy"),
        ("suspend Job", "job", ["patch", *suspend], "healthy"),
        ("delete Lease", "lease", ["delete"], "healthy"),
        ("damage Lease", "lease", ["patch", *stolen], "healthy"),
    ):
        yield Fault(
            name=name,
            how=f"kubectl {words[0]}",
            phase="tool runs",
            act=partial(_on_object, kind, words),
            casts=(cast,),
            pause_ms=LONG_RUN_MS,
        )


def _of_nodes() -> Iterator[Fault]:
    for name, (how, act) in _NODE_VERBS.items():
        yield Fault(
            name=name,
            how=how,
            phase="tool runs on the node",
            act=partial(_on_node, act),
            casts=_ON_NODE,
            wide=True,
            pause_ms=LONG_RUN_MS,
        )


def _of_machine() -> Iterator[Fault]:
    for name, program in _PROGRAMS.items():
        yield Fault(
            name=f"restart {name}",
            how="SIGKILL, back within 15 s",
            phase="any",
            act=partial(_in_the_middle, partial(_restart, program)),
            casts=_ON_MACHINE,
            wide=True,
            alone=True,
            pause_ms=LONG_RUN_MS,
        )
        if name != "scheduler":
            yield Fault(
                name=f"freeze {name}",
                how="SIGSTOP for 10 to 40 s",
                phase="any",
                act=partial(_in_the_middle, partial(_freeze_program, program)),
                casts=_ON_MACHINE,
                wide=True,
                alone=True,
                pause_ms=LONG_RUN_MS,
            )
    yield Fault(
        name="bad network",
        how="a proxy delays by up to 0.3 s, drops 3 % of chunks, refuses 10 % of connections",
        phase="from the start",
        act=_bad_network,
        casts=_ON_MACHINE,
        wide=True,
        alone=True,
    )


def _of_users() -> Iterator[Fault]:
    for verb in ("stop", "terminate"):
        yield Fault(
            name=verb,
            how=f"argo {verb}",
            phase="any step",
            act=partial(_argo, verb),
            casts=_ANY_NODE,
            pause_ms=LONG_RUN_MS,
            may_lack_report=verb == "terminate",
        )
    for verb in ("retry", "resubmit"):
        yield Fault(
            name=verb,
            how=f"argo stop, then argo {verb}",
            phase="tool runs",
            act=partial(_stop_then, verb),
            pause_ms=LONG_RUN_MS,
            sound=True,
        )
    yield Fault(
        name="quota",
        how="ResourceQuota of pods or GPUs for 20 to 60 s",
        phase="detect, groups or run",
        act=_quota,
        own_namespace=True,
    )
    yield Fault(
        name="missing image",
        how="the image is in no registry",
        phase="run step",
        act=_nothing,
        image=_MISSING_IMAGE,
        codes=frozenset({"INFRA_IMAGE_PULL"}),
    )
    yield Fault(
        name="100 MB of output",
        how="the tool prints them before its table",
        phase="run step",
        act=_nothing,
        casts=("healthy", "failing", "gang"),
        env=(("STANDIN_CHATTER_MB", "100"),),
        sound=True,
    )
    yield Fault(
        name="nothing",
        how="-",
        phase="-",
        act=_nothing,
        casts=("healthy", "failing", "gang", "healthy pair", "failing pair"),
        sound=True,
    )
    yield Fault(
        name="two at once",
        how="two certifications of the same nodes in one pool",
        phase="from the start",
        act=_nothing,
        casts=("healthy", "failing"),
        wide=True,
        shared_nodes=True,
        sound=True,
    )
    yield Fault(
        name="long names",
        how="two workflows whose names share 57 characters",
        phase="from the start",
        act=_nothing,
        casts=("healthy", "failing"),
        wide=True,
        names="acceptance-h100-frankfurt-datacentre-2-room-4-row-3-rack",
        sound=True,
    )


FAULTS = (
    *_of_steps(),
    *_of_members(),
    *_of_objects(),
    *_of_nodes(),
    *_of_machine(),
    *_of_users(),
)
"""Every fault, by the thing that it is done to."""
