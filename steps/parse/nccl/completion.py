"""Work requests that failed on the network: 'Got completion from peer …', old and new wording."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import NamedTuple

from steps.documents import Entity, Finding
from steps.parse.api import Line
from steps.parse.findings import finding
from steps.parse.sightings import Tally

MAX_FINDINGS = 64

# with error 4, opcode … | with status=12 opcode=… | with status=IBV_WC_RETRY_EXC_ERR(12) …;
# NCCL before 2.7 does not name the peer
_COMPLETION = re.compile(
    r"Got completion (?:from peer (?P<peer>\S{1,200}?)?(?:<\d+>)? )?with (?:error |status=)"
    r"(?:\w+\()?(?P<status>\d{1,18})\)?"
)
_VENDOR = re.compile(r"vendor[ _]err[ =](\d{1,18})")
_HCA = re.compile(r"\bhca (\S+)")
_OFI = re.compile(r"NET/OFI .{0,200}?completed with error\D{0,40}?RC: ?(?P<status>\d{1,18})")

# enum ibv_wc_status
_STATUS = {
    1: "local length error",
    2: "local QP operation error",
    4: "local protection error",
    5: "flushed because of an earlier error",
    6: "memory window bind error",
    7: "bad response",
    8: "local access error",
    9: "remote refused the request",
    10: "remote access error",
    11: "remote operation error",
    12: "the peer did not answer, retries exhausted",
    13: "the peer had no buffer, retries exhausted",
    21: "fatal device error",
}


class _Pair(NamedTuple):
    reporter: Entity
    peer: str | None
    status: int
    vendor: str | None
    efa: bool


class CompletionErrors:
    """Collects failed work requests by reporter and peer."""

    def __init__(self, file: str) -> None:
        self._pairs: Tally[_Pair] = Tally(file)

    @property
    def seen(self) -> int:
        """Number of different errors."""
        return len(self._pairs)

    def feed(self, line: Line, message: str, place: Entity) -> bool:
        """Take a message; return whether it is such an error."""
        found = _COMPLETION.search(message)
        efa = None if found else _OFI.search(message)
        match = found or efa
        if not match:
            return False
        vendor, hca = _VENDOR.search(message), _HCA.search(message)
        reporter = place.model_copy(update={"device": hca[1] if hca else None})
        pair = _Pair(
            reporter=reporter,
            peer=found["peer"] if found else None,
            status=int(match["status"]),
            vendor=vendor[1] if vendor else None,
            efa=efa is not None,
        )
        self._pairs.add(pair, line, reporter)
        return True

    def findings(self, addresses: Mapping[str, str]) -> list[Finding]:
        """Return one finding for each pair of reporter and peer.

        Args:
            addresses: host by address, as far as the output tells.
        """
        found: list[Finding] = []
        for pair, seen in list(self._pairs.items())[:MAX_FINDINGS]:
            peer = _peer(pair.peer, addresses)
            code = "error" if pair.efa else "status"
            meaning = "" if pair.efa else _STATUS.get(pair.status, "")
            details = f"{code} {pair.status}"
            if meaning:
                details += f" ({meaning})"
            if pair.vendor:
                details += f", vendor error {pair.vendor}"
            towards = f" towards {peer}" if peer and str(peer) else ""
            found.append(
                finding(
                    "NCCL_IB_COMPLETION_ERROR",
                    f"{pair.reporter or 'a rank'}: network request{towards} failed, {details}",
                    entities=[end for end in (pair.reporter, peer) if end and str(end)],
                    proof=seen.evidence,
                    count=seen.count,
                    witness=True,
                )
            )
        return found


def _peer(address: str | None, addresses: Mapping[str, str]) -> Entity | None:
    if not address:
        return None
    bare = address.partition("%")[0]
    host = addresses.get(bare)
    return Entity(node=host, device=None if host else f"peer {bare}")
