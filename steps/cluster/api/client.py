"""The one module that talks to the Kubernetes API.

Objects are plain dicts, as in YAML: the client's generated models refuse fields that they do not
know, and objects of a newer cluster must never stop a certification.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import quote

from kubernetes import client, config
from kubernetes.config.config_exception import ConfigException
from urllib3.exceptions import HTTPError

from catalog.errors import ClusterError

Object = dict[str, Any]

_PLURALS = {
    "Node": ("v1", "nodes", False),
    "Pod": ("v1", "pods", True),
    "ConfigMap": ("v1", "configmaps", True),
    "Secret": ("v1", "secrets", True),
    "Service": ("v1", "services", True),
    "Event": ("v1", "events", True),
    "Job": ("batch/v1", "jobs", True),
    "Lease": ("coordination.k8s.io/v1", "leases", True),
    "ResourceSlice": ("resource.k8s.io/v1", "resourceslices", False),
    "ResourceClaimTemplate": ("resource.k8s.io/v1", "resourceclaimtemplates", True),
    "ComputeDomain": ("resource.nvidia.com/v1beta1", "computedomains", True),
    "Workflow": ("argoproj.io/v1alpha1", "workflows", True),
}
_TIMEOUT = (5, 30)
"""Seconds to connect and to wait for bytes; a quiet log breaks off then and is taken up again."""
_PAGE = 500
_WAITS = (0.5, 1.0, 2.0)
"""Seconds before another try of a request that an overloaded or restarting API server lost."""
_PASSING = frozenset({429, 500, 502, 503, 504})


class NotFoundError(ClusterError):
    """The object does not exist."""


class RefusedError(ClusterError):
    """The API server refused the request: admission, quota, permissions, an invalid object."""


class ConflictError(ClusterError):
    """The object exists already, or was changed meanwhile."""


@dataclass(frozen=True, slots=True)
class Change:
    """What has happened to an object.

    Attributes:
        kind: ADDED, MODIFIED or DELETED.
        item: the object as it was then; one that was deleted as it was last.
    """

    kind: str
    item: Object


@dataclass(frozen=True, slots=True)
class _Call:
    """One request."""

    method: str
    path: str
    query: Mapping[str, str] = field(default_factory=dict)
    body: Mapping[str, Any] | None = None
    headers: Mapping[str, str] = field(default_factory=dict)

    def __str__(self) -> str:
        return f"{self.method} {self.path}"


class Cluster:
    """A connection to one namespace of a cluster.

    Args:
        api: client of the kubernetes package.
        namespace: where namespaced objects are read and written.
    """

    def __init__(self, api: client.ApiClient, namespace: str) -> None:
        self._api = api
        self.namespace = namespace

    @classmethod
    def connect(cls, namespace: str | None = None, context: str | None = None) -> Cluster:
        """Connect as a pod does, else by the kubeconfig file.

        Raises:
            ClusterError: there is neither a service account nor a usable kubeconfig.
        """
        settings = client.Configuration()
        try:
            with suppress(ConfigException):
                config.load_incluster_config(client_configuration=settings)
                return cls(client.ApiClient(settings), namespace or "default")
            # The client reads the variable when it is imported, which may be too early.
            file = os.environ.get("KUBECONFIG")
            config.load_kube_config(file, context=context, client_configuration=settings)
            if namespace is None:
                contexts, active = config.list_kube_config_contexts(file)
                chosen = next((c for c in contexts if c["name"] == context), active)
                namespace = chosen["context"].get("namespace", "default")
        except (ConfigException, OSError, TypeError, KeyError) as error:
            raise ClusterError(
                f"no cluster can be reached: {error} (kubectl config get-contexts shows what "
                "KUBECONFIG and --context can name)"
            ) from error
        return cls(client.ApiClient(settings), namespace or "default")

    def in_namespace(self, namespace: str) -> Cluster:
        """Return the same connection to another namespace."""
        return Cluster(self._api, namespace)

    def get(self, kind: str, name: str) -> Object:
        """Read one object.

        Raises:
            NotFoundError: it does not exist.
            ClusterError: the API refused or did not answer.
        """
        return self._json(_Call("GET", self._path(kind, name)))

    def find(self, kind: str, selector: str = "", field_selector: str = "") -> list[Object]:
        """Read all objects that match, page by page."""
        return self.find_at(kind, selector, field_selector)[0]

    def find_at(
        self, kind: str, selector: str = "", field_selector: str = ""
    ) -> tuple[list[Object], str]:
        """Read all objects that match, and the version from which on `changes` can tell more."""
        items: list[Object] = []
        query: dict[str, str] = {"limit": str(_PAGE)}
        if selector:
            query["labelSelector"] = selector
        if field_selector:
            query["fieldSelector"] = field_selector
        while True:
            page = self._json(_Call("GET", self._path(kind), query))
            items += page.get("items") or []
            metadata = page.get("metadata", {})
            following = metadata.get("continue")
            if not following:
                return items, str(metadata.get("resourceVersion") or "")
            query["continue"] = following

    def changes(self, kind: str, selector: str, since: str) -> list[Change]:
        """Return what has happened to the objects that match since `find_at`, oldest first.

        API servers remember a few minutes. Their order is that in which things happened, by
        nobody's clock.

        Raises:
            ClusterError: it is not known so far back any more, or the API refused.
        """
        query = {"watch": "true", "resourceVersion": since, "timeoutSeconds": "1"}
        call = _Call("GET", self._path(kind), query | {"labelSelector": selector})
        response = self._request(call)
        try:
            told = [json.loads(line) for line in response.read().splitlines()]
            found = [Change(str(item["type"]), item["object"]) for item in told]
        except (ValueError, KeyError, TypeError, HTTPError) as error:
            raise ClusterError(f"{call}: the answer is no list of changes: {error}") from error
        for change in found:
            if change.kind == "ERROR":
                raise ClusterError(f"{call}: {change.item.get('message')}")
        return found

    def find_everywhere(self, kind: str, field_selector: str = "") -> list[Object]:
        """Read all objects of a kind in all namespaces, from the API server's cache."""
        version, plural, _ = _PLURALS[kind]
        # Version 0 is answered from memory, whole; a fleet of nodes is read every few seconds.
        query = {"resourceVersion": "0"}
        if field_selector:
            query["fieldSelector"] = field_selector
        path = f"{_root(version)}/{plural}"
        found: list[Object] = self._json(_Call("GET", path, query)).get("items") or []
        return found

    def create(self, body: Mapping[str, Any]) -> Object:
        """Create an object.

        Raises:
            ConflictError: it exists.
            RefusedError: the API server refuses it; carries its own words.
        """
        return self._json(_Call("POST", self._path(str(body["kind"])), body=body))

    def apply(self, body: Mapping[str, Any]) -> Object:
        """Create an object, or replace it when it exists."""
        try:
            return self.create(body)
        except ConflictError:
            return self.replace(body)

    def replace(self, body: Mapping[str, Any]) -> Object:
        """Replace an object; with a resourceVersion only if nobody has changed it since.

        Raises:
            ConflictError: somebody has.
            NotFoundError: it does not exist.
        """
        path = self._path(str(body["kind"]), body["metadata"]["name"])
        return self._json(_Call("PUT", path, body=body))

    def patch(self, kind: str, name: str, body: Mapping[str, Any]) -> Object:
        """Merge a patch into an object."""
        headers = {"Content-Type": "application/merge-patch+json"}
        return self._json(_Call("PATCH", self._path(kind, name), body=body, headers=headers))

    def delete(
        self, kind: str, name: str, grace_seconds: int | None = None, *, version: str = ""
    ) -> bool:
        """Delete an object and what it owns.

        Args:
            kind: of the object.
            name: of the object.
            grace_seconds: of a pod.
            version: the resourceVersion that it must still have; empty for any.

        Returns:
            False when it did not exist.

        Raises:
            ConflictError: it has been changed since.
        """
        body: Object = {"propagationPolicy": "Background"}
        if grace_seconds is not None:
            body["gracePeriodSeconds"] = grace_seconds
        if version:
            body["preconditions"] = {"resourceVersion": version}
        try:
            self._json(_Call("DELETE", self._path(kind, name), body=body))
        except NotFoundError:
            return False
        return True

    def logs(
        self,
        pod: str,
        container: str = "",
        *,
        follow: bool = False,
        timestamps: bool = False,
        since: str = "",
    ) -> Iterator[bytes]:
        """Stream a pod's log in chunks.

        Args:
            pod: name of the pod.
            container: its container.
            follow: go on until the container ends.
            timestamps: put the time before every line.
            since: RFC 3339 time; lines before that second are left out.

        Raises:
            ClusterError: the log cannot be read, or breaks off.
        """
        query = {"container": container} if container else {}
        query |= {"follow": "true"} if follow else {}
        query |= {"timestamps": "true"} if timestamps else {}
        query |= {"sinceTime": since} if since else {}
        response = self._request(_Call("GET", self._path("Pod", pod) + "/log", query))
        try:
            yield from response.response.stream(64 * 1024)
        except HTTPError as error:
            raise ClusterError(f"the log of pod {pod} broke off: {error}") from error
        finally:
            response.response.release_conn()

    def _path(self, kind: str, name: str | None = None) -> str:
        version, plural, namespaced = _PLURALS[kind]
        path = _root(version)
        if namespaced:
            path += f"/namespaces/{quote(self.namespace)}"
        path += f"/{plural}"
        return f"{path}/{quote(name)}" if name else path

    def _json(self, call: _Call) -> Object:
        response = self._request(call)
        try:
            data = json.loads(response.read())
        except (ValueError, HTTPError) as error:
            raise ClusterError(f"{call}: the answer is no JSON: {error}") from error
        return data if isinstance(data, dict) else {}

    def _request(self, call: _Call) -> Any:
        for wait in (*_WAITS, None):
            try:
                # Each time anew: the token of a long run is replaced by and by.
                prepared = self._api.param_serialize(
                    call.method,
                    call.path,
                    query_params=list(call.query.items()),
                    header_params={"Accept": "application/json", **call.headers},
                    body=dict(call.body) if call.body is not None else None,
                    auth_settings=["BearerToken"],
                )
                response = self._api.call_api(*prepared, _request_timeout=_TIMEOUT)
            except (HTTPError, OSError, ConfigException, client.ApiException) as error:
                if wait is None:
                    raise ClusterError(f"{call}: {_first_line(error)}") from error
            else:
                if 200 <= response.status < 300:
                    return response
                if wait is None or response.status not in _PASSING:
                    raise _refusal(call, response.status, response.read())
            time.sleep(wait)
        raise AssertionError("the last try returns or raises")


def _root(version: str) -> str:
    return f"/api/{version}" if version == "v1" else f"/apis/{version}"


def _refusal(call: _Call, status: int, body: bytes) -> ClusterError:
    """Turn a Status object into an error with the API server's own words."""
    try:
        said = str(json.loads(body).get("message") or "")
    except (ValueError, AttributeError):
        said = body[:200].decode(errors="replace")
    message = said or f"{call}: HTTP {status}"
    kinds: dict[int, type[ClusterError]] = {404: NotFoundError, 409: ConflictError}
    for code in (400, 401, 403, 422):
        kinds[code] = RefusedError
    return kinds.get(status, ClusterError)(message)


def _first_line(error: BaseException) -> str:
    return (str(error) or type(error).__name__).splitlines()[0]
