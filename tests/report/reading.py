"""Reading renderings back: which node stands in which section."""

from __future__ import annotations

import re
from html.parser import HTMLParser

from steps.documents import NodeStatus

_HEADINGS = {
    "Failed": NodeStatus.FAILED,
    "Not proven": NodeStatus.NOT_PROVEN,
    "Ready": NodeStatus.READY,
    "Excluded": NodeStatus.EXCLUDED,
}


def unfold(text: str) -> list[str]:
    """Undo `fold_names`."""
    names = []
    for part in re.findall(r"[^,\[]*(?:\[[^\]]*\])?[^,\[]*", text):
        match = re.fullmatch(r"\s*(.*)\[([0-9,-]+)\](.*)", part)
        if match is None:
            names += [part.strip()] if part.strip() else []
            continue
        for piece in filter(None, match[2].split(",")):
            low, _, high = piece.partition("-")
            for number in range(int(low), int(high or low) + 1):
                names.append(f"{match[1]}{number:0{len(low)}}{match[3]}")
    return names


def text_sections(text: str) -> dict[NodeStatus, list[str]]:
    """Return the nodes that each status section of a text report names."""
    found: dict[NodeStatus, list[str]] = {}
    heads: dict[NodeStatus, list[str]] = {}
    status = None
    for line in text.splitlines():
        if line.startswith("── "):
            status = _HEADINGS.get(line[3:].partition(":")[0])
        elif not line:
            status = None
        elif status and not line.startswith((" ", "next:")):
            heads.setdefault(status, []).append(line.partition("  ")[0])
    for status, lines in heads.items():
        found[status] = unfold(",".join(lines).replace(",,", ","))
    return found


class Page(HTMLParser):
    """A parsed report: nodes by section, ids, links, and whatever must not be there."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.nodes: dict[str, list[str]] = {}
        self.ids: list[str] = []
        self.links: list[str] = []
        self.tags: set[str] = set()
        self.attributes: list[tuple[str, str | None]] = []
        self.text = ""
        self._status: str | None = None
        self._in_style = False
        self.feed(html)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        known = dict(attrs)
        self.tags.add(tag)
        self.attributes += attrs
        self._in_style = tag == "style"
        if tag == "section":
            self._status = known.get("data-status")
        if "data-node" in known:
            self.nodes.setdefault(str(self._status), []).append(str(known["data-node"]))
        if known.get("id"):
            self.ids.append(str(known["id"]))
        if "href" in known:
            self.links.append(str(known["href"]))

    def handle_endtag(self, tag: str) -> None:
        self._in_style = False

    def handle_data(self, data: str) -> None:
        if not self._in_style:
            self.text += data
