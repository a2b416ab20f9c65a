"""The image for containers: built as `deploy/Dockerfile` says from a wheel of this checkout, and started.

No registry of images is asked. The base is made of the packages of this system, under the name that `FROM` gives, and
has its Python: what the Dockerfile adds to it is tested, not the base that is published.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import anyio
import httpx2
import pytest

from tests.adapters.mcp.support import client_of, names_of
from tests.external.support import PATIENCE, ROOT
from tests.process.ports import free_port

DEPLOY = ROOT / "deploy"
APT = Path("/etc/apt")
BASE_PACKAGES = "passwd,python-is-python3,python3,python3-pip"
OFFLINE = "[global]\nno-index = true\nfind-links = /wheels\nbreak-system-packages = true\n"
BUILD_TIME = 900  # seconds

Builder = Callable[..., str]

pytestmark = [
    pytest.mark.xdist_group("image"),
    pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() != 0, reason="only root can build an image"),
]


def done(*command: str) -> str:
    """Run a command to its end, and return what it prints."""
    ran = subprocess.run(command, capture_output=True, text=True, timeout=BUILD_TIME, check=False)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    return ran.stdout.strip()


@pytest.fixture(scope="module")
def storage(image_builders: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[str]]:
    """How buildah is called with images of our own alone, which are removed in the end."""
    folder = tmp_path_factory.mktemp("images")
    yield ["buildah", "--storage-driver", "vfs", "--root", str(folder / "root"), "--runroot", str(folder / "run")]
    shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture(scope="module")
def buildah(storage: list[str]) -> Builder:
    """Run buildah, and return what it prints."""
    return lambda *arguments: done(*storage, *arguments)


@pytest.fixture(scope="module")
def base(buildah: Builder, tmp_path_factory: pytest.TempPathFactory) -> str:
    """The version of Python in the base image; where a system lets nobody make one, there is nothing to build on."""
    try:
        return made_base(buildah, tmp_path_factory.mktemp("base"))
    except AssertionError as error:
        pytest.skip(f"no base image can be made here: {str(error).strip()[-300:]}")


def made_base(buildah: Builder, folder: Path) -> str:
    """Make the base image of packages, under the name that the Dockerfile has, and return its version of Python."""
    sources = [*(APT / "sources.list.d").glob("debian.sources"), *(APT / "sources.list.d").glob("ubuntu.sources")]
    (suite,) = re.findall(
        r"^VERSION_CODENAME=(\w+)$", Path("/etc/os-release").read_text(encoding="utf-8"), re.MULTILINE
    )
    files = [str(file) for file in sources or [APT / "sources.list"]]
    packed = folder / "base.tar"
    done("mmdebstrap", "--variant=essential", f"--include={BASE_PACKAGES}", suite, str(packed), *files)
    (folder / "pip.conf").write_text(OFFLINE, encoding="utf-8")
    (name,) = re.findall(r"^FROM (\S+)$", (DEPLOY / "Dockerfile").read_text(encoding="utf-8"), re.MULTILINE)
    container = buildah("from", "scratch")
    buildah("add", "--quiet", container, str(packed), "/")
    buildah("copy", "--quiet", container, str(folder / "pip.conf"), "/etc/pip.conf")
    buildah("config", "--env", "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", container)
    program = "import platform; print(platform.python_version())"
    version = buildah("run", "--isolation", "chroot", container, "--", "python", "-c", program)
    buildah("commit", "--quiet", "--rm", container, f"docker.io/library/{name}")
    return version


@pytest.fixture(scope="module")
def wheels(base: str, uv: str, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the wheel of this checkout, and those that it needs in the image."""
    folder = tmp_path_factory.mktemp("wheels")
    done(sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", str(folder), str(ROOT))
    (wheel,) = folder.glob("*.whl")
    wanted, others = folder / "wanted.txt", folder / "others.txt"
    wanted.write_text(f"toolfold[cli,meaning,redis] @ {wheel.as_uri()}\n", encoding="utf-8")
    compiled = done(
        uv, "pip", "compile", "--quiet", "--no-header", "--no-annotate", "--python-version", base, str(wanted)
    )
    lines = [line for line in compiled.splitlines() if not line.startswith("toolfold")]
    others.write_text("\n".join(lines), encoding="utf-8")
    version = base.rpartition(".")[0]
    exactly = ("--no-deps", "--only-binary=:all:", "--python-version", version, "--requirement", str(others))
    done(sys.executable, "-m", "pip", "download", "--quiet", "--dest", str(folder), *exactly)
    return folder


@pytest.fixture(scope="module")
def image(buildah: Builder, wheels: Path) -> dict[str, Any]:
    """How the image is configured, once it is built."""
    how = ("--isolation", "chroot", "--pull-never", "--format", "docker", "--volume", f"{wheels}:/wheels:ro")
    buildah("bud", *how, "--tag", "toolfold", "--file", str(DEPLOY / "Dockerfile"), str(DEPLOY))
    configured: dict[str, Any] = json.loads(buildah("inspect", "--type", "image", "toolfold"))["Docker"]["config"]
    return configured


async def until_ready(url: str, server: subprocess.Popen[str]) -> None:
    """Wait until a server is ready, or fail with what it has printed."""
    with anyio.fail_after(PATIENCE):
        async with httpx2.AsyncClient() as http:
            while True:
                if server.poll() is not None:
                    pytest.fail(server.communicate()[0])
                try:
                    if (await http.get(f"{url}/ready")).is_success:
                        return
                except httpx2.TransportError:
                    await anyio.sleep(0.1)


@contextmanager
def started(command: list[str]) -> Iterator[subprocess.Popen[str]]:
    """Start a program, and end it with all that it started."""
    output = subprocess.PIPE
    with subprocess.Popen(
        command, stdout=output, stderr=subprocess.STDOUT, text=True, start_new_session=True
    ) as process:
        try:
            yield process
        finally:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)


async def test_the_image_serves_tools_as_a_user_without_rights_and_says_that_it_is_healthy(
    buildah: Builder, storage: list[str], image: dict[str, Any]
) -> None:
    port = free_port()
    container = buildah("from", "--pull-never", "toolfold")
    own_port = ("--env", f"TOOLFOLD_PORT={port}", "--env", "TOOLFOLD_HOST=127.0.0.1")
    run = ("run", "--isolation", "chroot", "--network", "host", *own_port, container, "--")
    assert buildah(*run, "id", "--user", "--name") == image["User"] == "toolfold"
    with started([*storage, *run, *image["Entrypoint"], "toolfold_cli.shop:tools"]) as server:
        await until_ready(f"http://127.0.0.1:{port}", server)
        kind, *check = image["Healthcheck"]["Test"]
        assert kind == "CMD"
        buildah(*run, *check)
        async with client_of(f"http://127.0.0.1:{port}/mcp", "2026-07-28") as (client, _):
            assert "open_group" in await names_of(client)
