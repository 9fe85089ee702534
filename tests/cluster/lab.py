"""The handle of a running lab: what a test can do to its nodes and images."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from tests.cluster import dress, images, node, pki
from tests.cluster.cluster import Cluster
from tests.cluster.config import ARGO_SERVER_PORT, NODE_MONITOR_GRACE_SECONDS
from tests.cluster.rootfs import ensure_python_image
from tests.cluster.shell import LabError, tail
from tests.cluster.state import State, load_state


class Lab(Cluster):
    """A running lab: a cluster whose nodes can be dressed, stopped and healed."""

    def __init__(self) -> None:
        address = f"127.0.0.1:{ARGO_SERVER_PORT}"
        # An empty token is a token: without any, Argo's client wants one from a kubeconfig.
        server = {"ARGO_SERVER": address, "ARGO_SECURE": "false", "ARGO_TOKEN": ""}
        has_server = "argo-server" in self.state.processes
        super().__init__(pki.kubeconfig("admin"), server if has_server else None)

    @property
    def state(self) -> State:
        """The record of the lab, read anew each time since other processes may change it too."""
        state = load_state()
        if state is None:
            raise LabError("the lab is gone")
        return state

    @property
    def node_names(self) -> list[str]:
        """The names of the lab's nodes, also of those that do not run just now."""
        return list(self.state.nodes)

    def load_image(self, tag: str) -> None:
        """Bring an image of the lab's store to every node, unless it is there already."""
        found = images.image_id(tag)
        state = self.state
        lacking = []
        for record in state.nodes.values():
            same = [other for other, image in record.images.items() if image == found]
            if same and tag not in same:
                node.ctr(record.name, "images", "tag", "--force", same[0], tag)
                record.images[tag] = str(found)
            elif not same:
                lacking.append(record)
        if lacking:
            found, path = images.archive(tag)
            with ThreadPoolExecutor() as pool:
                list(pool.map(lambda record: import_archives(record.name, [path]), lacking))
            for record in lacking:
                record.images[tag] = found
        state.save()

    def load_python_image(self) -> str:
        """Bring the base image to every node, made if necessary, and return its name."""
        tag = ensure_python_image()
        self.load_image(tag)
        return tag

    def build_image(
        self,
        context: Path,
        containerfile: Path,
        tag: str,
        *,
        build_args: Mapping[str, str] | None = None,
        target: str | None = None,
    ) -> None:
        """Build an image on the base image, as an engine would, and bring it to every node."""
        ensure_python_image()
        images.build_image(context, containerfile, tag, build_args=build_args, target=target)
        self.load_image(tag)

    def dress_all(self, look: dress.Dress) -> None:
        """Make every node look like one kind of machine, those that do not yet, and be Ready."""
        for record in self.state.nodes.values():
            if not dress.wears(self, record.name, record.index, look):
                self.dress(record.name, look)
        # Whoever used the nodes before may have kept them from their heartbeats.
        self.wait_ready()

    def dress(self, name: str, look: dress.Dress) -> None:
        """Make a node look like another kind of machine."""
        index = self.state.nodes[name].index
        if dress.needs_new_node(self, name, index, look):
            # A provider id can be given, never changed: the node must join anew.
            self.stop_kubelet(name)
            self.kubectl("delete", "node", name)
            self.start_kubelet(name)
        dress.put_on(self, name, index, look)

    def set_resources(self, name: str, resources: Mapping[str, str | None]) -> None:
        """Change single extended resources of a node, for instance to 7 of 8 GPUs."""
        dress.set_resources(self, name, resources)

    def cordon(self, name: str) -> None:
        """Close a node for new pods."""
        self.kubectl("cordon", name)

    def uncordon(self, name: str) -> None:
        """Open a node for new pods."""
        self.kubectl("uncordon", name)

    def stop_kubelet(self, name: str, *, wait: bool = False) -> None:
        """Stop a node's kubelet while its containers run on.

        Args:
            name: the node.
            wait: until the node is not Ready any more.
        """
        node.stop_kubelet(self.state, name)
        if wait:
            self._wait_lost(name)

    def start_kubelet(self, name: str) -> None:
        """Start a node's kubelet and wait until the node is Ready."""
        node.start_kubelet(self.state, name)
        self.wait_node(name)

    def kill_node(self, name: str, *, wait: bool = False) -> None:
        """End kubelet, containerd and all containers of a node at once, like a power failure."""
        node.stop_node(self.state, name)
        if wait:
            self._wait_lost(name)

    def start_node(self, name: str) -> None:
        """Start a killed node again and wait until it is Ready; its images are still there."""
        node.start_node(self.state, name)
        node.wait_containerd(self.state, name)
        self.start_kubelet(name)

    def wait_node(self, name: str) -> None:
        """Wait until a node is Ready; on failure tell its kubelet's last words."""
        node.wait_kubelet(self.state, name)
        log = Path(self.state.processes[f"kubelet-{name}"].log)
        try:
            self.wait_ready(name, timeout=60)
        except LabError as error:
            raise LabError(f"{error}\n{tail(log)}") from None

    def _wait_lost(self, name: str) -> None:
        self.wait_ready(name, ready=False, timeout=NODE_MONITOR_GRACE_SECONDS * 2 + 15)


def import_archives(name: str, archives: Iterable[Path]) -> None:
    """Import image archives into a node's containerd."""
    for path in archives:
        node.ctr(name, "images", "import", path, timeout=180)
    node.drop_unused(name)
