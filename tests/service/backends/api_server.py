"""A small API server of Kubernetes: pods, under its real paths, with what can go wrong."""

from __future__ import annotations

import itertools
import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlsplit

import kubernetes_validate

NEWEST = kubernetes_validate.latest_version()
PODS = "/api/v1/namespaces/apps/pods"


class ApiServer:
    """What it knows, and what it is to do wrong."""

    def __init__(self) -> None:
        self.pods: dict[str, dict[str, Any]] = {}
        self.requests: list[str] = []
        self.made: list[str] = []
        """Names of all pods that were ever made."""
        self.deleted: list[tuple[str, int]] = []
        self.faults: list[Callable[[str], tuple[int, dict[str, Any]] | str | None]] = []
        """Each is asked for every request: an answer, "hang" or "lose the answer", or None."""
        self.page = 500
        self.hanging = threading.Event()
        self._numbers = itertools.count(1)
        self._server: ThreadingHTTPServer | None = None
        self._port = 0

    @property
    def url(self) -> str:
        """Where it listens, or has listened."""
        return f"http://127.0.0.1:{self._port}"

    def begin(self) -> None:
        """Listen."""
        outer = self

        class Handler(BaseHTTPRequestHandler):
            def _do(self) -> None:
                length = int(self.headers.get("Content-Length") or 0)
                outer._handle(self, json.loads(self.rfile.read(length) or "null"))

            do_GET = do_POST = do_DELETE = _do  # noqa: N815

            def log_message(self, *_: object) -> None:
                pass

        ThreadingHTTPServer.daemon_threads = True
        self._server = ThreadingHTTPServer(("127.0.0.1", self._port), Handler)
        self._port = self._server.server_address[1]
        threading.Thread(target=self._server.serve_forever, args=(0.02,), daemon=True).start()

    def end(self) -> None:
        """Listen no more: it is away."""
        if self._server is not None:
            self.hanging.set()
            self._server.shutdown()
            self._server.server_close()
            self._server = None

    @contextmanager
    def running(self) -> Iterator[ApiServer]:
        """It listens within the block."""
        self.begin()
        try:
            yield self
        finally:
            self.end()

    def fail(self, method: str, answer: tuple[int, dict[str, Any]] | str, times: int = 1) -> None:
        """Do something wrong with the next requests of a method."""
        left = [times]

        def fault(asked: str) -> tuple[int, dict[str, Any]] | str | None:
            if asked != method or not left[0]:
                return None
            left[0] -= 1
            return answer

        self.faults.append(fault)

    def finish(self, name: str, phase: str = "Succeeded") -> None:
        """Let the processes of a pod end; one that somebody has deleted is gone then."""
        pod = self.pods[name]
        if "deletionTimestamp" in pod["metadata"]:
            del self.pods[name]
        else:
            pod["status"] = {"phase": phase}

    # -- requests ----------------------------------------------------------------------------------

    def _handle(self, request: BaseHTTPRequestHandler, body: Any) -> None:
        url = urlsplit(request.path)
        self.requests.append(f"{request.command} {url.path}")
        wrong = next((one for fault in self.faults if (one := fault(request.command)) is not None), None)
        if wrong == "hang":
            self.hanging.wait(20)
            return
        answer = wrong if isinstance(wrong, tuple) else self._answer(request.command, url, body)
        if wrong == "lose the answer":
            return
        text = json.dumps(answer[1]).encode()
        request.send_response(answer[0])
        request.send_header("Content-Type", "application/json")
        request.send_header("Content-Length", str(len(text)))
        request.end_headers()
        request.wfile.write(text)

    def _answer(self, method: str, url: Any, body: Any) -> tuple[int, dict[str, Any]]:
        query = {name: values[0] for name, values in parse_qs(url.query).items()}
        if (method, url.path) == ("GET", PODS):
            return 200, self._list(query)
        if (method, url.path) == ("POST", PODS):
            return self._create(body)
        name = url.path.removeprefix(f"{PODS}/")
        if name not in self.pods or "/" in name:
            return refused(404, "NotFound", f'pods "{name}" not found')
        if method == "DELETE":
            return self._delete(name, body, int(query.get("gracePeriodSeconds", 30)))
        return 200, self.pods[name]

    def _list(self, query: dict[str, str]) -> dict[str, Any]:
        wanted = dict(one.split("=") for one in query.get("labelSelector", "").split(",") if one)
        found = [
            pod for pod in self.pods.values() if wanted.items() <= pod["metadata"].get("labels", {}).items()
        ]
        begin, size = int(query.get("continue", 0)), min(self.page, int(query.get("limit", 500)))
        metadata = {"resourceVersion": "1"}
        if begin + size < len(found):
            metadata["continue"] = str(begin + size)
        return {
            "apiVersion": "v1",
            "kind": "PodList",
            "metadata": metadata,
            "items": found[begin : begin + size],
        }

    def _create(self, body: Any) -> tuple[int, dict[str, Any]]:
        kubernetes_validate.validate(body, NEWEST, strict=True)
        name = body["metadata"]["name"]
        if name in self.pods:
            return refused(409, "AlreadyExists", f'pods "{name}" already exists')
        number = next(self._numbers)
        made = {**body, "status": {"phase": "Pending"}}
        made["metadata"] = {**body["metadata"], "uid": f"uid-{number}"}
        self.pods[name] = made
        self.made.append(name)
        return 201, made

    def _delete(self, name: str, body: Any, seconds: int) -> tuple[int, dict[str, Any]]:
        pod = self.pods[name]
        uid = ((body or {}).get("preconditions") or {}).get("uid")
        if uid is not None and uid != pod["metadata"]["uid"]:
            return refused(409, "Conflict", "the UID in the precondition does not match")
        self.deleted.append((name, seconds))
        if seconds == 0 or pod["status"]["phase"] in ("Succeeded", "Failed"):
            del self.pods[name]
        else:
            pod["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
        return 200, pod


def refused(code: int, reason: str, message: str = "") -> tuple[int, dict[str, Any]]:
    """An answer that says no."""
    return code, {
        "apiVersion": "v1",
        "kind": "Status",
        "status": "Failure",
        "reason": reason,
        "message": message,
        "code": code,
    }
