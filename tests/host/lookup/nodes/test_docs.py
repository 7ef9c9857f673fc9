"""The unit and the manifest of docs/streams/lookup.md, and the commands within them."""

from __future__ import annotations

import re
from configparser import ConfigParser
from pathlib import Path

import pytest

from penstock.cli.serve import app
from penstock.host.lookup.nodes.ring import Node

PAGE = Path("docs/streams/lookup.md").read_text(encoding="utf-8")


def block(language: str) -> str:
    (found,) = re.findall(rf"^```{language}\n(.*?)^```", PAGE, re.DOTALL | re.MULTILINE)
    return found


def options(command: list[str]) -> dict[str, str]:
    assert "serve" in command
    rest = command[command.index("serve") + 1 :]
    return dict(zip(rest[::2], rest[1::2], strict=True))


def check(given: dict[str, str]) -> None:
    import typer

    known = {name for one in typer.main.get_command(app).params for name in one.opts}
    assert given.keys() <= known
    assert {"--relation", "--node", "--listen", "--token-file"} <= given.keys()


def test_unit():
    unit = ConfigParser(interpolation=None)
    unit.optionxform = str  # pyright: ignore[reportAttributeAccessIssue]
    unit.read_string(block("ini"))
    given = options(unit["Service"]["ExecStart"].split())
    check(given)
    assert given["--node"] == "%i"
    assert unit["Service"]["Restart"] == "always"


def test_manifest():
    yaml = pytest.importorskip("yaml", reason="needs pip install pyyaml")
    service, pods = yaml.safe_load_all(block("yaml"))
    spec = pods["spec"]["template"]["spec"]
    (container,) = spec["containers"]
    given = options(container["args"])
    check(given)
    assert given["--node"] == "$(POD)"
    assert [one["name"] for one in container["env"]] == ["POD"]
    assert pods["spec"]["serviceName"] == service["metadata"]["name"]
    assert service["spec"]["selector"] == pods["spec"]["selector"]["matchLabels"]
    assert service["spec"]["selector"] == pods["spec"]["template"]["metadata"]["labels"]
    mounts = {mount["name"] for mount in container["volumeMounts"]}
    assert mounts == {volume["name"] for volume in spec["volumes"]}
    for number in range(pods["spec"]["replicas"]):
        pod = f"{pods['metadata']['name']}-{number}"
        node = Node(pod, f"tcp://{pod}.{service['metadata']['name']}:4317")
        assert node.address in PAGE or number
