"""Training logs: NeMo 1 and 2, Megatron-LM, Megatron-DeepSpeed, Megatron-Bridge, Lightning."""

from __future__ import annotations

from steps.parse.training.scanner import TrainingScanner

__all__ = ["TrainingScanner"]
