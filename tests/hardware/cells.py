"""One row for every cell of the matrix and every instance type: nodes in."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from tests.detect.build import GB200, H100, fleet

A100 = "NVIDIA-A100-SXM4-80GB"
H200 = "NVIDIA-H200"
B200 = "NVIDIA-B200"
B300 = "NVIDIA-B300-SXM6-AC"
GB300 = "NVIDIA-GB300"
RTX = "NVIDIA-RTX-PRO-6000-Blackwell-Server-Edition"

AWS = "aws:///eu-central-1a/i-0a1b2c3d4e5f"
GCP = "gce://acme-ai/europe-west4-b/gke-pool-7f3a"
AZURE = "azure:///subscriptions/00aa/resourceGroups/ai/virtualMachineScaleSets/nd/virtualMachines/3"
OCI = "ocid1.instance.oc1.eu-frankfurt-1.anexample"
OPENSTACK = "openstack:///5b2f8c1e"
KUBEVIRT = "kubevirt://gpu-worker"
METAL3 = "metal3://ai/gpu-host"


@dataclass(frozen=True)
class Cell:
    """Nodes of one kind and how the certification treats them."""

    id: str
    product: str
    provider: str | None = None
    instance: str | None = None
    gpus: int | None = 8
    allocatable: dict[str, Any] = field(default_factory=dict)
    labels: dict[str, str] = field(default_factory=dict)
    options: dict[str, Any] = field(default_factory=dict)
    devices: dict[str, int] = field(default_factory=dict)
    tcpxo: str | None = None

    def nodes(self, count: int = 4) -> list[dict[str, Any]]:
        """Return the Node objects."""
        return fleet(
            count,
            product=self.product,
            provider=self.provider,
            instance=self.instance,
            gpus=self.gpus,
            allocatable=self.allocatable,
            labels=self.labels,
        )

    def slices(self, count: int = 4) -> list[dict[str, Any]]:
        """Return the ResourceSlices of the nodes."""
        return [
            {
                "kind": "ResourceSlice",
                "metadata": {"name": f"{name}-{driver}"},
                "spec": {
                    "driver": driver,
                    "nodeName": name,
                    "pool": {"name": name, "generation": 1},
                    "devices": [{"name": f"dev-{i}", "attributes": {}} for i in range(number)],
                },
            }
            for name in (item["metadata"]["name"] for item in self.nodes(count))
            for driver, number in self.devices.items()
        ]

    def pods(self) -> list[dict[str, Any]]:
        """Return the pods that tell versions of node software."""
        if self.tcpxo is None:
            return []
        image = "us-docker.pkg.dev/gce-ai-infra/gpudirect-tcpxo/nccl-plugin-gpudirecttcpx-dev"
        return [
            {
                "kind": "Pod",
                "metadata": {"name": f"nccl-tcpxo-installer-{number}", "namespace": "kube-system"},
                "spec": {
                    "nodeName": item["metadata"]["name"],
                    "initContainers": [{"name": "install", "image": f"{image}:{self.tcpxo}"}],
                },
                "status": {"phase": "Running"},
            }
            for number, item in enumerate(self.nodes())
        ]


def _efa(count: int) -> dict[str, str]:
    return {"vpc.amazonaws.com/efa": str(count), "hugepages-2Mi": "10256Mi"}


MLNX8 = {"nvidia.com/mlnxnics": "8"}
GKE8 = {f"networking.gke.io.networks/rail-{i}": "1" for i in range(8)}
RDMA4 = {f"networking.gke.io.networks/rdma-{i}": "1" for i in range(4)}
CLIQUE = {"nvidia.com/gpu.clique": "7c9e6679.1"}

CELLS = (
    # AWS
    Cell("aws-p4d", "NVIDIA-A100-SXM4-40GB", AWS, "p4d.24xlarge", allocatable=_efa(4)),
    Cell("aws-p4de", A100, AWS, "p4de.24xlarge", allocatable=_efa(4)),
    Cell("aws-p5", H100, AWS, "p5.48xlarge", allocatable=_efa(32)),
    Cell("aws-p5e", H200, AWS, "p5e.48xlarge", allocatable=_efa(32)),
    Cell("aws-p5en", H200, AWS, "p5en.48xlarge", allocatable=_efa(16)),
    Cell("aws-p6-b200", B200, AWS, "p6-b200.48xlarge", allocatable=_efa(8)),
    Cell("aws-p6-b300", B300, AWS, "p6-b300.48xlarge", allocatable=_efa(16)),
    Cell("aws-p6e-gb200", GB200, AWS, "p6e-gb200.36xlarge", 4, _efa(16), CLIQUE),
    Cell(
        "aws-p6e-gb200-mnnvl-off", GB200, AWS, "p6e-gb200.36xlarge", 4, _efa(16), CLIQUE,
        {"enableMNNVL": False},
    ),
    Cell(
        "aws-p6e-gb300", GB300, AWS, "p6e-gb300r.36xlarge", 4, labels=CLIQUE,
        devices={"roce.networking.k8s.aws": 8},
    ),
    Cell("aws-h100-no-type", H100, AWS, allocatable=_efa(32)),
    Cell("aws-l40s", "NVIDIA-L40S", AWS, "g6e.48xlarge", allocatable=_efa(4)),
    # Google Cloud
    Cell("gcp-a3-high", H100, GCP, "a3-highgpu-8g"),
    Cell("gcp-a3-mega", H100, GCP, "a3-megagpu-8g"),
    Cell("gcp-a3-mega-1.0.16", H100, GCP, "a3-megagpu-8g", tcpxo="v1.0.16"),
    Cell("gcp-a3-mega-1.0.17", H100, GCP, "a3-megagpu-8g", tcpxo="v1.0.17-2"),
    Cell("gcp-a3-mega-own-networks", H100, GCP, "a3-megagpu-8g", allocatable=GKE8),
    Cell("gcp-h100-no-type", H100, GCP),
    Cell("gcp-a3-ultra", H200, GCP, "a3-ultragpu-8g"),
    Cell("gcp-a4", B200, GCP, "a4-highgpu-8g"),
    Cell("gcp-a4x", GB200, GCP, "a4x-highgpu-4g", 4, RDMA4, CLIQUE),
    Cell("gcp-gb300", GB300, GCP, None, 4, RDMA4, CLIQUE),
    Cell("gcp-g4-eight", RTX, GCP, "g4-standard-384"),
    Cell("gcp-g4-four", RTX, GCP, "g4-standard-192", 4),
    # Azure
    Cell("azure-ndv4-40", "NVIDIA-A100-SXM4-40GB", AZURE, "Standard_ND96asr_v4", 8, MLNX8),
    Cell("azure-ndv4-80", A100, AZURE, "Standard_ND96amsr_A100_v4", 8, MLNX8),
    Cell("azure-h100", H100, AZURE, "Standard_ND96isr_H100_v5", 8, MLNX8),
    Cell("azure-h100-shared", H100, AZURE, "Standard_ND96isr_H100_v5", 8,
         {"rdma/hca_shared_devices_a": "63"}),
    Cell("azure-h200", H200, AZURE, "Standard_ND96isr_H200_v5", 8, {"rdma/ib": "1"}),
    Cell("azure-nc80", "NVIDIA-H100-NVL", AZURE, "Standard_NC80adis_H100_v5", 2),
    Cell("azure-nc96-a100", "NVIDIA-A100-80GB-PCIe", AZURE, "Standard_NC96ads_A100_v4", 4),
    Cell("azure-nd-gb200", GB200, AZURE, "Standard_ND128isr_NDR_GB200_v6", 4,
         {"rdma/shared_ib": "1k"}, CLIQUE),
    Cell("azure-b200", B200, AZURE, None, 8, MLNX8),
    Cell("azure-l40s", "NVIDIA-L40S", AZURE, None, 8, MLNX8),
    Cell("azure-gb200", GB200, AZURE, None, 4, MLNX8, CLIQUE),
    # Oracle Cloud
    Cell("oci-gpu4", "NVIDIA-A100-SXM4-40GB", OCI, "BM.GPU4.8", 8, {"nvidia.com/rdma-vf": "16"}),
    Cell("oci-a100-v2", A100, OCI, "BM.GPU.A100-v2.8", 8, {"nvidia.com/rdma-vf": "16"}),
    Cell("oci-h100", H100, OCI, "BM.GPU.H100.8", 8, {"nvidia.com/mlnxnics": "16"}),
    Cell("oci-h200", H200, OCI, "BM.GPU.H200.8", 8, MLNX8),
    Cell("oci-b200", B200, OCI, "BM.GPU.B200.8", 8, MLNX8),
    Cell("oci-b300", B300, OCI, "BM.GPU.B300.8", 8, {"nvidia.com/mlnxnics": "16"}),
    Cell("oci-gb200", GB200, OCI, "BM.GPU.GB200.4", 4, {"nvidia.com/mlnxnics": "4"}, CLIQUE),
    Cell("oci-gb200-with-nics", GB200, OCI, "BM.GPU.GB200-v2.4", 4, {"nvidia.com/mlnxnics": "4"},
         CLIQUE, {"mlnxPerNode": 4}),
    Cell("oci-gb200-host-path", GB200, OCI, "BM.GPU.GB200.4", 4, {}, CLIQUE,
         {"rdmaDeviceAccess": "hostPath"}),
    Cell("oci-gb300", GB300, OCI, "BM.GPU.GB300.4", 4, {"nvidia.com/mlnxnics": "4"}, CLIQUE),
    Cell("oci-gb300-mnnvl-off", GB300, OCI, "BM.GPU.GB300.4", 4, {"nvidia.com/mlnxnics": "4"},
         CLIQUE, {"enableMNNVL": False}),
    Cell("oci-l40s", "NVIDIA-L40S", OCI, "BM.GPU.L40S.4", 4, {"nvidia.com/mlnxnics": "2"}),
    Cell("oci-l40", "NVIDIA-L40", OCI, None, 8, {"nvidia.com/mlnxnics": "4"}),
    # machines of one's own
    Cell("onprem-a100", A100, allocatable=MLNX8),
    Cell("onprem-h100-ib", H100, allocatable=MLNX8),
    Cell("onprem-h100-ib-switch", H100, allocatable={"rdma/ib": "1"}),
    Cell("onprem-h100-no-nics", H100),
    Cell("onprem-h100-roce", H100, allocatable={"rdma/roce": "8"},
         options={"profile": "onprem/h100-roce"}),
    Cell("onprem-h100-pcie", "NVIDIA-H100-PCIe", gpus=4, allocatable={"nvidia.com/mlnxnics": "2"}),
    Cell("onprem-h200", H200, allocatable=MLNX8),
    Cell("onprem-b200", B200, allocatable={"rdma/ib0": "8"}),
    Cell("onprem-b300", B300, allocatable={"rdma/ib0": "8"}),
    Cell("onprem-gb200", GB200, None, None, 4, {"rdma/hca_shared_devices_a": "64"}, CLIQUE),
    Cell("onprem-gb300", GB300, None, None, 4, {"rdma/ib0": "4"}, CLIQUE),
    Cell("onprem-gb300-ambiguous", GB300, None, None, 4, {"rdma/ib0": "4", "rdma/ib1": "4"},
         CLIQUE, {"mlnxPerNode": 1}),
    Cell("onprem-l40", "NVIDIA-L40", allocatable={"nvidia.com/mlnxnics": "4"}),
    Cell("onprem-l40s", "NVIDIA-L40S", allocatable=MLNX8),
    Cell("onprem-a10", "NVIDIA-A10", gpus=2),
    # others
    Cell("togetherai-h100", H100, KUBEVIRT, None, 8, MLNX8,
         {"node-role.together.ai/worker": ""}),
    Cell("mistral-gb300", GB300, METAL3, None, 4, {"rdma/ib": "1"}, CLIQUE),
    Cell("forge-l40", "NVIDIA-L40", None, None, 8, {"nvidia.com/mlnxnics": "4"},
         {"nke.nvidia.com/site-name": "site-4"}),
    Cell("forge-gb200", GB200, None, None, 4, {}, {"nke.nvidia.com/site-name": "site-4"} | CLIQUE),
    Cell("nscale-b200", B200, OPENSTACK, None, None,
         devices={"gpu.nvidia.com": 8, "rdma.nscale.com": 8}),
    Cell("nscale-gb300", GB300, OPENSTACK, None, None,
         labels={"topology.nks.nscale.com/accelerator-domain": "d-2"},
         devices={"gpu.nvidia.com": 4, "rdma.nscale.com": 4}),
    Cell("nscale-h100-rdmashare", H100, OPENSTACK, None, 8, {"nscale.com/rdmashare": "8"}),
    Cell("coreweave-h100", H100, None, "gd-8xh100ib-i128", 8, {"rdma/ib": "1"},
         {"node.coreweave.cloud/type": "gd-8xh100ib-i128"}),
    Cell("coreweave-b200", B200, None, "b200-8x", 8, {"rdma/ib": "1"},
         {"node.coreweave.cloud/type": "b200-8x"}),
    Cell("coreweave-b300", B300, None, "b300-8x", 8, {"rdma/ib": "1"},
         {"node.coreweave.cloud/type": "b300-8x"}),
    Cell("coreweave-gb200", GB200, None, "gb200-4x", 4, {"rdma/ib": "1"},
         {"node.coreweave.cloud/type": "gb200-4x", "ds.coreweave.com/nvlink.domain": "d-9"}),
    Cell("coreweave-gb300", GB300, None, "gb300-4x", 4, {"rdma/ib": "1"},
         {"node.coreweave.cloud/type": "gb300-4x", "ds.coreweave.com/nvlink.domain": "d-9"}),
)  # fmt: skip
