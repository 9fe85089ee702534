"""Launcher lines: mpirun, srun, ssh, sshd, torchrun and the kubelet's words."""

from __future__ import annotations

from steps.parse.launcher.scanner import LauncherScanner

__all__ = ["LauncherScanner"]
