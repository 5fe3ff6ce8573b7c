"""Deployment files are what their readers accept, and say nothing that they should not."""

from __future__ import annotations

import configparser
import json
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import kubernetes_validate
import pytest
import yaml
from typer.testing import CliRunner

from braid.cli.main import app
from braid.core.errors import ConfigError
from braid.service.decide.backoff import LIMITS
from braid.service.deploy import render
from braid.service.settings import Settings

IMAGE = "mirror.example/braid:1.2.3"
INSTRUCTIONS = {
    "ARG", "CMD", "COPY", "ENTRYPOINT", "ENV", "EXPOSE", "FROM", "HEALTHCHECK", "RUN", "STOPSIGNAL", "USER",
    "VOLUME", "WORKDIR",
}  # fmt: skip


def units() -> dict[str, configparser.ConfigParser]:
    found = {}
    for name, text in render.systemd(render.Systemd(home="/srv/braid")).items():
        found[name] = configparser.ConfigParser(strict=False, interpolation=None)
        found[name].optionxform = str  # type: ignore[method-assign, assignment]
        found[name].read_string(text)
    return found


def manifests(**more: str) -> list[dict[str, Any]]:
    (text,) = render.kubernetes(render.Kubernetes(image=IMAGE, **more)).values()
    return [one for one in yaml.safe_load_all(text) if one is not None]


def one(kind: str, name: str = "braid") -> dict[str, Any]:
    (found,) = [
        manifest
        for manifest in manifests()
        if (manifest["kind"], manifest["metadata"]["name"]) == (kind, name)
    ]
    return found


def dockerfile(**more: str) -> list[tuple[str, str]]:
    """Instructions with their arguments."""
    (text,) = render.dockerfile(render.Dockerfile(**more)).values()
    lines = [line for line in text.splitlines() if line and not line.startswith("#")]
    joined = "\n".join(lines).replace("\\\n", " ")
    return [(line.split()[0], line.partition(" ")[2]) for line in joined.splitlines()]


# -- systemd ---------------------------------------------------------------------------------------


