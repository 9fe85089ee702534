"""Training logs: NeMo 1 and 2, Megatron-LM, Megatron-DeepSpeed, Megatron-Bridge, Lightning."""

from __future__ import annotations

from steps.parse.api import KindReader
from steps.parse.training.scanner import TrainingScanner

__all__ = ["KINDS", "TrainingScanner"]

KINDS = (KindReader(name="training-log", scanners=(lambda name, _: TrainingScanner(name),)),)
