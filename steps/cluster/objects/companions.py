"""Objects that the workers of a group need beside their Job: claims, NVLink domains, files; pure.

Profiles name them as if they stood alone in the namespace. Groups run side by side, so each gets
its own, and the pod template is made to point to them.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from catalog.workload.workload import Workload
from steps.cluster.objects.names import GroupNames
from steps.cluster.objects.pods import Object, listed, metadata, value_of

COMPANION_KINDS = ("ComputeDomain", "ResourceClaimTemplate", "ConfigMap", "Secret")
"""What a group can own beside Jobs and Pods, in the order in which it is deleted."""


def companions(
    workload: Workload, names: GroupNames, owner: Mapping[str, Any] | None
) -> tuple[list[Object], dict[str, str]]:
    """Return the objects to create, and their names by the names that the profile gave them."""
    renamed: dict[str, str] = {}
    objects: list[Object] = []

    def add(kind: str, version: str, old: str, content: Mapping[str, Any]) -> None:
        renamed[old] = names.object(old)
        head = {"apiVersion": version, "kind": kind}
        objects.append(
            {**head, "metadata": metadata(renamed[old], names.labels(), owner), **content}
        )

    for claim in listed(workload.pod, "claimTemplates"):
        spec = {"spec": {"spec": claim["spec"]}}
        add("ResourceClaimTemplate", "resource.k8s.io/v1", claim["name"], spec)
    for name, files in (value_of(workload.pod, "configMaps") or {}).items():
        add("ConfigMap", "v1", name, {"data": dict(files)})
    domain = value_of(workload.pod, "computeDomain")
    if domain:
        spec = {key: value for key, value in domain.items() if key != "apiVersion"}
        channel = spec["channel"]["resourceClaimTemplate"]["name"]
        # Its driver creates the claim template of this name.
        renamed[channel] = names.object(channel)
        template = {"name": renamed[channel]}
        spec["channel"] = {**spec["channel"], "resourceClaimTemplate": template}
        add("ComputeDomain", domain["apiVersion"], "domain", {"spec": spec})
    return objects, renamed


def point_to(template: Object, renamed: Mapping[str, str]) -> Object:
    """Return a pod template whose claims and volumes use the new names."""
    if not renamed:
        return template
    spec = dict(template["spec"])
    if "resourceClaims" in spec:
        spec["resourceClaims"] = [
            _with(claim, "resourceClaimTemplateName", renamed) for claim in spec["resourceClaims"]
        ]
    spec["volumes"] = [
        {**volume, "configMap": _with(volume["configMap"], "name", renamed)}
        if "configMap" in volume
        else volume
        for volume in spec.get("volumes", [])
    ]
    return {**template, "spec": spec}


def _with(item: Mapping[str, Any], key: str, renamed: Mapping[str, str]) -> Object:
    name = str(item.get(key))
    return {**item, key: renamed[name]} if name in renamed else dict(item)
