"""Files to deploy with: valid by their schemas, and true to the program that they start."""

from __future__ import annotations

import importlib.resources
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import jsonschema
import kubernetes_validate
import pytest
import yaml

from holotron import errors
from holotron.fleet.launching import STOP_SECONDS
from holotron.fleet.serving import Addresses
from holotron.server.run import CUT_SECONDS
from holotron.server.settings import ServerSettings
from tests.deploy.files import DEPLOY, PODS, compose, environment, pod, resource, resources, unit
from tests.docs.parsing import wrong_arguments

ROOT = DEPLOY.parent
OLDEST = "1.30"  # of Kubernetes: the pause before an end (preStop.sleep)


# -------------------------------------------------------------------------------------------------------------- schemas


@pytest.mark.parametrize("version", [OLDEST, kubernetes_validate.latest_version()])
def test_kubernetes_objects_are_valid(version: str) -> None:
    for one in resources():
        kubernetes_validate.validate(one, version, strict=True)


def test_the_check_of_kubernetes_objects_can_fail() -> None:
    wrong = resource("StatefulSet", "holotron-replica")
    wrong["spec"]["template"]["spec"]["containers"][0]["livenesProbe"] = {}
    with pytest.raises(kubernetes_validate.ValidationError):
        kubernetes_validate.validate(wrong, OLDEST, strict=True)


@pytest.mark.skipif(shutil.which("kubectl") is None, reason="needs kubectl")
@pytest.mark.parametrize(
    ("folder", "image"), [("fleet", "registry.example.com/holotron:cuda"), ("small", "holotron:cpu")]
)
def test_kustomizations_build(folder: str, image: str) -> None:
    command = ["kubectl", "kustomize", DEPLOY / "kubernetes" / folder]
    built = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    objects = list(yaml.safe_load_all(built))
    assert len(objects) == len(resources())
    for one in objects:
        kubernetes_validate.validate(one, OLDEST, strict=True)
    assert set(re.findall(r"image: (\S+)", built)) == {image}


