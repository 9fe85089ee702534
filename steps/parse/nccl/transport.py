"""What NCCL INFO lines say about the network: which one carried the traffic, over how many NICs."""

from __future__ import annotations

import re
from collections.abc import Iterable

from steps.documents import Entity, Evidence, Finding
from steps.parse.api import Line, ParseContext
from steps.parse.findings import finding
from steps.parse.nccl.header import read_versions
from steps.parse.secrets import public_env
from steps.parse.sightings import evidence

MAX_HOSTS = 20_000
SHOWN_HOSTS = 64
SOCKET = "Socket"

_ORIGIN = re.compile(
    # a warning has the place in the source, and from 2.29 the function in brackets
    r"(?P<host>[\w.-]{1,253}):\d+:\d+ \[(?P<gpu>\d{1,4})\](?: \S+)?(?: \(\S+\))? "
    r"NCCL [A-Z]+ (?P<message>.*)"
)
_NETWORK = re.compile(r"Using network (?P<name>\S(?:.*\S)?)")
_VIA = re.compile(r"\bvia (?:NET/(?P<net>[^/]+)/|(?P<local>P2P|SHM|COLLNET|NVLS))")
_DEVICES = re.compile(r"NET/(?P<net>[\w ]+?)\s*: Using (?P<devices>\[\d+\]\S+(?:\s+\[\d+\]\S+)*)")
_OFI = re.compile(
    r"NET/OFI Selected provider is (?P<provider>[\w;-]+)(?:.*\(found (?P<count>\d{1,18}) nics?\))?",
    re.I,
)
_PLAIN_PROVIDER = re.compile(r"(?:tcp|udp|sockets|net)\b")
"""Providers of libfabric that are plain sockets again: ``tcp;ofi_rxm``."""
_COMM = re.compile(r"\brank (?P<rank>\d{1,7}) n?ranks (?P<count>\d{1,7})\b")
_ENV = re.compile(r"\b(?P<name>[A-Z][A-Z0-9_]+) set by environment to (?P<value>.*?)\.?$")
_ADDRESS = re.compile(
    r"(?:Bootstrap *: Using \S+?|OOB \S+?):(?P<address>[0-9a-fA-F.:]+?)(?:%\w+)?<\d+>"
)
_DRIVER = re.compile(r"\bcudaDriverVersion (\d{1,18})")
_PLUGIN = re.compile(
    r"\baws-ofi-nccl(?:[ -]v?|: )(\d[\w.-]*)|NET/OFI Using Libfabric version (\S+)"
)

_NVLS = re.compile(r"Connected NVLS tree|NVLS multicast support is available|via NVLS\b")
_NVLS_OFF = re.compile(r"NCCL_NVLS_ENABLE set by environment to 0")
_SHARP = re.compile(
    r"via COLLNET|COLLNET/SHARP|Connected (?:binomial |)CollNet|SHARP coll comm", re.I
)
_GDR_ON = re.compile(r"/GDRDMA\b|GPU Direct RDMA Enabled|GDR enabled|Using GPUDirect RDMA", re.I)
_GDR_OFF = re.compile(r"GPU Direct RDMA Disabled", re.I)

_NOTE_WORDS = re.compile(r"NVLS|SHARP|CollNet|COLLNET|GDR|GPU ?Direct|set by")
_VERSION_WORDS = re.compile(r"ersion|aws-ofi-nccl")

_FABRIC_HINT = re.compile(
    r"NET/OFI Selected provider is efa|NET/(?:IB|gIB|IBext\w*)\s*: Using \[|NCCL_IB_HCA set by|"
    r"FI_PROVIDER set by environment to efa|NET/FasTrak|\brdmap\d|\bmlx5_\d",
    re.I,
)


