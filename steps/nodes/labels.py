"""Names on Node objects that Kubernetes and NVIDIA give."""

from __future__ import annotations

CORDON_TAINT = "node.kubernetes.io/unschedulable"
"""Taint that Kubernetes puts on a cordoned node."""

PRODUCT_LABEL = "nvidia.com/gpu.product"
"""Label of GPU feature discovery that names the GPU."""
