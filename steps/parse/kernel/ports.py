"""Network ports that lose their link, counted per port with first and last time."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import NamedTuple

from steps.documents import Entity, Finding
from steps.parse.api import Line, ParseContext
from steps.parse.findings import finding
from steps.parse.kernel.prefix import Bare, Origin
from steps.parse.sightings import MAX_KEYS, Seen, node_of

_DEVICE = r"(?P<dev>[A-Za-z][\w.@-]{0,31})"


class Change(NamedTuple):
    """One way to say that a link goes or comes; several loggers tell of the same change.

    Attributes:
        pattern: ``dev`` names the port, ``what`` what happened to it.
        down: a line of a link that goes.
        up: a line of a link that comes; None where the logger does not tell of it.
    """

    pattern: re.Pattern[str]
    down: str | None
    up: str | None


CHANGES = (
    Change(
        re.compile(rf"^{_DEVICE}: (?P<what>lost|gained) carrier\b", re.I),
        "ib0: Lost carrier",
        "ib0: Gained carrier",
    ),
    Change(
        re.compile(rf"\b{_DEVICE}: (?:Port:? ?\d+ )?Link (?:is )?(?P<what>down|up|active)\b", re.I),
        "mlx5_core 0000:1a:00.0 ib0: Link down",
        "ib0: Link ACTIVE",
    ),
    Change(
        re.compile(rf"\b{_DEVICE}:? NIC Link is (?P<what>down|up)\b", re.I),
        "bnxt_en 0000:3b:00.0 ib1 NIC Link is Down",
        "bnxt_en 0000:3b:00.0 ib1 NIC Link is Up, 100000 Mbps full duplex",
    ),
    Change(
        re.compile(rf"\b{_DEVICE}:? Port:? ?\d+ Link (?P<what>down|up|active)\b", re.I),
        "infiniband mlx5_3 Port: 1 Link DOWN",
        "infiniband mlx5_3 Port: 1 Link ACTIVE",
    ),
    Change(
        re.compile(rf"\b{_DEVICE}: link (?P<what>becomes ready)\b", re.I),
        None,
        "IPv6: ADDRCONF(NETDEV_CHANGE): ib0: link becomes ready",
    ),
    Change(
        re.compile(
            rf"\(slave {_DEVICE}\): link status (?:definitely |now )?(?P<what>down|up)\b", re.I
        ),
        "bond0: (slave ib0): link status definitely down, disabling slave",
        "bond0: (slave ib0): link status definitely up, 200000 Mbps full duplex",
    ),
    Change(
        re.compile(
            rf"\bdevice \({_DEVICE}\): carrier: link (?P<what>disconnected|connected)\b", re.I
        ),
        "device (ib0): carrier: link disconnected",
        "device (ib0): carrier: link connected",
    ),
    Change(
        re.compile(rf"\({_DEVICE}\): carrier is (?P<what>off|on)\b", re.I),
        "NetworkManager: (ib0): carrier is OFF",
        "NetworkManager: (ib0): carrier is ON (should be an existing connection)",
    ),
    Change(
        re.compile(
            r"\b(?P<dev>mlx5_core [0-9A-Fa-f:.]{7,16}): Port module event: module \d+, Cable "
            r"(?P<what>unplugged|plugged)"
        ),
        "mlx5_core 0000:1a:00.0: Port module event: module 0, Cable unplugged",
        "mlx5_core 0000:1a:00.0: Port module event: module 0, Cable plugged",
    ),
)
WANTS = tuple(change.pattern for change in CHANGES)
_DOWN = {"lost", "down", "disconnected", "off", "unplugged"}
# Ends of virtual cables come and go with every pod; disks, USB and PCIe slots are no ports.
_NOT_A_PORT = re.compile(
    r"(?:veth|cali|docker|cni|lxc|br-|virbr|flannel|vxlan|tun|tap|cilium|dummy|nodelocaldns|"
    r"kube|eni|gre|ipip|wg|lo$|sata|ata|usb|scsi|slot|pciehp|nvlink|nvidia)",
    re.I,
)
_FABRIC = re.compile(r"(?:ib|mlx|roce|rdma|rdmap|efa|hsn|irdma|bnxt)", re.I)


@dataclass(slots=True)
class _Port:
    """What happened to one port; ``downs`` by the pattern that told, since several loggers tell."""

    seen: Seen = field(default_factory=Seen)
    downs: dict[int, int] = field(default_factory=dict)
    ups: int = 0
    is_up: bool = True
    first: str | None = None
    last: str | None = None


class PortReader:
    """Collects link changes.

    Args:
        file: name of the output, for the evidence.
    """

    def __init__(self, file: str) -> None:
        self._file = file
        self._ports: dict[tuple[Origin, str], _Port] = {}

    def feed(self, line: Line, bare: Bare) -> bool:
        """Take a line; False when it is no link change of a real port."""
        for kind, change in enumerate(CHANGES):
            match = change.pattern.search(bare.text)
            if match and not _NOT_A_PORT.match(match["dev"]):
                if len(self._ports) < MAX_KEYS:
                    self._add(line, bare, kind, match["dev"], match["what"].lower())
                return True
        return False

    def _add(self, line: Line, bare: Bare, kind: int, device: str, what: str) -> None:
        port = self._ports.setdefault((bare.origin, device), _Port())
        if what in _DOWN:
            port.is_up = False
            port.downs[kind] = port.downs.get(kind, 0) + 1
            port.seen.add(self._file, line)
            port.first = port.first or bare.time
            port.last = bare.time or port.last
        else:
            port.is_up = True
            port.ups += 1

    def findings(self, context: ParseContext) -> list[Finding]:
        """Return one finding per port that lost its link."""
        return [
            _finding(origin, device, port, context)
            for (origin, device), port in self._ports.items()
            if port.downs
        ]


def _finding(origin: Origin, device: str, port: _Port, context: ParseContext) -> Finding:
    count = max(port.downs.values())
    # Who loses a link repeatedly had it in between, also when the log does not tell of the return.
    came_back = port.is_up or (port.ups == 0 and count > 1)
    if came_back:
        code, variant, what = "IB_LINK_FLAP", None, "lost its link and came back"
    else:
        variant = None if _FABRIC.match(device) else "other-port"
        code, what = "IB_LINK_DOWN", "lost its link and is not seen to come back"
    times = f"{count} time{'s' if count > 1 else ''}"
    when = f", {port.first} to {port.last}" if port.first and port.last else ""
    return finding(
        code,
        f"port {device} {what}: {times}{when}",
        variant=variant,
        entities=(
            Entity(
                node=node_of(origin.host, origin.rank, context), rank=origin.rank, device=device
            ),
        ),
        proof=port.seen.evidence,
        count=count,
    )
