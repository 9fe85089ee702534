"""Runs faults on the lab: side by side on nodes of their own, those of the machine alone."""

from __future__ import annotations

import json
import queue
import random
import threading
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from tests.cluster import dress
from tests.cluster.chaos import oracle
from tests.cluster.chaos.faults import FAULTS, Fault
from tests.cluster.chaos.ledger import Ledger, unowned
from tests.cluster.chaos.scene import CASTS, STEP_SECONDS, Scene
from tests.cluster.gangs import STANDIN
from tests.cluster.lab import Lab
from tests.cluster.live import Live
from tests.cluster.product import Product, installed
from tests.cluster.shell import LabError, say, wait_for

IMAGE = "docker.io/library/readiness-steps:chaos"
"""A name of its own, so that whoever tests beside it can build another."""

_LEFT_SECONDS = 120
_API_SECONDS = 60


@dataclass(frozen=True, slots=True, kw_only=True)
class Play:
    """A fault that is to be done.

    Attributes:
        number: of the play; with the seed it decides everything that is left to chance.
        casts: certifications that run, one scene each.
    """

    number: int
    fault: Fault
    casts: tuple[str, ...]

    @property
    def nodes(self) -> int:
        """How many nodes it needs for itself."""
        counts = [CASTS[name].nodes for name in self.casts]
        return max(counts) if self.fault.shared_nodes else sum(counts)


@dataclass(frozen=True, slots=True, kw_only=True)
class Ending:
    """What became of one certification."""

    number: int
    fault: str
    cast: str
    workflow: str
    happened: bool
    result: str
    codes: tuple[str, ...]
    seconds: float
    violations: tuple[oracle.Violation, ...]

    def as_data(self) -> dict[str, Any]:
        """Return it for JSON."""
        broken = [{"rule": item.rule, "seen": item.seen} for item in self.violations]
        return {
            "number": self.number,
            "fault": self.fault,
            "cast": self.cast,
            "workflow": self.workflow,
            "happened": self.happened,
            "result": self.result,
            "codes": list(self.codes),
            "seconds": round(self.seconds),
            "violations": broken,
        }


def plays(seed: int, runs: int, faults: Sequence[Fault] = FAULTS) -> list[Play]:
    """Return as many plays as make so many runs; every fault comes once before one comes twice."""
    chance = random.Random(seed)
    found: list[Play] = []
    while sum(len(play.casts) for play in found) < runs:
        for fault in chance.sample(faults, len(faults)):
            if sum(len(play.casts) for play in found) >= runs:
                break
            casts = fault.casts if fault.wide else (chance.choice(fault.casts),)
            found.append(Play(number=len(found), fault=fault, casts=casts))
    return found