class Transport:
    """Collects from INFO lines what matters about the network."""

    def __init__(self, file: str) -> None:
        self.file = file
        self.hosts: dict[str, None] = {}
        self.addresses: dict[str, str] = {}
        self.rank_hosts: dict[int, tuple[str, int]] = {}
        self.rank_count: int | None = None
        self.versions: dict[str, str] = {}
        self.facts: dict[str, str] = {}
        self._library_versions: dict[str, Evidence] = {}
        self._networks: dict[str, dict[str, Evidence]] = {}
        self._via: dict[str, None] = {}
        self._nics: dict[str, tuple[int, Evidence]] = {}
        self._plain: set[str] = set()
        self._hint: Evidence | None = None
        self._notes: dict[str, Evidence] = {}
        self._gdr: bool | None = None
        self._nvls_off = False

    def feed(self, line: Line) -> str | None:
        """Take a line that holds ``NCCL INFO`` or ``NCCL VERSION``; return its host."""
        origin = _ORIGIN.search(line.text)
        host = origin["host"] if origin else line.host
        message = origin["message"] if origin else line.text
        if host and host not in self.hosts and len(self.hosts) < MAX_HOSTS:
            self.hosts[host] = None
        # plain "in" first: most lines have none of these words, and there can be very many
        if " via " in message:
            self._channel(message, host, line)
            return host
        if "NET/" in message or "Using " in message:
            self._network(message, host, line)
        if "ranks " in message and origin and len(self.rank_hosts) < MAX_HOSTS:
            comm = _COMM.search(message)
            if comm:
                place = origin["host"], int(origin["gpu"])
                self.rank_hosts.setdefault(int(comm["rank"]), place)
                # communicators that are split off have fewer
                self.rank_count = max(self.rank_count or 0, int(comm["count"]))
        if ("Bootstrap" in message or "OOB" in message) and host:
            found = _ADDRESS.search(message)
            if found:
                self.addresses.setdefault(found["address"], host)
        if _NOTE_WORDS.search(message):
            self._note(message, line)
        if _VERSION_WORDS.search(message):
            self.library(message, line)
        return host

    def library(self, text: str, line: Line) -> None:
        """Take the versions that a line names."""
        for name, version in read_versions(text).items():
            self.versions.setdefault(name, version)
            if name in {"nccl", "rccl"} and len(self._library_versions) < SHOWN_HOSTS:
                self._library_versions.setdefault(
                    version.partition("+")[0].rstrip("."), evidence(self.file, line)
                )
        if found := _DRIVER.search(text):
            code = int(found[1])
            self.versions.setdefault("cuda-driver", f"{code // 1000}.{code % 1000 // 10}")
        if found := _PLUGIN.search(text):
            name = "aws-ofi-nccl" if found[1] else "libfabric"
            self.versions.setdefault(name, found[1] or found[2])

    def _network(self, message: str, host: str | None, line: Line) -> None:
        if found := _NETWORK.search(message):
            self._uses(found["name"], host, line)
        if (found := _DEVICES.search(message)) and found["net"] != SOCKET:
            names = re.findall(r"\[\d+\]([^\s:]+)", found["devices"])
            self._has_nics(host, len({one for name in names for one in name.split("+")}), line)
        elif found := _OFI.search(message):
            self.facts.setdefault("provider", found["provider"])
            if _PLAIN_PROVIDER.match(found["provider"]) and len(self._plain) < MAX_HOSTS:
                self._plain.add(host or "")
                self._uses(SOCKET, host, line)
            if found["count"]:
                self._has_nics(host, int(found["count"]), line)
        if self._hint is None and _FABRIC_HINT.search(message):
            self._hint = evidence(self.file, line)

    def _channel(self, message: str, host: str | None, line: Line) -> None:
        found = _VIA.search(message)
        if not found:
            return
        self._via[found["net"] or found["local"]] = None
        if found["net"]:
            self._uses(found["net"], host, line)
            self._gdr = bool(self._gdr) or "/GDRDMA" in message
        else:
            self._note(message, line)

    def _uses(self, name: str, host: str | None, line: Line) -> None:
        if "Libfabric" in name and (host or "") in self._plain:
            name = SOCKET
        hosts = self._networks.setdefault(name, {}) if len(self._networks) < SHOWN_HOSTS else {}
        if (host or "") not in hosts and len(hosts) < MAX_HOSTS:
            hosts[host or ""] = evidence(self.file, line)

    def _has_nics(self, host: str | None, count: int, line: Line) -> None:
        known = self._nics.get(host or "")
        if known is None or count < known[0]:
            self._nics[host or ""] = (count, evidence(self.file, line))

    def _note(self, message: str, line: Line) -> None:
        if _NVLS.search(message):
            self._notes.setdefault("NCCL_NVLS_IN_USE", evidence(self.file, line))
        if _NVLS_OFF.search(message):
            self._nvls_off = True
        if _SHARP.search(message):
            self._notes.setdefault("NCCL_SHARP_IN_USE", evidence(self.file, line))
        if _GDR_ON.search(message):
            self._gdr = True
        elif _GDR_OFF.search(message) and self._gdr is None:
            self._gdr = False
        if found := _ENV.search(message):
            value = public_env(found["name"], found["value"])
            if value is not None:
                self.facts.setdefault(f"env.{found['name']}", value)

    def summary(self) -> dict[str, str]:
        """Return transport, NICs per node, GPUDirect and settings as facts."""
        facts = dict(self.facts)
        if self._networks:
            facts["transport"] = ", ".join(sorted(self._networks))
        if self._nics:
            counts = sorted({count for count, _ in self._nics.values()})
            facts["nicsPerNode"] = ", ".join(map(str, counts))
        if self._gdr is not None:
            facts["gpuDirectRdma"] = "yes" if self._gdr else "no"
        if self._via:
            facts["channelsVia"] = ", ".join(sorted(self._via))
        return facts

    def fabric_hosts(self, context: ParseContext) -> int | None:
        """Return how many hosts show the network of the platform; None if none names any.

        Where the platform is not known, any network but plain sockets counts.
        """
        wanted = context.hardware.transport
        if not self._networks:
            return None
        return len(
            {
                host
                for used, hosts in self._networks.items()
                if (any(_same(used, name) for name in wanted) if wanted else used != SOCKET)
                for host in hosts
            }
        )

    def findings(self, context: ParseContext, header_nodes: Iterable[str]) -> list[Finding]:
        """Compare the network with what the platform should have."""
        found = [*self._fallback(context, set(header_nodes)), *self._nic_missing(context)]
        for code, proof in self._notes.items():
            if code == "NCCL_NVLS_IN_USE" and self._nvls_off:
                continue
            name = "NVLink SHARP" if code == "NCCL_NVLS_IN_USE" else "SHARP"
            found.append(
                finding(
                    code, f"{name} was in use; bus bandwidth can exceed the wire", proof=[proof]
                )
            )
        if len(self._library_versions) > 1:
            versions = ", ".join(sorted(self._library_versions))
            found.append(
                finding(
                    "VERSIONS_DIFFER",
                    f"the output names several NCCL versions: {versions}",
                    proof=self._library_versions.values(),
                )
            )
        return found

    def _fallback(self, context: ParseContext, header_nodes: set[str]) -> list[Finding]:
        spans_nodes = max(len(header_nodes), len(self.hosts), len(context.nodes)) > 1
        used, expected = self._networks, context.hardware.transport
        if not spans_nodes or not used:
            return []
        if SOCKET in used:
            proof = list(used[SOCKET].values())
            if any(_same(SOCKET, name) for name in expected):
                return []
            known = bool(expected or self._hint)
            instead = f" instead of {', '.join(expected)}" if expected else ""
            message = f"traffic between nodes ran over plain sockets{instead}"
            if not known:
                message += "; the output does not tell whether the nodes have a fabric"
            elif self._hint and not expected:
                proof.append(self._hint)
                message += " although a fabric is there"
            # not every rank logs; where no other network is named, all nodes spoke over sockets
            nodes = dict.fromkeys(
                [*used[SOCKET], *(sorted(header_nodes) if len(used) == 1 else ())]
            )
            return [
                finding(
                    "NCCL_TRANSPORT_FALLBACK",
                    message,
                    variant=None if known else "fabric-unknown",
                    entities=_nodes(nodes),
                    proof=proof,
                    count=len(used[SOCKET]),
                )
            ]
        others = {
            name: hosts
            for name, hosts in used.items()
            if expected and not any(_same(name, wanted) for wanted in expected)
        }
        return [
            finding(
                "NCCL_TRANSPORT_FALLBACK",
                f"traffic ran over {name}, the platform's network is {', '.join(expected)}",
                variant="other-network",
                entities=_nodes(hosts),
                proof=hosts.values(),
                count=len(hosts),
            )
            for name, hosts in others.items()
        ]

    def _nic_missing(self, context: ParseContext) -> list[Finding]:
        wanted = context.hardware.nics_per_node
        if not wanted:
            return []
        short = {host: seen for host, seen in self._nics.items() if seen[0] < wanted}
        if not short:
            return []
        counts = ", ".join(sorted({str(count) for count, _ in short.values()}))
        return [
            finding(
                "NIC_MISSING",
                f"NCCL found {counts} network devices, the profile has {wanted}",
                entities=_nodes(short),
                proof=[proof for _, proof in short.values()],
                count=len(short),
            )
        ]


def _nodes(hosts: Iterable[str]) -> list[Entity]:
    return [Entity(node=host) for host in list(hosts)[:SHOWN_HOSTS] if host]


def _same(used: str, expected: str) -> bool:
    """Whether two names mean one network: IBext_v8 is IB, Libfabric is AWS Libfabric."""
    one, other = used.lower(), expected.lower()
    return (
        one.startswith(other)
        or other.startswith(one)
        or one in other.split()
        or other in one.split()
    )


def is_logged(text: str) -> bool:
    """Whether NCCL logged the line, with host, process and device; the words alone prove little."""
    return _ORIGIN.search(text) is not None


def origin(text: str) -> tuple[str | None, int | None, str]:
    """Return host, GPU and message of a line that NCCL logged."""
    found = _ORIGIN.search(text)
    if not found:
        return None, None, text
    return found["host"], int(found["gpu"]), found["message"]
