"""What a compose file says, started without an engine: a host in a network of its own for each container.

    unshare --net --mount python -m tests.external.composed FILE NAME… -- COMMAND…

runs COMMAND beside them once all are ready, where NAME… are names of the proxy's host, and exits with its status. Needs
root, `ip`, `mount`, and the programs of the images. Of each service these count: command, build (the Dockerfile's
ENTRYPOINT, ENV and HEALTHCHECK), environment, volumes, networks, deploy.replicas, depends_on and healthcheck; what is
in `ENGINE` is an engine's business, and another key is an error.
"""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from ipaddress import ip_network
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import yaml  # type: ignore[import-untyped]
from attrs import define, field, frozen

ENGINE = frozenset(
    {
        "image",
        "ports",
        "restart",
        "read_only",
        "tmpfs",
        "cap_drop",
        "cap_add",
        "security_opt",
        "stop_grace_period",
        "user",
    }
)
USED = frozenset({"build", "command", "environment", "volumes", "networks", "deploy", "depends_on", "healthcheck"})
KEYCLOAK = "/opt/keycloak"
PROGRAMS: Mapping[str, Sequence[str]] = {"keycloak": (f"{KEYCLOAK}/bin/kc.sh",)}
"""What the images start, where the command of a service has arguments alone."""
PLACES = tuple(map(Path, ("/run/netns", "/srv", "/opt", "/data")))
"""What is another folder than the machine's own."""
FIRST, SECONDS = 10, 120.0
_VARIABLE = re.compile(r"\$\{(\w+)(?::([-?])([^}]*))?\}")


def substituted(text: str, environment: Mapping[str, str]) -> str:
    """Return the text of a compose file with the values of its variables; raises `KeyError` where one lacks."""

    def value(found: re.Match[str]) -> str:
        name, kind, rest = found.groups()
        if given := environment.get(name):
            return given
        if kind == "-":
            return str(rest)
        raise KeyError(f"{name}: {rest or 'it is not set'}")

    return _VARIABLE.sub(value, text)


@frozen
class Image:
    """What a Dockerfile says that counts when it is started."""

    entrypoint: Sequence[str] = ()
    environment: Mapping[str, str] = field(factory=dict[str, str])
    health: Sequence[str] = ()

    @classmethod
    def of(cls, dockerfile: Path) -> Image:
        """Return what is in a file."""
        text = dockerfile.read_text(encoding="utf-8")
        entry, health = (
            re.findall(rf"^{name} (?:CMD )?(\[.*\])$", text, re.MULTILINE) for name in ("ENTRYPOINT", "HEALTHCHECK")
        )
        pairs = [
            one.partition("=") for line in re.findall(r"^ENV (.*)$", text, re.MULTILINE) for one in shlex.split(line)
        ]
        return cls(json.loads(entry[0]), {name: value for name, _, value in pairs}, json.loads(health[0]))


@define(eq=False)
class Host:
    """A container: a name, an address, and what it runs."""

    service: str
    name: str
    address: str
    command: Sequence[str]
    environment: Mapping[str, str]
    folder: str
    health: Sequence[str] = ()
    process: subprocess.Popen[bytes] | None = None

    def inside(self, *command: str) -> list[str]:
        """Return what runs a command there."""
        return ["ip", "netns", "exec", self.name, *command]

    def start(self, log: Path) -> None:
        """Start what it runs."""
        with log.open("wb") as file:
            self.process = subprocess.Popen(
                self.inside(*self.command), env=dict(self.environment), cwd=self.folder, stdout=file, stderr=file
            )

    def wait(self) -> None:
        """Return once it is healthy; a service without a check is so at once."""
        until = time.monotonic() + SECONDS
        while (
            self.health
            and subprocess.run(
                self.inside(*self.health), env=dict(self.environment), capture_output=True, check=False
            ).returncode
        ):
            assert self.process is not None
            assert self.process.poll() is None, f"{self.name} ended with {self.process.returncode}"
            assert time.monotonic() < until, f"{self.name} does not get ready"
            time.sleep(0.2)


