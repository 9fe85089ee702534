"""Reads what a launcher says when a run does not start or does not end well."""

from __future__ import annotations

import re

from catalog.facts.reasons import Effect, reason
from catalog.facts.tools import TOOLS, output_kind
from steps.documents import Completeness, Entity, Finding
from steps.parse.api import Line, ParseContext, Part
from steps.parse.findings import eased, finding
from steps.parse.launcher.rules import HARMLESS, TABLE
from steps.parse.sightings import Seen, Tally, node_of, node_of_rank
from steps.parse.wordings import find, who

# mpirun's closing words spread over lines: "Process name: [[5461,1],3]" and "Exit code:    1".
# Those of MPICH and Intel MPI (hydra): "=   RANK 3 PID 71 RUNNING AT node-b", "=   EXIT CODE: 139".
_FIRST_EXIT = re.compile(r"first process to do so was|BAD TERMINATION OF ONE OF YOUR APPL", re.I)
_PROCESS_NAME = re.compile(
    r"^\s*Process name: \[\[?[^\]]*\],\s*(?P<rank>\d{1,7})\]"
    r"|^\s*=\s+(?:RANK (?P<hydra>\d{1,7}) )?PID \d+ RUNNING AT (?P<node>\S+)",
    re.I,
)
_EXIT_CODE = re.compile(
    r"^\s*(?:=\s+)?Exit code:\s+(?P<code>-?\d{1,9})\s*$"
    r"|^\s*=\s+KILLED BY SIGNAL: (?P<signal>\d{1,3}(?: \([^)]+\))?)",
    re.I,
)
_SIGNAL_CODES = range(129, 160)
"""Exit codes of a process that a signal ended."""
_SIGNALLED = re.compile(
    r"noticed that process rank (?P<rank>\d{1,7})(?: with PID \d+)?(?: on node (?P<node>\S+))?"
    r".{0,40} exited on signal (?P<signal>\d+)(?: \((?P<name>[^)]+)\))?",
    re.I,
)
_SIGNALS = (
    r"Killed|Segmentation fault|Aborted|Bus error|Illegal instruction|Floating point exception"
)
# A shell ("run.sh: line 12: 4242 Killed   python x.py"), Open MPI's handler, UCX, Python.
_DIED = re.compile(
    r"^\s*(?:[\w./-]+: (?:line )?\d+: +)?(?:\[\d+\][+-]? +)?(?:\d+ )?"
    rf"(?P<shell>{_SIGNALS})(?=\s*$|\s*\(core dumped\)|\s{{2,}}\S)"
    r"|\] Signal: (?P<mpi>[A-Z][\w ]{2,40}) \(\d+\)"
    r"|\bCaught signal \d+ \((?P<ucx>[A-Z][\w ]{2,40})"
    rf"|^Fatal Python error: (?P<python>{_SIGNALS})"
)
_SRUN = re.compile(
    r"srun: error: (?P<node>[\w.-]+): tasks? (?P<ranks>[\d,-]+): "
    r"(?P<how>Exited with exit code (?P<code>\d{1,9})|[A-Z][\w ()]+)"
)
_BOX = 6
"""Lines of mpirun's closing box."""

MAX_LINE = 8192
"""Characters of a line that are read; no format has longer lines."""


