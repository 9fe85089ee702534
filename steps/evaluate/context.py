"""What is known before anything is measured, under the names that expressions use."""

from __future__ import annotations

from dataclasses import dataclass

from catalog.hardware.hardware import Hardware

Value = float | int | str


@dataclass(frozen=True, slots=True, kw_only=True)
class Context:
    """The situation of a run.

    Attributes:
        nodes: nodes of the group; None where nobody knows.
        gpus_per_node: GPUs of each node that the run uses; None where nobody knows.
        gpu: GPU architecture, for example ``h100``; empty when unknown, as all texts here.
        platform: ``aws``, ``onprem``, …
        instance_type: ``p5.48xlarge``, …
        stage: ``production``, …
        scale: ``full-scale``, ``intra-node``, …
    """

    nodes: int | None = None
    gpus_per_node: int | None = None
    gpu: str = ""
    platform: str = ""
    instance_type: str = ""
    stage: str = ""
    scale: str = ""

    def values(self) -> dict[str, Value]:
        """Return the values by name; numbers that nobody knows are absent."""
        known: dict[str, Value] = {
            "gpu": self.gpu,
            "platform": self.platform,
            "instance_type": self.instance_type,
            "stage": self.stage,
            "scale": self.scale,
        }
        if self.nodes is not None:
            known["nodes"] = self.nodes
        if self.gpus_per_node is not None:
            known["gpus_per_node"] = self.gpus_per_node
        return known


def context_of(hardware: Hardware, *, nodes: int | None, stage: str, scale: str) -> Context:
    """Describe a run on known hardware; what is ``unknown`` there is empty here."""

    def known(text: str | None) -> str:
        return "" if text in {None, "unknown"} else str(text)

    return Context(
        nodes=nodes,
        gpus_per_node=hardware.gpus_per_node,
        gpu=known(hardware.gpu_architecture),
        platform=known(hardware.platform),
        instance_type=known(hardware.instance_type),
        stage=stage,
        scale=scale,
    )
