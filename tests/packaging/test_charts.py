"""``compose.yaml`` and the Helm chart are what their schemas demand, and start the image as its Containerfile means.

Neither was run with an engine. The templates are rendered by Go's own engine; if there is a ``helm``, it has to make
the same of them.
"""

from __future__ import annotations

import json
import shlex
import shutil
import stat
import subprocess
import sys
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from bussrv.cli.main import BUSSRV
from bussrv.version import VERSION
from tests.packaging.test_container import CONFIGURATION, JOURNAL, command, of

yaml = pytest.importorskip("yaml")
go_template = pytest.importorskip("go_template", reason="py-go-template has wheels for Linux on x86_64 only")

ROOT = Path(__file__).parents[2]
CHART = ROOT / "contrib/helm/bussrv"
COMPOSE = ROOT / "compose.yaml"
PROGRAMS = Path(sys.executable).parent
RULES = "{extends: default, rules: {line-length: {max: 120}, document-start: disable}}"


def checked(program: str, *arguments: str | Path) -> None:
    ran = subprocess.run([PROGRAMS / program, *arguments], capture_output=True, text=True, timeout=60)
    assert (ran.returncode, ran.stdout.replace("ok -- validation done\n", "")) == (0, ""), ran.stdout + ran.stderr


@cache
def rendered(changes: str = "{}") -> dict[str, Any]:
    """The resources of the chart, by their kinds, with values of one's own."""
    from kubernetes_validate import validate

    values = {**yaml.safe_load((CHART / "values.yaml").read_text()), **json.loads(changes)}
    about = yaml.safe_load((CHART / "Chart.yaml").read_text())
    scope = {"Values": values, "Release": {"Name": "hall"}, "Chart": {"AppVersion": about["appVersion"]}}
    found = {}
    for template in sorted((CHART / "templates").iterdir()):
        text = go_template.render(template, scope).decode()
        for each in yaml.safe_load_all(text):
            validate(each, "1.30", strict=True)
            found[each["kind"]] = each
    return found


def test_the_files_are_well_formed(tmp_path: Path) -> None:
    checked("yamllint", "-s", "-d", RULES, COMPOSE, CHART / "Chart.yaml", CHART / "values.yaml")
    checked("check-jsonschema", "--builtin-schema", "vendor.compose-spec", COMPOSE)
    checked("check-jsonschema", "--check-metaschema", CHART / "values.schema.json")
    checked("check-jsonschema", "--schemafile", CHART / "values.schema.json", CHART / "values.yaml")
    wrong = tmp_path / "wrong.yaml"
    wrong.write_text((CHART / "values.yaml").read_text().replace("port: 7890", "port: 78900"))
    with pytest.raises(AssertionError, match="78900"):
        checked("check-jsonschema", "--schemafile", CHART / "values.schema.json", wrong)
    assert yaml.safe_load((CHART / "Chart.yaml").read_text())["appVersion"] == VERSION


def test_compose_starts_the_image_with_few_rights() -> None:
    service = yaml.safe_load(COMPOSE.read_text())["services"]["bussrv"]
    assert service["build"]["dockerfile"] == "Containerfile"
    assert (service["read_only"], service["cap_drop"]) == (True, ["ALL"])
    assert service["volumes"] == [f"config:{CONFIGURATION}:ro", f"journal:{JOURNAL}"]
    exposed = {each.partition("/")[0] for each in of("EXPOSE").split()}
    assert {each.partition(":")[2] for each in service["ports"]} <= exposed


def test_the_chart_starts_the_image_with_few_rights() -> None:
    pod = rendered()["StatefulSet"]["spec"]["template"]["spec"]
    user, _, group = of("USER").partition(":")
    about = pod["securityContext"]
    assert (about["runAsNonRoot"], about["runAsUser"], about["runAsGroup"]) == (True, int(user), int(group))
    for each in (*pod["containers"], *pod["initContainers"]):
        assert each["securityContext"]["readOnlyRootFilesystem"]
        assert each["securityContext"]["capabilities"] == {"drop": ["ALL"]}
    (server,) = pod["containers"]
    assert [each["mountPath"] for each in server["volumeMounts"]] == [CONFIGURATION, JOURNAL]
    for probe in ("readinessProbe", "livenessProbe", "startupProbe"):
        assert server[probe]["exec"]["command"] == command("HEALTHCHECK")
    assert BUSSRV.get_command(BUSSRV.make_context("bussrv", []), server["livenessProbe"]["exec"]["command"][1])


def test_its_ports_are_those_of_the_values() -> None:
    ports = {"mqtt": {"port": 8883, "protocol": "TCP"}, "inbus": {"port": 7222, "protocol": "UDP"}}
    found = rendered(json.dumps({"ports": ports, "journal": {"size": "1Gi", "storageClass": "fast"}}))
    listed = {(each["name"], each["port"], each["protocol"]) for each in found["Service"]["spec"]["ports"]}
    assert listed == {("mqtt", 8883, "TCP"), ("inbus", 7222, "UDP")}
    (server,) = found["StatefulSet"]["spec"]["template"]["spec"]["containers"]
    assert {(each["name"], each["containerPort"], each["protocol"]) for each in server["ports"]} == listed
    (claim,) = found["StatefulSet"]["spec"]["volumeClaimTemplates"]
    assert claim["spec"]["storageClassName"] == "fast"


@pytest.mark.skipif(shutil.which("helm") is None, reason="there is no helm")
def test_helm_makes_the_same_of_it(tmp_path: Path) -> None:
    values = tmp_path / "values.yaml"
    service = {"type": "LoadBalancer", "annotations": {"example.org/name": "hall"}}
    mqtt = {"port": 8883, "protocol": "TCP"}
    # Helm adds the default ports to these, except for those that are null.
    for ports, merged in (({}, None), ({"objects": None, "spp": None, "mqtt": mqtt}, {"mqtt": mqtt})):
        values.write_text(json.dumps({"service": service, "ports": ports}))
        for words, said in ((["lint", "--strict", CHART], "0 chart(s) failed"), (["template", "hall", CHART], "kind:")):
            ran = subprocess.run(["helm", *words, "--values", values], capture_output=True, text=True, timeout=60)
            assert (ran.returncode, ran.stderr) == (0, "")
            assert said in ran.stdout
        found = {each["kind"]: each for each in yaml.safe_load_all(ran.stdout)}
        assert found == rendered(json.dumps({"service": service, **({"ports": merged} if merged else {})}))


def test_keys_of_a_secret_are_readable_by_the_server_alone(tmp_path: Path) -> None:
    """Also when the files are there already, since the pod was started again."""
    (first,) = rendered()["StatefulSet"]["spec"]["template"]["spec"]["initContainers"]
    secret, place = tmp_path / "secret", tmp_path / "place"
    secret.mkdir()
    place.mkdir()
    (tmp_path / "server.key").write_text("secret")
    (tmp_path / "server.key").chmod(0o440)
    (secret / "server.key").symlink_to(tmp_path / "server.key")
    words = [each.replace("/run/secret", str(secret)).replace(CONFIGURATION, str(place)) for each in first["command"]]
    for _ in range(2):
        subprocess.run(words, check=True, timeout=30)
        copied = (place / "server.key").lstat()
        assert (stat.S_ISREG(copied.st_mode), stat.S_IMODE(copied.st_mode)) == (True, 0o400), shlex.join(words)