@dataclass(slots=True)
class Stage:
    """Where plays are played.

    Attributes:
        seed: of everything that is left to chance.
        evidence: where to keep what shows why a rule does not hold; None keeps nothing.
    """

    lab: Lab
    live: Live
    ledger: Ledger
    product: Product
    seed: int
    evidence: Path | None = None
    _free: list[str] = field(default_factory=list)
    _changed: threading.Condition = field(default_factory=threading.Condition)
    _turn: threading.Lock = field(default_factory=threading.Lock)

    def play_all(self, wanted: Sequence[Play]) -> Iterator[Ending]:
        """Play, and yield every ending as it comes."""
        self._free = list(self.lab.node_names)
        # The big ones last, lest their waiting for nodes keep the small ones from theirs.
        beside = [play for play in wanted if not play.fault.alone]
        beside.sort(key=lambda play: play.nodes)
        endings: queue.SimpleQueue[list[Ending]] = queue.SimpleQueue()
        with ThreadPoolExecutor(len(self._free)) as pool:
            for play in beside:
                pool.submit(self._play_into, endings, play)
            for _ in beside:
                yield from endings.get()
        for play in wanted:
            if play.fault.alone:
                yield from self._play(play)

    def _play_into(self, endings: queue.SimpleQueue[list[Ending]], play: Play) -> None:
        endings.put(self._play(play))

    def _play(self, play: Play) -> list[Ending]:
        nodes: list[str] = []
        try:
            nodes = self._take(play.nodes, play)
            with self._product_of(play) as product:
                return self._perform(play, nodes, product)
        except Exception as error:  # noqa: BLE001  (one play must not end the others)
            say(f"{play.number} {play.fault.name}: {type(error).__name__}: {error}")
            return [self._broken(play, cast, str(error)) for cast in play.casts]
        finally:
            with self._changed:
                self._free += nodes
                self._changed.notify_all()

    @contextmanager
    def _product_of(self, play: Play) -> Iterator[Product]:
        if not play.fault.own_namespace:
            yield self.product
            return
        with _installed(self.lab) as product:
            yield product

    def _perform(self, play: Play, nodes: Sequence[str], product: Product) -> list[Ending]:
        fault = play.fault
        scenes = self._scenes(play, nodes, product)
        for number, scene in enumerate(scenes):
            name = f"{fault.names}-{play.number:03}-{'ab'[number]}" if fault.names else ""
            scene.submit(name, pool="chaos-shared" if fault.shared_nodes else "")
        happened = fault.act(scenes)
        for scene in scenes:
            scene.wait_end()
        return [self._end(play, scene, happened=happened) for scene in scenes]

    def _scenes(self, play: Play, nodes: Sequence[str], product: Product) -> list[Scene]:
        scenes, at = [], 0
        for number, cast in enumerate(play.casts):
            count = CASTS[cast].nodes
            first = 0 if play.fault.shared_nodes else at
            scenes.append(
                Scene(
                    lab=self.lab,
                    live=self.live,
                    ledger=self.ledger,
                    product=product,
                    cast=cast,
                    nodes=tuple(nodes[first : first + count]),
                    random=random.Random(f"{self.seed}/{play.number}/{number}"),
                    pause_ms=play.fault.pause_ms,
                    image=play.fault.image or STANDIN,
                    env=dict(play.fault.env),
                )
            )
            at += count
        return scenes

    def _end(self, play: Play, scene: Scene, *, happened: bool) -> Ending:
        took = time.time() - scene.submitted
        ended = scene.over
        report = self._report(scene) if ended else None
        left = self._left(scene) if ended else ()
        fault = play.fault
        facts = oracle.Facts(
            targets=scene.nodes,
            fails=scene.fails,
            report=report,
            phase=scene.phase if ended else "",
            measured=self.ledger.measured(scene.namespace, scene.name, scene.lost),
            fallen=scene.fallen,
            touched=frozenset(scene.touched),
            sound=fault.sound,
            may_lack_report=fault.may_lack_report,
            codes=fault.codes,
            left=left,
            injected=happened,
        )
        found = tuple(oracle.violations(facts))
        if found:
            self._keep(play, scene, facts, found)
        self._forget(scene, ended=ended)
        return Ending(
            number=play.number,
            fault=fault.name,
            cast=scene.cast,
            workflow=scene.name,
            happened=happened,
            result="none" if report is None else str(report["result"]),
            codes=tuple(sorted(oracle.codes_of(report))) if report else (),
            seconds=took,
            violations=found,
        )

    def _report(self, scene: Scene) -> dict[str, Any] | None:
        deadline = time.monotonic() + _API_SECONDS
        while True:
            try:
                return scene.product.report(scene.name)
            except AssertionError:
                return None
            except LabError:
                if time.monotonic() > deadline:
                    raise
                time.sleep(2)

    def _left(self, scene: Scene) -> tuple[str, ...]:
        with suppress(LabError):
            wait_for(
                "nothing to be left",
                lambda: not scene.product.left(scene.name),
                timeout=_LEFT_SECONDS,
                interval=3,
            )
        maps = self.live.all("ConfigMap", scene.namespace)
        return (*scene.product.left(scene.name), *unowned(maps, scene.name))

    def _keep(
        self,
        play: Play,
        scene: Scene,
        facts: oracle.Facts,
        found: Sequence[oracle.Violation],
    ) -> None:
        if self.evidence is None:
            return
        self.evidence.mkdir(parents=True, exist_ok=True)
        name = f"{self.seed}-{play.number:03}-{play.fault.name.replace(' ', '-')}-{scene.name}"
        parts = [f"{item.rule}: {item.seen}" for item in found]
        parts += [f"nodes {scene.nodes}, cast {scene.cast}, submitted {scene.submitted}"]
        parts += [repr(facts.measured), repr(facts.fallen), scene.text()]
        with suppress(LabError):
            parts += [scene.product.told_by(scene.name)]
            pods = ["get", "pods,jobs", "-n", scene.namespace, "-o", "wide"]
            parts += [self.lab.kubectl(*pods), json.dumps(scene.workflow(), indent=1)]
        parts += [json.dumps(facts.report, indent=1)]
        (self.evidence / f"{name}.txt").write_text("\n\n".join(parts), encoding="utf-8")

    def _forget(self, scene: Scene, *, ended: bool) -> None:
        with suppress(LabError):
            if not ended:
                scene.argo("terminate")
            scene.kubectl("delete", "workflow", scene.name, "--wait=false")

    def _broken(self, play: Play, cast: str, error: str) -> Ending:
        return Ending(
            number=play.number,
            fault=play.fault.name,
            cast=cast,
            workflow="",
            happened=False,
            result=f"the bench failed: {error.splitlines()[0][:200]}",
            codes=(),
            seconds=0,
            violations=(),
        )

    def _take(self, count: int, play: Play) -> list[str]:
        chance = random.Random(f"{self.seed}/{play.number}/nodes")
        # In turn, or whoever needs few nodes would always be before one who needs many.
        with self._turn, self._changed:
            self._changed.wait_for(lambda: len(self._free) >= count)
            chosen = chance.sample(sorted(self._free), count)
            self._free = [name for name in self._free if name not in chosen]
        return chosen


@contextmanager
def _installed(lab: Lab) -> Iterator[Product]:
    with (
        TemporaryDirectory() as folder,
        installed(lab, Path(folder), image=IMAGE, step_seconds=STEP_SECONDS) as product,
    ):
        yield product


@contextmanager
def stage(lab: Lab, seed: int, evidence: Path | None = None) -> Iterator[Stage]:
    """Set up a stage on the lab in a `with` block."""
    lab.dress_all(dress.ONPREM_H100)
    ledger = Ledger()
    with _installed(lab) as product, Live(lab, ledger.hear) as live:
        yield Stage(lab, live, ledger, product, seed, evidence)