@pytest.mark.parametrize("name", ["compose.yaml", "compose.cuda.yaml"])
def test_compose_files_are_valid(name: str) -> None:
    vendored = importlib.resources.files("check_jsonschema.builtin_schemas.vendor") / "compose-spec.json"
    schema = json.loads(vendored.read_text())
    jsonschema.validate(compose(name), schema)
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(compose(name) | {"sevices": {}}, schema)


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="needs systemd")
def test_the_unit_is_valid_and_exposes_little(tmp_path: Path) -> None:
    text = (DEPLOY / "systemd" / "holotron.service").read_text()
    (tmp_path / "holotron.service").write_text(text.replace("/opt/holotron/bin/holotron", sys.executable))
    verify = ["systemd-analyze", "verify", "--man=no", tmp_path / "holotron.service"]
    done = subprocess.run(verify, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    judge = ["systemd-analyze", "security", "--offline=true", "--threshold=25", tmp_path / "holotron.service"]
    done = subprocess.run(judge, capture_output=True, text=True, check=False)  # 25: an exposure of 2.5 of 10
    if "--offline" not in done.stderr:  # older than 250
        assert done.returncode == 0, done.stdout[-500:]


# ------------------------------------------------------------------------------------------------ true to the program


def commands() -> dict[str, tuple[list[str], dict[str, str]]]:
    """What is started where, and with which environment."""
    found: dict[str, tuple[list[str], dict[str, str]]] = {}
    for kind, name in PODS:
        (container,) = pod(kind, name)["containers"]
        found[name] = container["args"], environment(container, "fleet-secret")
    for name in ("compose.yaml", "compose.cuda.yaml"):
        server = compose(name)["services"]["server"]
        words = [re.sub(r"\$\{\w+:-(.*)\}", r"\1", word) for word in server["command"]]
        found[name] = words, server.get("environment", {})
    found["systemd"] = shlex.split(unit()["ExecStart"])[1:], {}
    return found


@pytest.mark.parametrize("where", commands())
def test_commands_and_settings_exist(where: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "keys").write_text("a-key\n")
    words, variables = commands()[where]
    places = {"/etc/holotron/server.toml": str(DEPLOY / "systemd" / "server.toml"), "%d/keys": str(tmp_path / "keys")}
    for name, value in variables.items():
        monkeypatch.setenv(name, str(tmp_path / "keys") if name.endswith("KEY_FILE") else value)
    assert wrong_arguments([places.get(word, word) for word in words]) is None


def seconds(text: str) -> float:
    return float(text.removesuffix("s"))


def test_there_is_time_to_drain() -> None:
    drain = ServerSettings().drain_seconds
    fleet_on_one_machine = drain + CUT_SECONDS + STOP_SECONDS
    assert seconds(unit()["TimeoutStopSec"]) > fleet_on_one_machine
    assert unit()["KillMode"] == "mixed", "replicas are the entrance's to end"
    assert seconds(compose("compose.yaml")["services"]["server"]["stop_grace_period"]) > fleet_on_one_machine
    for kind, name in PODS:
        spec = pod(kind, name)
        (container,) = spec["containers"]
        given = float(environment(container, "")["HOLOTRON_SERVER__DRAIN_SECONDS"])
        pause = container.get("lifecycle", {}).get("preStop", {}).get("sleep", {}).get("seconds", 0)
        assert spec["terminationGracePeriodSeconds"] > pause + given + CUT_SECONDS


def test_what_is_hopeless_is_not_tried_again() -> None:
    hopeless = {errors.ConfigError.exit_code, errors.CheckpointError.exit_code, errors.MissingDependency.exit_code}
    assert {int(code) for code in unit()["RestartPreventExitStatus"].split()} == hopeless


def test_the_entrance_knows_its_replicas() -> None:
    replicas, service = resource("StatefulSet", "holotron-replica"), resource("Service", "holotron-replicas")
    (container,) = pod("Deployment", "holotron-entrance")["containers"]
    (listed,) = [word.removeprefix("--replicas=") for word in container["args"] if word.startswith("--replicas=")]
    count, port = replicas["spec"]["replicas"], service["spec"]["ports"][0]["port"]
    names = [f"http://holotron-replica-{n}.holotron-replicas:{port}" for n in range(count)]
    assert listed.split(",") == names
    assert Addresses(names)
    assert replicas["spec"]["serviceName"] == service["metadata"]["name"]
    assert service["spec"]["publishNotReadyAddresses"], "else one that ends cannot be found, and loses its sessions"
    assert resource("PodDisruptionBudget", "holotron-replica")["spec"]["maxUnavailable"] < count


def test_labels_select_what_they_should() -> None:
    labels = {name: resource(kind, name)["spec"]["template"]["metadata"]["labels"] for kind, name in PODS}

    def chosen(selector: dict[str, str]) -> list[str]:
        return [name for name, has in labels.items() if selector.items() <= has.items()]

    assert chosen(resource("Service", "holotron")["spec"]["selector"]) == ["holotron-entrance"]
    assert chosen(resource("Service", "holotron-replicas")["spec"]["selector"]) == ["holotron-replica"]
    policy = resource("NetworkPolicy", "holotron-replicas")["spec"]
    assert chosen(policy["podSelector"]["matchLabels"]) == ["holotron-replica"]
    assert len(chosen(policy["ingress"][0]["from"][0]["podSelector"]["matchLabels"])) == 2
    for kind, name in PODS:
        assert chosen(resource(kind, name)["spec"]["selector"]["matchLabels"]) == [name]
    assert chosen(resource("PodDisruptionBudget", "holotron-replica")["spec"]["selector"]["matchLabels"]) == [
        "holotron-replica"
    ]


@pytest.mark.parametrize(("kind", "name"), PODS)
def test_pods_have_no_rights_and_say_what_they_need(kind: str, name: str) -> None:
    spec = pod(kind, name)
    (container,) = spec["containers"]
    assert spec["securityContext"]["runAsNonRoot"] and not spec["automountServiceAccountToken"]
    rights = container["securityContext"]
    assert rights["readOnlyRootFilesystem"] and not rights["allowPrivilegeEscalation"]
    assert rights["capabilities"] == {"drop": ["ALL"]}
    assert {"cpu", "memory"} <= set(container["resources"]["requests"])
    volumes = {one["name"] for one in spec["volumes"]}
    volumes |= {one["metadata"]["name"] for one in resource(kind, name)["spec"].get("volumeClaimTemplates", [])}
    assert {one["name"] for one in container["volumeMounts"]} == volumes


# ------------------------------------------------------------------------------------------------------------ the image


def instructions() -> list[tuple[str, str]]:
    text = (DEPLOY / "Dockerfile").read_text()
    lines = re.sub(r"^#.*\n", "", text, flags=re.MULTILINE).replace("\\\n", " ").splitlines()
    return [(line.split()[0], line.split(maxsplit=1)[1]) for line in lines if line.strip()]


def test_the_image_is_made_of_what_is_there() -> None:
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    allowed = {line[1:] for line in (ROOT / ".dockerignore").read_text().splitlines() if line.startswith("!")}
    stages, copied = [], set()
    for word, rest in instructions():
        if word == "FROM":
            base, _, name = rest.split()
            assert base in [*stages, "${BASE}"]
            stages.append(name)
        elif word == "COPY" and not rest.startswith("--from"):
            copied |= set(rest.split()[:-1])
        elif word == "COPY":
            assert rest.split()[0].removeprefix("--from=") in stages
        elif word == "ARG" and rest.startswith("EXTRAS="):
            assert set(rest.removeprefix("EXTRAS=").split(",")) <= set(extras)
    assert {"cpu", "cuda"} <= set(stages)
    assert copied == allowed and all((ROOT / name).exists() for name in copied)


def test_everybody_means_the_same_user_and_folders() -> None:
    told: dict[str, str] = dict(instructions())
    uid = told["USER"].split(":")[0]
    assert {pod(kind, name)["securityContext"]["runAsUser"] for kind, name in PODS} == {int(uid)}
    text = (DEPLOY / "Dockerfile").read_text()
    mounts = {volume.split(":")[1] for volume in compose("compose.yaml")["services"]["server"]["volumes"]}
    assert all(mount in text for mount in mounts)
    build: Any = [compose(name)["services"]["server"]["build"] for name in ("compose.yaml", "compose.cuda.yaml")]
    assert [one["target"] for one in build] == ["cpu", "cuda"]
    assert all((DEPLOY / one["context"] / one["dockerfile"]).resolve() == DEPLOY / "Dockerfile" for one in build)
    for volume in (v for s in compose("compose.yaml")["services"].values() for v in s["volumes"] if v[0] == "."):
        assert os.path.exists(DEPLOY / volume.split(":")[0]), volume
