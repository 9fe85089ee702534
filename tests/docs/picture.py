"""The picture of a report in the README: ``python -m tests.docs.picture`` writes it.

It is drawn from the report that the README's first command prints, so that it shows what a reader
will see. A test compares it with what would be drawn today.
"""

from __future__ import annotations

import sys
from html import escape
from pathlib import Path
from tempfile import TemporaryDirectory

from catalog.certification import load_certification
from pipelines.local import certify
from steps.fleets.fleet import load_fleet
from steps.report.text import render_text
from steps.store.store import DirectoryStore
from tests.docs.pages import ROOT

FILE = ROOT / "docs" / "report.svg"

LEFT_OUT = "    … the runs of each category, every bar with its numbers …"
COLOURS = {"FAIL": "#c4162a", "gpu-node-07": "#c4162a", "gpu-node-12": "#c4162a", "SIM": "#8a6100"}
"""By how a line begins; others are black, headings bold."""
LINE_HEIGHT, CHARACTER_WIDTH, MARGIN, WIDTH = 17, 7.8, 16, 100


def report() -> str:
    """Return the report of the README's first command."""
    examples = ROOT / "examples"
    certification, source = load_certification(examples / "certification.yaml")
    fleet = load_fleet(examples / "fleet.yaml")
    with TemporaryDirectory() as folder:
        found = certify(certification, fleet, DirectoryStore(Path(folder)), text=source)
    return render_text(found, width=WIDTH)


def shown(text: str) -> list[str]:
    """Return the lines of a report that the picture has room for: all but those of categories."""
    lines = text.rstrip().splitlines()
    headings = [number for number, line in enumerate(lines) if line.startswith("── ")]
    categories = [number for number in headings if "/" in lines[number].partition(":")[0]]
    after = next(number for number in headings if number > categories[-1])
    return [*lines[: categories[0] + 1], LEFT_OUT, "", *lines[after:]]


def draw(lines: list[str]) -> str:
    """Return the lines as an SVG."""
    width = int(WIDTH * CHARACTER_WIDTH + 2 * MARGIN)
    height = len(lines) * LINE_HEIGHT + 2 * MARGIN
    rows = []
    for number, line in enumerate(lines):
        fill = next((c for start, c in COLOURS.items() if line.startswith(start)), "#1f2328")
        weight = ' font-weight="bold"' if line.startswith(("── ", "FAIL", "gpu-node-")) else ""
        y = MARGIN + (number + 0.75) * LINE_HEIGHT
        # Browsers collapse blanks in SVG text, whatever the style of the picture says.
        text = escape(line).replace(" ", "&#160;")
        rows.append(f'<text x="{MARGIN}" y="{y:g}" fill="{fill}"{weight}>{text}</text>')
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" font-size="13" '
        'font-family="ui-monospace, Menlo, Consolas, monospace">\n'
        "<title>A report of readiness in the terminal</title>\n"
        f'<rect width="{width}" height="{height}" rx="6" fill="#ffffff" stroke="#d0d7de"/>\n'
        + "\n".join(rows)
        + "\n</svg>\n"
    )


if __name__ == "__main__":
    FILE.write_text(draw(shown(report())), encoding="utf-8")
    sys.stdout.write(f"{FILE}\n")
