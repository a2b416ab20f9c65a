"""What `deploy/callers` says is started, each line of it, and used by two people over TLS; see `composed`."""

from __future__ import annotations

import os
import secrets
import subprocess
import sys
from pathlib import Path

import pytest

from tests.external import composed, deployed
from tests.external.keycloak import JAVA, VARIABLE, folder
from tests.external.support import ROOT
from toolfold_adapters.gateway.callers.keys import VARIABLE as KEY
from toolfold_adapters.gateway.callers.keys import new_key

SECONDS = 300
SECRETS = ("REDIS_PASSWORD", "TOOLFOLD_HANDLE_KEY", "GATEWAY_SECRET", "FIRST_PASSWORD")

pytestmark = [
    pytest.mark.spec("GWY-19"),
    pytest.mark.xdist_group("keycloak"),
    pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() != 0, reason="only root can make networks"),
]


def test_two_people_use_what_is_deployed_and_go_on_when_a_replica_is_killed(callers_programs: None) -> None:
    hosts = [name.removeprefix("https://") for name in (deployed.TOOLS, deployed.LOGIN)]
    file = str(ROOT / "deploy/callers/compose.yaml")
    command = [sys.executable, "-m", composed.__name__, file, *hosts, "--", sys.executable, "-m", deployed.__name__]
    own = {name: secrets.token_urlsafe(24) for name in SECRETS}
    own |= {KEY: new_key(), "WIKI_URL": f"http://{deployed.WIKI}:{deployed.WIKI_PORT}/mcp"}
    own |= {"ISSUER_PASSWORD": "admin", "ISSUER_DB": "dev-mem", "JAVA_OPTS_APPEND": JAVA, VARIABLE: str(folder())}
    path = os.pathsep.join((str(Path(sys.executable).parent), os.environ["PATH"]))
    ran = subprocess.run(
        ["unshare", "--net", "--mount", *command],
        env={**os.environ, **own, "PATH": path},
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=SECONDS,
        check=False,
    )
    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert ran.stdout.splitlines()[-1] == "ok"