class LauncherScanner:
    """Scanner of launcher lines; see `steps.parse.api.Scanner`.

    Machines that are named are places, not culprits: launch failures blame no node. The first
    cause wins; what follows from it carries its code as ``cause``.

    Args:
        file: name of the output, for the evidence.
    """

    wants: tuple[re.Pattern[str], ...] = (
        *(row.pattern for row in TABLE),
        HARMLESS,
        _FIRST_EXIT,
        _PROCESS_NAME,
        _EXIT_CODE,
        _SIGNALLED,
        _DIED,
        _SRUN,
    )

    def __init__(self, file: str) -> None:
        self._file = file
        self._tally: Tally[str] = Tally(file)
        self._claimed = 0
        self._box: Line | None = None
        self._exit = Seen()
        self._rank: int | None = None
        self._node: str | None = None
        self._how: str | None = None
        self._code: int | None = None
        self._killed = False

    def feed(self, line: Line) -> None:
        """Take one line."""
        if len(line.text) > MAX_LINE:
            line = line._replace(text=line.text[:MAX_LINE])
        if HARMLESS.search(line.text) or self._read_exit(line):
            self._claimed += 1
            return
        if found := find(TABLE, line.text):
            row, match = found
            self._claimed += 1
            self._tally.add(row.code, line, who(row, match, line), detail=row.detail)

    def finish(self, context: ParseContext) -> Part:
        """Return the failures, first cause first; ABORTED when one of them ended the run."""
        part = Part(mode=output_kind("launcher-log"), claimed=self._claimed)
        codes = [code for code, _ in self._tally.items()]
        ended = self._exit_code(context) if self._exit.count else None
        found = []
        for code, seen in self._tally.items():
            cause = _cause(code, codes)
            if code == "INFRA_STOPPED" and self._exit.first < seen.first:
                cause = ended  # Slurm stops the others when one process has ended badly
            found.append(self._finding(code, seen, cause, context))
        if ended:
            primary = next((f.code for f in found if f.cause is None), None)
            found.append(self._exit_finding(ended, primary, context))
            first = Entity(node=self._node, rank=self._rank)
            part.facts = {"firstExit": f"{first} {self._how}".strip()}
            if self._code is not None:
                part.facts["exitCode"] = str(self._code)
        part.findings = sorted(found, key=lambda f: f.cause is not None)
        if any(f.effect is Effect.INCONCLUSIVE for f in part.findings):
            part.completeness = Completeness.ABORTED
        return part

    def _read_exit(self, line: Line) -> bool:
        text = line.text
        if _FIRST_EXIT.search(text):
            self._box = line
            self._exit.companion(self._file, line)
            return True
        in_box = self._box is not None and line.number - self._box.number <= _BOX
        if in_box and (match := _PROCESS_NAME.match(text)):
            if not self._exit.count:
                rank = match["rank"] or match["hydra"]
                self._rank, self._node = int(rank) if rank else None, match["node"]
            self._exit.companion(self._file, line)
            return True
        if in_box and (match := _EXIT_CODE.match(text)):
            code = int(match["code"]) if match["code"] else None
            how = f"signal {match['signal']}" if code is None else f"exit code {code}"
            killed = code is None or code in _SIGNAL_CODES
            self._note_exit(line, self._rank, self._node, how, killed=killed)
            self._code = self._code if self._code is not None else code
            return True
        return self._read_death(line)

    def _read_death(self, line: Line) -> bool:
        text = line.text
        if match := _SIGNALLED.search(text):
            how = f"signal {match['signal']}" + (f" ({match['name']})" if match["name"] else "")
            self._note_exit(line, int(match["rank"]), match["node"], how, killed=True)
            return True
        if match := _DIED.search(text):
            how = next(filter(None, match.groups())).strip().lower()
            self._note_exit(line, line.rank, line.host, how, killed=True)
            return True
        if match := _SRUN.search(text):
            # An out-of-memory kill among tasks has its own code.
            if "memory" in match["how"].lower():
                return False
            how, rank = match["how"].strip().lower(), _only_rank(match["ranks"])
            self._note_exit(line, rank, match["node"], how, killed=not match["code"])
            if match["code"] and self._code is None:
                self._code = int(match["code"])
            return True
        return False

    def _note_exit(
        self, line: Line, rank: int | None, node: str | None, how: str, *, killed: bool = False
    ) -> None:
        if not self._exit.count:
            self._rank, self._node, self._how, self._killed = rank, node, how, killed
        self._exit.add(self._file, line)

    def _finding(self, code: str, seen: Seen, cause: str | None, context: ParseContext) -> Finding:
        entities = [
            entity
            if entity.node
            else entity.model_copy(update={"node": node_of(None, entity.rank, context)})
            for entity in seen.entities
        ]
        places = ", ".join(dict.fromkeys(e.node for e in entities if e.node))
        where = f" ({places})" if places else ""
        texts = [proof.text.strip() for proof in seen.evidence]
        says = next((t for t in texts if any(e.node and e.node in t for e in entities)), texts[0])
        found = finding(
            code,
            f"{reason(code).says}{where}: {says}",
            entities=entities,
            proof=seen.evidence,
            count=seen.count,
            witness=True,
            cause=cause,
        )
        if context.exit_code == 0 and not reason(code).ends_run:
            # A hiccup that the launcher got over does not put a finished run in doubt.
            return eased(found, Effect.NOTE, found.message)
        return found

    def _exit_code(self, context: ParseContext) -> str:
        """Name what the first process to end shows: a crash, or a tool that ended with an error."""
        if not self._killed:
            return "EXIT_CODE_NONZERO"
        return TOOLS[context.tool].crash if context.tool else "WorkloadFailed"

    def _exit_finding(self, code: str, cause: str | None, context: ParseContext) -> Finding:
        node = self._node or node_of_rank(self._rank, context)
        entity = Entity(node=node, rank=self._rank)
        who = str(entity) or "a process"
        what = " ".join(filter(None, (who, "was the first to end:", self._how)))
        return finding(
            code,
            f"{what}; the first to end is not proven the cause",
            entities=(entity,) if str(entity) else (),
            proof=self._exit.evidence,
            count=self._exit.count,
            witness=True,
            cause=cause,
        )


def _only_rank(ranks: str) -> int | None:
    return int(ranks) if ranks.isdecimal() and len(ranks) < 8 else None


def _cause(code: str, codes: list[str]) -> str | None:
    causes = reason(code).follows
    return next((other for other in codes if other in causes), None)
