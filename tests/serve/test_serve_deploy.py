"""The files in examples/deploy name commands and options that exist."""

from __future__ import annotations

import configparser
import json
import re
import shlex
from pathlib import Path

import pytest

from seqwright import cli

DEPLOY = Path(__file__).parents[2] / "examples" / "deploy"


def parses(words: list[str]) -> bool:
    return cli.parse(words).run is not None


def test_the_unit_starts_after_a_check_and_has_time_to_drain():
    unit = configparser.ConfigParser(interpolation=None, strict=False)
    unit.optionxform = str
    unit.read_string((DEPLOY / "seqwright.service").read_text())
    service = unit["Service"]
    for key in ("ExecStartPre", "ExecStart"):
        program, *words = shlex.split(service[key])
        assert program.endswith("/seqwright")
        assert parses(words)
    assert "--check" in service["ExecStartPre"]
    assert int(service["TimeoutStopSec"]) > 30
    assert service["User"] != "root"


def test_the_image_runs_as_a_user_and_watches_its_health():
    text = (DEPLOY / "Dockerfile").read_text()
    entry = json.loads(re.search(r"^ENTRYPOINT (.*)$", text, re.MULTILINE)[1])
    assert parses([*entry[1:], "/runs/words"])
    health = json.loads(re.search(r"CMD (\[.*\])$", text, re.MULTILINE)[1])
    compile(health[2], "health", "exec")
    assert "/livez" in health[2]
    assert re.search(r"^USER (?!root)", text, re.MULTILINE)
    assert text.index("useradd") < text.index("\nUSER")


def test_the_user_of_the_image_can_write_corrections():
    text = (DEPLOY / "Dockerfile").read_text()
    user = re.search(r"useradd .*--uid (\d+)", text)[1]
    assert f"chown {user} " in text
    assert f"chown {user}" in (DEPLOY.parents[1] / "docs" / "serving.md").read_text().replace("\n", " ")
    mounts = re.findall(r"^# docker run .* -v (\S+)", text, re.MULTILINE)
    assert mounts
    assert not [mount for mount in mounts if ":ro" in mount]


@pytest.mark.parametrize("package", ["serve"])
def test_the_extra_that_the_image_installs_exists(package):
    import tomllib

    table = tomllib.loads((DEPLOY.parents[1] / "pyproject.toml").read_text())
    assert package in table["project"]["optional-dependencies"]
    assert f"[{package}]" in (DEPLOY / "Dockerfile").read_text()