def hosts_of(file: Path, environment: Mapping[str, str], homes: Path) -> tuple[list[Host], dict[str, Any]]:
    """Return the containers of a compose file in the order in which they start, and what it says."""
    said: dict[str, Any] = yaml.safe_load(substituted(file.read_text(encoding="utf-8"), environment))
    services: dict[str, dict[str, Any]] = said["services"]
    network = ip_network(said["networks"]["default"]["ipam"]["config"][0]["subnet"])
    free, hosts = iter([*network.hosts()][FIRST - 1 :]), list[Host]()
    while waiting := [name for name in services if name not in {host.service for host in hosts}]:
        ready = [one for one in waiting if not {*services[one].get("depends_on", {})} & {*waiting}]
        for name in ready:
            service = services[name]
            assert service.keys() <= ENGINE | USED, service.keys() - ENGINE - USED
            image = Image.of(file.parent / service["build"] / "Dockerfile") if "build" in service else Image()
            program = next(
                (one for kind, one in PROGRAMS.items() if kind in service.get("image", "")), image.entrypoint
            )
            health = service.get("healthcheck", {}).get("test", ["CMD", *image.health])[1:]
            base = {one: environment[one] for one in ("PATH", "JAVA_OPTS_APPEND", "PYTHONPATH") if one in environment}
            for number in range(service.get("deploy", {}).get("replicas", 1)):
                fixed = service.get("networks", {}).get("default", {}).get("ipv4_address")
                hosts.append(
                    Host(
                        service=name,
                        name=f"{name}-{number + 1}",
                        address=fixed or str(next(free)),
                        command=[*program, *service.get("command", [])],
                        environment={
                            **base,
                            "HOME": str(homes / f"{name}-home-{number}"),
                            **image.environment,
                            **service["environment"],
                        },
                        folder="/srv" if "build" in service else "/",
                        health=health,
                    )
                )
    return hosts, said


def set_up(hosts: Sequence[Host], said: Mapping[str, Any], file: Path, folder: Path, names: Sequence[str]) -> None:
    """Make the networks and the files that containers see; `names` are of the proxy."""
    run("mount", "--make-rprivate", "/")
    for place in PLACES:
        place.mkdir(exist_ok=True)
        run("mount", "-t", "tmpfs", "tmpfs", str(place))
    if any(KEYCLOAK in host.command[0] for host in hosts):
        shutil.copytree(os.environ["TESTS_KEYCLOAK"], KEYCLOAK, symlinks=True)
    run("ip", "link", "set", "lo", "up")
    run("ip", "link", "add", "bridge", "type", "bridge")
    subnet = said["networks"]["default"]["ipam"]["config"][0]["subnet"]
    network = ip_network(subnet)
    run("ip", "address", "add", f"{network[1]}/{network.prefixlen}", "dev", "bridge")
    run("ip", "link", "set", "bridge", "up")
    lines = [f"{host.address} {host.service}" for host in hosts]
    lines += [f"{host.address} {name}" for host in hosts if host.service == "proxy" for name in names]
    (folder / "hosts").write_text("\n".join(["127.0.0.1 localhost", *lines, ""]))
    run("mount", "--bind", str(folder / "hosts"), "/etc/hosts")
    for number, host in enumerate(hosts):
        run("ip", "netns", "add", host.name)
        run("ip", "link", "add", f"v{number}", "type", "veth", "peer", "name", "eth0", "netns", host.name)
        run("ip", "link", "set", f"v{number}", "master", "bridge", "up")
        for command in (
            ["ip", "address", "add", f"{host.address}/{network.prefixlen}", "dev", "eth0"],
            ["ip", "link", "set", "eth0", "up"],
            ["ip", "link", "set", "lo", "up"],
        ):
            run(*host.inside(*command))
    for service in said["services"].values():
        for volume in service.get("volumes", []):
            source, target, *_ = volume.split(":")
            place, at = Path(target), file.parent / source
            if not source.startswith("."):
                place.mkdir(parents=True, exist_ok=True)
                continue
            place.parent.mkdir(parents=True, exist_ok=True)
            place.touch()
            run("mount", "--bind", str(at), target)


def run(*command: str) -> None:
    """Run a command to its end; raises `CalledProcessError`."""
    subprocess.run(command, check=True)


def main(file: Path, names: Sequence[str], command: Sequence[str]) -> int:
    """Start all, run the command, and return its status."""
    new = [place for place in PLACES if not place.exists()]
    with TemporaryDirectory() as name, ExitStack() as stack:
        stack.callback(remove, new)
        folder = Path(name)
        hosts, said = hosts_of(file, os.environ, folder)
        set_up(hosts, said, file.resolve(), folder, names)
        for host in hosts:
            for other in hosts:
                if other.service in said["services"][host.service].get("depends_on", {}):
                    other.wait()
            host.start(folder / host.name)
            stack.callback(ended, host)
        for host in hosts:
            host.wait()
        processes = {host.name: host.process.pid for host in hosts if host.process is not None}
        status = subprocess.run(
            command, env={**os.environ, "CONTAINERS": json.dumps(processes)}, check=False
        ).returncode
        if status:
            for host in hosts:
                print(f"--- {host.name}\n{(folder / host.name).read_text(errors='replace')[-4000:]}", file=sys.stderr)
        return status


def remove(places: Sequence[Path]) -> None:
    """Remove folders that were made to mount something there."""
    for place in places:
        run("umount", "--lazy", str(place))
        place.rmdir()


def ended(host: Host) -> None:
    """End what a container runs."""
    if host.process is not None and host.process.poll() is None:
        host.process.terminate()
        try:
            host.process.wait(20)
        except subprocess.TimeoutExpired:
            host.process.kill()
            host.process.wait()


if __name__ == "__main__":
    at = sys.argv.index("--")
    sys.exit(main(Path(sys.argv[1]), sys.argv[2:at], sys.argv[at + 1 :]))
