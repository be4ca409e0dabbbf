"""What is in deploy/, read."""

from __future__ import annotations

import configparser
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml

DEPLOY = Path(__file__).parents[2] / "deploy"
FLEET = DEPLOY / "kubernetes" / "fleet"
PODS = (("StatefulSet", "holotron-replica"), ("Deployment", "holotron-entrance"))


def resources(folder: Path = FLEET) -> list[dict[str, Any]]:
    """Kubernetes objects, as they are written."""
    listed = yaml.safe_load((folder / "kustomization.yaml").read_text())["resources"]
    return [one for name in listed for one in yaml.safe_load_all((folder / name).read_text())]


def resource(kind: str, name: str) -> dict[str, Any]:
    return next(one for one in resources() if (one["kind"], one["metadata"]["name"]) == (kind, name))


def pod(kind: str, name: str) -> dict[str, Any]:
    return dict(resource(kind, name)["spec"]["template"]["spec"])


def probe_paths() -> set[str]:
    containers = [one for kind, name in PODS for one in pod(kind, name)["containers"]]
    probes = ("startupProbe", "livenessProbe", "readinessProbe")
    return {container[probe]["httpGet"]["path"] for container in containers for probe in probes}


def environment(container: dict[str, Any], secret: str) -> dict[str, str]:
    """Of a container; what comes from a Secret is `secret`."""
    return {one["name"]: one.get("value", secret) for one in container["env"]}


def compose(name: str) -> dict[str, Any]:
    return dict(yaml.safe_load((DEPLOY / name).read_text()))


def unit() -> configparser.SectionProxy:
    parser = configparser.ConfigParser(strict=False, interpolation=None)
    parser.optionxform = str  # type: ignore[assignment,method-assign]
    parser.read(DEPLOY / "systemd" / "holotron.service")
    return parser["Service"]


def dashboard_queries() -> Iterator[tuple[str, str]]:
    """(panel, query), with Grafana's variables as Prometheus would be asked."""
    told = json.loads((DEPLOY / "grafana" / "dashboards" / "holotron.json").read_text())
    for panel in told["panels"]:
        for target in panel.get("targets", []):
            query = target["expr"].replace("$__rate_interval", "1m")
            yield panel["title"], re.sub(r"\$(job|instance)", ".*", query)
    for variable in told["templating"]["list"]:
        if variable["type"] == "query":
            found = re.fullmatch(r"label_values\((.*), \w+\)", variable["query"]["query"])
            assert found is not None
            yield f"variable {variable['name']}", found[1].replace("$job", ".*")


def alert_queries() -> Iterator[tuple[str, str]]:
    for group in yaml.safe_load((DEPLOY / "prometheus" / "alerts.yml").read_text())["groups"]:
        for rule in group["rules"]:
            yield rule["alert"], rule["expr"]
