"""Kernel and platform lines: Xid, SXid, lost GPUs, PCIe, ports, machine checks, throttling."""

from __future__ import annotations

from steps.parse.kernel.scanner import KernelScanner

__all__ = ["KernelScanner"]