def test_a_restart_leaves_applications_alone_and_a_shutdown_ends_them() -> None:
    service, applications = units()["braid.service"], units()["braid-applications.service"]
    assert service["Service"]["KillMode"] == "process"
    assert service["Service"]["PrivateTmp"] == "no"
    assert service["Service"]["OOMPolicy"] == "continue"
    # It starts after the other unit, so it stops before that: nobody starts again what that ends.
    assert service["Unit"]["Requires"] == "braid-applications.service"
    assert "braid-applications.service" in service["Unit"]["After"].split()
    assert applications["Service"]["ExecStop"].endswith("/braid halt")
    assert applications["Service"]["RemainAfterExit"] == "yes"
    assert int(applications["Service"]["TimeoutStopSec"]) > LIMITS.stop
    for unit in (service, applications):
        assert unit["Service"]["User"] == "braid"
        assert "BRAID_HOME=/srv/braid" in unit["Service"]["Environment"].split()
        assert unit["Unit"]["RequiresMountsFor"] == "/srv/braid"


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="systemd is not installed")
def test_systemd_accepts_the_units(tmp_path: Path) -> None:
    files = render.systemd(render.Systemd(home=str(tmp_path), user="root", braid="/bin/true"))
    for name, text in files.items():
        (tmp_path / name).write_text(text)
    done = subprocess.run(
        ["systemd-analyze", "verify", *(str(tmp_path / name) for name in files)],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")


# -- image -----------------------------------------------------------------------------------------


def test_the_dockerfile_has_instructions_that_there_are() -> None:
    found = dockerfile()
    assert {name for name, _ in found} <= INSTRUCTIONS
    stages = [text for name, text in found if name == "FROM"]
    assert stages == ["${BASE} AS build", "${BASE}"]
    assert found[0] == ("ARG", "BASE=python:3.11-slim-bookworm")
    assert dockerfile(base="mirror.example/python:3.12@sha256:00")[0][1].endswith("sha256:00")
    last = found[found.index(("FROM", "${BASE}")) :]
    named = dict(last)
    assert named["USER"] == f"{render.UID}:{render.UID}"
    assert "health" in named["HEALTHCHECK"]
    assert named["STOPSIGNAL"] == "SIGTERM"
    assert json.loads(named["ENTRYPOINT"]) == ["tini", "--", "braid"]
    assert "--stop-applications" in json.loads(named["CMD"])
    # Whatever runs in the image was copied from the other stage.
    assert [text for name, text in last if name == "COPY"] == ["--from=build /opt/braid /opt/braid"]


def test_the_dockerfile_copies_what_a_checkout_has() -> None:
    root = Path(__file__).parents[3]
    for name, text in dockerfile():
        if name == "COPY" and not text.startswith("--from"):
            for source in text.split()[:-1]:
                assert (root / source).exists(), source


# -- Kubernetes ------------------------------------------------------------------------------------


def test_manifests_are_valid() -> None:
    newest = kubernetes_validate.latest_version()
    found = manifests(storage_class="shared")
    assert len(found) == 9
    for manifest in found:
        kubernetes_validate.validate(manifest, newest, strict=True)
        assert manifest["metadata"]["namespace"] == "braid"
    wrong = one("Deployment")
    wrong["spec"]["replica"] = 1
    with pytest.raises(kubernetes_validate.ValidationError):
        kubernetes_validate.validate(wrong, newest, strict=True)


def test_the_service_is_one_process_without_privileges() -> None:
    spec = one("Deployment")["spec"]
    assert (spec["replicas"], spec["strategy"]) == (1, {"type": "Recreate"})
    pod = spec["template"]["spec"]
    (container,) = pod["containers"]
    assert pod["securityContext"]["runAsNonRoot"] is True
    security = container["securityContext"]
    assert security["allowPrivilegeEscalation"] is False
    assert security["readOnlyRootFilesystem"] is True
    assert security["capabilities"] == {"drop": ["ALL"]}
    assert container["image"] == IMAGE
    for probe in ("startupProbe", "readinessProbe", "livenessProbe"):
        assert container[probe]["httpGet"]["path"] == "/api/v1/health"
        assert container[probe]["httpGet"]["httpHeaders"] == [{"name": "Host", "value": "localhost"}]


def test_the_service_understands_its_variables(monkeypatch: pytest.MonkeyPatch) -> None:
    (container,) = one("Deployment")["spec"]["template"]["spec"]["containers"]
    for variable in container["env"]:
        monkeypatch.setenv(variable["name"], variable.get("value", "postgresql://braid@db/braid"))
    settings = Settings()
    assert settings.backend == "kubernetes"
    assert settings.kubernetes_claim == "braid-home"
    assert settings.kubernetes_account == one("ServiceAccount", "braid-driver")["metadata"]["name"]
    assert "braid.braid.svc" in settings.hosts
    assert settings.token_file == Path("/run/secrets/braid/token")
    unknown = {v["name"] for v in container["env"]} - {f"BRAID_{n}".upper() for n in Settings.model_fields}
    assert unknown == set()


def test_drivers_get_no_token_and_the_service_may_do_little() -> None:
    assert one("ServiceAccount", "braid-driver")["automountServiceAccountToken"] is False
    assert one("Role")["rules"] == [
        {"apiGroups": [""], "resources": ["pods"], "verbs": ["create", "delete", "get", "list"]}
    ]
    assert "ingress" not in one("NetworkPolicy", "braid-drivers")["spec"]


# -- all -------------------------------------------------------------------------------------------


def test_no_file_has_a_secret_or_names_a_registry() -> None:
    files = {
        **render.systemd(render.Systemd()),
        **render.dockerfile(render.Dockerfile()),
        **render.kubernetes(render.Kubernetes(image="braid:1")),
    }
    for name, text in files.items():
        assert "$" not in text.replace("${BASE}", "").replace("$PATH", "").replace("$(openssl", ""), name
        hosts = re.findall(r"\b[a-z0-9-]+\.(?:io|com|org|net)/", text)
        assert set(hosts) <= {"kubernetes.io/", "k8s.io/"}, name
        assert not re.search(r"(?i)(password|secret|token)=(?!\"braid_\$)\S", text), name


@pytest.mark.parametrize(
    ("kind", "given", "said"),
    [
        (render.Systemd, {"home": "relative"}, "--home 'relative': it has to be the absolute path"),
        (render.Systemd, {"home": "/a\nExecStart=/bin/sh"}, "--home"),
        (render.Systemd, {"user": "a b"}, "--user"),
        (render.Dockerfile, {"base": "a\nRUN b"}, "--base"),
        (render.Kubernetes, {"image": "braid", "namespace": "A"}, "--namespace"),
        (render.Kubernetes, {"image": "braid", "storage_class": "a: b"}, "--storage-class"),
    ],
)
def test_what_would_break_a_file_is_refused(kind: Any, given: dict[str, object], said: str) -> None:
    with pytest.raises(ConfigError, match=re.escape(said)):
        render.options_of(kind, given)


def test_files_are_printed_or_written(tmp_path: Path) -> None:
    def braid(*words: str) -> tuple[int, str]:
        done = CliRunner().invoke(app, ["render", *words])
        return done.exit_code, done.output

    code, printed = braid("kubernetes", "--image", IMAGE)
    assert (code, list(yaml.safe_load_all(printed))) == (0, [None, *manifests()][-len(manifests()) :])
    folder = tmp_path / "units"
    code, printed = braid("systemd", "--home", "/srv/braid", "--out", str(folder))
    assert (code, len(printed.split())) == (0, 2)
    assert "/srv/braid" in (folder / "braid.service").read_text()
    code, printed = braid("systemd", "--out", str(folder))
    assert code != 0
    assert "there already" in printed
    assert "FROM" in braid("dockerfile", "--base", "mirror.example/python:3.12")[1]
