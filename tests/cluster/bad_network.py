"""A proxy between pods and the API server that delays what passes and drops connections."""

from __future__ import annotations

import random
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path

from tests.cluster.config import API_PORT, BRIDGE, BRIDGE_IP, KUBERNETES_SERVICE_IP
from tests.cluster.packages import program
from tests.cluster.shell import run

_CHUNK = 65536


class BadNetwork:
    """Forwards connections badly.

    Args:
        seed: of what is delayed and dropped.
        delay_seconds: longest delay of a chunk.
        drop: chance that a chunk ends its connection instead.
        refuse: chance that a connection is closed at once.
    """

    def __init__(
        self, seed: int, *, delay_seconds: float = 0.3, drop: float = 0.03, refuse: float = 0.1
    ) -> None:
        self._random = random.Random(seed)
        self._delay, self._drop, self._refuse = delay_seconds, drop, refuse
        self._server = socket.create_server((BRIDGE_IP, 0))
        self._over = threading.Event()
        self.dropped = 0

    @property
    def port(self) -> int:
        """Where it listens, on the bridge."""
        return int(self._server.getsockname()[1])

    def serve(self) -> None:
        """Take connections until `close`."""
        while not self._over.is_set():
            try:
                link, _ = self._server.accept()
            except OSError:
                return
            threading.Thread(target=self._forward, args=[link], daemon=True).start()

    def close(self) -> None:
        """Take no more connections; those that are open go on without trouble."""
        self._over.set()
        with suppress(OSError):
            self._server.shutdown(socket.SHUT_RDWR)
        self._server.close()

    def _forward(self, link: socket.socket) -> None:
        with suppress(OSError), closing(link):
            if self._random.random() < self._refuse:
                self.dropped += 1
                return
            with socket.create_connection((BRIDGE_IP, API_PORT)) as far:
                back = threading.Thread(target=self._pump, args=[far, link], daemon=True)
                back.start()
                self._pump(link, far)
                back.join()

    def _pump(self, source: socket.socket, target: socket.socket) -> None:
        with suppress(OSError):
            while data := source.recv(_CHUNK):
                if not self._over.is_set():
                    time.sleep(self._random.random() * self._delay)
                    if self._random.random() < self._drop:
                        self.dropped += 1
                        break
                target.sendall(data)
        for end in (source, target):
            with suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)


@contextmanager
def bad_network(seed: int) -> Iterator[BadNetwork]:
    """Lead every new connection of a pod to the API server through the proxy, in a `with` block."""
    proxy = BadNetwork(seed)
    threading.Thread(target=proxy.serve, daemon=True).start()
    rule: list[str | Path] = [
        "PREROUTING",
        "-i",
        BRIDGE,
        "-d",
        f"{KUBERNETES_SERVICE_IP}/32",
        "-p",
        "tcp",
    ]
    rule += ["--dport", "443", "-m", "comment", "--comment", "readiness-lab"]
    rule += ["-j", "DNAT", "--to-destination", f"{BRIDGE_IP}:{proxy.port}"]
    command: list[str | Path] = [program("iptables"), "-w", "10", "-t", "nat"]
    run([*command, "-I", *rule])
    try:
        yield proxy
    finally:
        run([*command, "-D", *rule])
        proxy.close()
