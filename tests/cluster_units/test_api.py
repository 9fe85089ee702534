"""Requests to the API server: what is sent, what is borne, what is raised in whose words."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, ClassVar
from urllib.parse import parse_qs, urlsplit

import pytest
from kubernetes import client

from catalog.errors import ClusterError
from steps.cluster.api import client as api
from steps.cluster.api.client import Cluster, ConflictError, NotFoundError, RefusedError

POD = "/api/v1/namespaces/readiness/pods"


class Server(BaseHTTPRequestHandler):
    """Answers each request with the next of its answers: a status and a body."""

    answers: ClassVar[list[tuple[int, Any]]] = []
    asked: ClassVar[list[tuple[str, str, dict[str, list[str]], Any, str | None]]] = []

    def _answer(self) -> None:
        url = urlsplit(self.path)
        length = int(self.headers.get("Content-Length") or 0)
        body = json.loads(self.rfile.read(length)) if length else None
        kind = self.headers.get("Content-Type")
        Server.asked.append((self.command, url.path, parse_qs(url.query), body, kind))
        status, answer = Server.answers.pop(0)
        data = answer if isinstance(answer, bytes) else json.dumps(answer).encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    do_GET = do_POST = do_PUT = do_PATCH = do_DELETE = _answer  # noqa: N815

    def log_message(self, *_: Any) -> None:
        """Say nothing."""


@pytest.fixture
def cluster(monkeypatch: pytest.MonkeyPatch) -> Iterator[Cluster]:
    monkeypatch.setattr(api, "_WAITS", (0.01, 0.01))
    Server.answers, Server.asked = [], []
    with ThreadingHTTPServer(("127.0.0.1", 0), Server) as server:
        threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
        settings = client.Configuration(host=f"http://127.0.0.1:{server.server_port}")
        yield Cluster(client.ApiClient(settings), "readiness")
        server.shutdown()


def test_list_is_read_page_by_page(cluster: Cluster) -> None:
    Server.answers = [
        (200, {"items": [{"a": 1}], "metadata": {"continue": "next"}}),
        (200, {"items": [{"a": 2}], "metadata": {}}),
    ]
    assert cluster.find("Pod", "x=y", "spec.nodeName=n") == [{"a": 1}, {"a": 2}]
    first, second = Server.asked
    assert first[:2] == ("GET", POD)
    assert first[2] == {
        "limit": ["500"],
        "labelSelector": ["x=y"],
        "fieldSelector": ["spec.nodeName=n"],
    }
    assert second[2]["continue"] == ["next"]


def test_bodies_and_content_types(cluster: Cluster) -> None:
    body = {"kind": "Pod", "metadata": {"name": "a"}}
    Server.answers = [(201, body)] * 4
    cluster.create(body)
    cluster.replace(body)
    cluster.patch("Pod", "a", {"metadata": {}})
    assert cluster.delete("Pod", "a", 10)
    asked = [(method, path, sent) for method, path, _, sent, _ in Server.asked]
    assert asked == [
        ("POST", POD, body),
        ("PUT", f"{POD}/a", body),
        ("PATCH", f"{POD}/a", {"metadata": {}}),
        ("DELETE", f"{POD}/a", {"propagationPolicy": "Background", "gracePeriodSeconds": 10}),
    ]
    assert Server.asked[2][4] == "application/merge-patch+json"


@pytest.mark.parametrize(
    ("status", "kind"),
    [
        (403, RefusedError),
        (404, NotFoundError),
        (409, ConflictError),
        (422, RefusedError),
        (418, ClusterError),
    ],
)
def test_refusal_is_told_in_the_servers_words(
    cluster: Cluster, status: int, kind: type[Exception]
) -> None:
    Server.answers = [(status, {"kind": "Status", "message": "exceeded quota: gpus"})]
    with pytest.raises(kind, match="exceeded quota: gpus"):
        cluster.get("Pod", "a")
    assert len(Server.asked) == 1


def test_server_that_is_busy_is_asked_again(cluster: Cluster) -> None:
    Server.answers = [(503, b"try later"), (429, b""), (200, {"kind": "Pod"})]
    assert cluster.get("Pod", "a") == {"kind": "Pod"}


def test_server_that_stays_busy_is_an_error(cluster: Cluster) -> None:
    Server.answers = [(503, b"")] * 3
    with pytest.raises(ClusterError, match=f"GET {POD}/a: HTTP 503"):
        cluster.get("Pod", "a")


def test_answer_that_is_no_json_is_an_error(cluster: Cluster) -> None:
    Server.answers = [(200, b"<html>")]
    with pytest.raises(ClusterError, match=f"GET {POD}/a: the answer is no JSON"):
        cluster.get("Pod", "a")


def test_log_is_asked_for_as_told(cluster: Cluster) -> None:
    Server.answers = [(200, b"2026-03-04T05:06:07.000000001Z hello\n")]
    since = "2026-03-04T05:06:07Z"
    chunks = cluster.logs("a", "tool", follow=True, timestamps=True, since=since)
    assert b"".join(chunks).endswith(b"hello\n")
    (asked,) = Server.asked
    assert asked[1] == f"{POD}/a/log"
    assert asked[2] == {
        "container": ["tool"],
        "follow": ["true"],
        "timestamps": ["true"],
        "sinceTime": [since],
    }


def test_changes_since_a_list_are_read_in_their_order(cluster: Cluster) -> None:
    pods: list[dict[str, Any]] = [{"metadata": {"name": name}} for name in ("a", "b")]
    lines = [
        json.dumps({"type": kind, "object": item}).encode()
        for kind, item in (("MODIFIED", pods[1]), ("DELETED", pods[0]))
    ]
    Server.answers = [
        (200, {"items": [], "metadata": {"resourceVersion": "815"}}),
        (200, b"\n".join(lines) + b"\n"),
        (200, b""),
    ]
    found, version = cluster.find_at("Pod", "x=y")
    assert (found, version) == ([], "815")
    changes = cluster.changes("Pod", "x=y", version)
    assert [(change.kind, change.item) for change in changes] == [
        ("MODIFIED", pods[1]),
        ("DELETED", pods[0]),
    ]
    assert Server.asked[1][2] == {
        "watch": ["true"],
        "resourceVersion": ["815"],
        "timeoutSeconds": ["1"],
        "labelSelector": ["x=y"],
    }
    assert cluster.changes("Pod", "x=y", version) == []


@pytest.mark.parametrize(
    ("status", "body", "words"),
    [
        (
            200,
            {"type": "ERROR", "object": {"kind": "Status", "message": "too old resource version"}},
            "too old",
        ),
        (410, {"message": "too old resource version"}, "too old"),
        (403, {"message": "pods is forbidden: cannot watch"}, "cannot watch"),
        (200, b'{"type": "MODIFIED", "obj', "no list of changes"),
        (200, b"[1]\n", "no list of changes"),
    ],
    ids=["compacted", "gone", "no-right", "cut-off", "something-else"],
)
def test_changes_that_cannot_be_told(cluster: Cluster, status: int, body: Any, words: str) -> None:
    Server.answers = [(status, body)]
    with pytest.raises(ClusterError, match=words):
        cluster.changes("Pod", "x=y", "815")


def test_delete_can_ask_for_an_object_that_nobody_has_changed(cluster: Cluster) -> None:
    Server.answers = [(409, {"message": "the object has been modified"})]
    with pytest.raises(ConflictError):
        cluster.delete("Pod", "a", version="815")
    assert Server.asked[0][3]["preconditions"] == {"resourceVersion": "815"}
