"""How a node health rule is written, in our data and in a certification."""

from __future__ import annotations

from typing import Literal

from pydantic import Field, model_validator

from catalog.reading.model import Model


class HealthRule(Model):
    """A CEL rule over a Node object or a Kubernetes event; true speaks against the node.

    Attributes:
        name: shown in the report.
        over: what the expression reads: ``node`` with metadata, spec and status, or ``event`` with
            type, reason, message, count, involvedObject, source and reportingComponent. Events
            are those about nodes of the group, and warnings about pods of the run.
        expression: CEL.
        code: reason code to report. ``XID``: the Xids that the event names decide, by
            catalog/facts/xids.yaml. ``INFRA_OOM_KILLED``: ends no run, but explains one that fails.
            ``NODE_FLAPPED``: only a note.
        for_seconds: how long it must be true to speak against the node; what passes sooner is only
            noted, as NODE_FLAPPED.
    """

    name: str
    over: Literal["node", "event"] = "node"
    expression: str = Field(min_length=1, max_length=2048)
    code: Literal[
        "NODE_UNHEALTHY",
        "NODE_CORDONED",
        "NODE_NOT_READY",
        "NODE_FLAPPED",
        "XID",
        "INFRA_OOM_KILLED",
    ] = "NODE_UNHEALTHY"
    for_seconds: float = Field(default=0, ge=0, le=3600)

    @model_validator(mode="after")
    def _code_fits(self) -> HealthRule:
        if self.over == "node" and not self.code.startswith("NODE_"):
            raise ValueError(f"code {self.code} needs over: event")
        if self.over == "event" and self.for_seconds:
            raise ValueError("forSeconds needs over: node, since events do not last")
        return self
