"""What a model reads of foreign words has none of what a server was given, in whatever form it is printed."""

from __future__ import annotations

import json
import time
from base64 import b32encode, b64encode, urlsafe_b64encode
from html import escape
from textwrap import wrap
from typing import Any
from urllib.parse import quote, quote_plus

import anyio
import pytest

from tests.adapters.gateway.inprocess import Clock
from toolfold_adapters.gateway import GatewayConfig, Runtime, UpstreamConfig, open_gateway
from toolfold_adapters.gateway.config.settings import OAuthConfig
from toolfold_adapters.gateway.upstream.life import without_secrets
from toolfold_adapters.observe.status import as_text, status_of
from toolfold_adapters.transport.decoded import layers
from toolfold_adapters.transport.redaction import LONGEST, MASK, secrets_in, sought_in, without

pytestmark = pytest.mark.spec("GWY-4")

SECRET = "p/Ss w:rd+ü~~?>"


@pytest.mark.parametrize(
    "printed",
    [
        SECRET,
        SECRET.upper(),
        SECRET.lower(),
        quote(SECRET),
        quote(SECRET, safe=""),
        quote(SECRET, safe="").lower(),
        quote_plus(SECRET),
        "p%2fSs w:rd+ü~~?>",
        "p/Ss w:rd+\\u00fc~~?>",
        SECRET.encode().hex(),
        SECRET.encode().hex().upper(),
        b64encode(SECRET.encode()).decode(),
        urlsafe_b64encode(SECRET.encode()).decode(),
        *(b64encode(f"{user}:{SECRET}".encode()).decode() for user in ("a", "ab", "abc")),
        *(urlsafe_b64encode(f"{user}:{SECRET}".encode()).decode().rstrip("=") for user in ("a", "ab", "abc")),
        quote(quote(SECRET, safe=""), safe=""),
        quote(quote(quote(SECRET))),
        quote(b64encode(SECRET.encode()).decode(), safe=""),
        b64encode(quote(SECRET).encode()).decode(),
        b64encode(b64encode(SECRET.encode())).decode(),
        b64encode(b64encode(b64encode(SECRET.encode()))).decode().rstrip("="),
        b64encode(SECRET.encode("utf-16")).decode(),
        b32encode(SECRET.encode()).decode(),
        b32encode(SECRET.encode()).decode().rstrip("=").lower(),
        SECRET.encode().hex().encode().hex(),
        "".join(f"\\x{byte:02x}" for byte in SECRET.encode()),
        "".join(f"\\{byte:03o}" for byte in SECRET.encode()),
        "".join(f"\\u{ord(one):04x}" for one in SECRET),
        "".join(f"\\U{ord(one):08X}" for one in SECRET),
        "".join(f"\\u{{{ord(one):x}}}" for one in SECRET),
        "".join(f"&#{ord(one)};" for one in SECRET),
        "".join(f"&#x{ord(one):x};" for one in SECRET),
        json.dumps(json.dumps(SECRET)).strip('\\"'),
        escape(SECRET),
        SECRET[::-1],
        "\n".join(SECRET),
        "\u200b".join(SECRET),
        "\u00ad".join(SECRET),
        "\\n".join(SECRET),
        "\n".join(wrap(b64encode(SECRET.encode()).decode(), 8)),
        b64encode(f'{{"user": "a", "password": "{SECRET}"}}'.encode()).decode(),
        "".join(f"={byte:02X}" for byte in SECRET.encode()),
        "p/Ss w:rd+=C3=BC~~?>",
        *(between.join(f"{byte:02x}" for byte in SECRET.encode()) for between in (" ", ":", "-", ", ", "::")),
        ",".join(f"0x{byte:02x}" for byte in SECRET.encode()),
        " ".join(f"0X{byte:02X}" for byte in SECRET.encode()),
        "".join(f"{one}\x1b[0m" for one in SECRET),
        "".join(f"{one}\\x1b[31;1m" for one in SECRET),
        json.dumps(list(SECRET.encode())).strip("[]"),
        SECRET.translate({code: code + 0xFEE0 for code in range(0x21, 0x7F)}),
    ],
)
def test_a_value_is_taken_out_in_every_form(printed: str) -> None:
    said = without(f"Error: no login with {printed} at db", [SECRET])
    assert said.startswith("Error: no login with ")
    assert said.endswith(" at db")
    assert printed not in said
    left = said.removeprefix("Error: no login with ").removesuffix(" at db").strip(MASK)
    assert len(left) <= 30 or "eyJ1" in left  # what stood before it in the same words
    for part in (SECRET[4:], SECRET[4:].upper(), quote(SECRET[4:])):
        assert part not in said


@pytest.mark.parametrize(
    ("given", "said", "read"),
    [
        ("postgres://bob:hunter22@db:5432/x?a=1", 'auth failed: "hunter22"', 'auth failed: "…"'),
        ("postgres://bob:hunter%2F22@db/x", "auth failed: hunter/22", "auth failed: …"),
        ("host=db user=bob password=hunter22", "password hunter22 is wrong", "password … is wrong"),
        ("Server=db;Password='hunter 22';User=bobby1", "BOBBY1 with HUNTER 22", "… with …"),
        ("jdbc:postgresql://db/x?user=a&password=hunter22", "no hunter22", "no …"),
        ("--token=s3cret-token", "bad s3cret-token", "bad …"),
        ("Bearer s3cret-token", "bad s3cret-token", "bad …"),
        ("s3cret-token-that-is-long", "the line was cut: s3cret-token-th…", "the line was cut: …"),
        ("debug", "debug is on", "debug is on"),
        ("other", "at https://bob:pw@host/x", "at https://…@host/x"),
    ],
)
def test_what_a_value_has_inside_is_taken_out_alone_too(given: str, said: str, read: str) -> None:
    assert without(said, [given]) == read


@pytest.mark.parametrize(
    ("said", "read"),
    [
        ("no login at postgres://app:hunter22@db/x", "no login at postgres://…@db/x"),
        ("no login with token=abcdefghij", "no login with token=…"),
        ("password: hunter22 is wrong", "password: … is wrong"),
        ('{"client_secret": "s3cr3t-value"}', '{"client_secret": "…"}'),
        ("db_password=correct-horse", "db_password=…"),
        ("Authorization: Bearer abcdef123", "Authorization: Bearer …"),
        ("sent Bearer abcdef123", "sent Bearer …"),
        ("the key sk-live-abc123DEF456ghi is wrong", "the key … is wrong"),
        ("ghp_16C7e42F292c6912E7710c838347Ae178B4a", "…"),
        ("AKIAIOSFODNN7EXAMPLE", "…"),
        ("eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0.abc-DEF_123", "…"),
        ("the key 4bf92f3577b34da6a3ce929d0e0e4736", "the key …"),
        ("bad session aB3xK9pQ2mN7vR4tY8wZ.", "bad session …."),
    ],
)
def test_what_looks_like_a_secret_is_taken_out_whoever_had_it(said: str, read: str) -> None:
    assert without(said, []) == read


@pytest.mark.parametrize(
    "said",
    [
        "Invalid token: expired",
        "token=None",
        "token: null",
        "{'token': undefined, 'password': False}",
        "secret=true",
        "api_key=missing",
        "trace 4bf92f3577b34da6a3ce929d0e0e4736",
        "request_id=req_011CSHoEeqs5C35K2UUqR7Fy",
        "Request 123e4567-e89b-12d3-a456-426614174000 failed",
        "commit 8f3a1b2c9d0e4f5a6b7c8d9e0f1a2b3c4d5e6f70 not found",
        "fatal: reference is not a tree: 8f3a1b2c9d0e4f5a6b7c8d9e0f1a2b3c4d5e6f70",
        "error: pathspec '8f3a1b2c9d0e4f5a6b7c8d9e0f1a2b3c4d5e6f70' did not match",
        "sha256:9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0bd822cd15d6c15b0f00a8",
        "unexpected token: '<' at line 3",
        "the password is missing",
        "Error in /usr/lib/python3.11/site-packages/x.py, line 12",
        "InternalServerErrorException500",
        "no model claude-3-5-sonnet-20241022",
        "GET https://host.example.org/v2/items/12345678 failed",
        "2026-11-28T11:47:03.123456+00:00 out of memory",
    ],
)
def test_a_reason_is_read_as_it_is(said: str) -> None:
    assert without(said, []) == said


@pytest.mark.parametrize(
    ("secret", "said", "read"),
    [
        ("tok-8f3Kd92Lm0", "cut: tok-8f3Kd92Lm", "cut: …"),
        ("tok-8f3Kd92Lm0", "cut: ok-8f3Kd92Lm0", "cu…"),  # spaces tell nothing apart
        ("tok-8f3Kd92Lm0", "tok.8f3.Kd92 Lm0 in parts", "… in parts"),
        ("tok-8f3Kd92Lm0", "t-o-k-8-f-3-K-d-9-2-L-m-0", "…"),
        ("tok-8f3Kd92Lm0", b64encode(b"tok-8f3Kd92L").decode(), "…"),
        ("tok-8f3Kd92Lm0", "74:6f:6b:2d:38:66:33:4b:64:39:32", "…"),
        ("tok-8f3Kd92Lm0", "tok-8f3 is a name", "tok-8f3 is a name"),
        ("hunter22", "it is hunter2", "it is …"),
        ("hunter22", "a hunt for 22", "a hunt for 22"),
        ("k" + "0123456789abcdef" * 4, "begins with k0123456789abc, it says", "begins with …, it says"),
        ("k" + "0123456789abcdef" * 4, "begins with k0123456, it says", "begins with k0123456, it says"),
        ("postgres://bob:hunter22@db.example.org/x", "no postgres on db.example.org", "no postgres on db.example.org"),
        ("Server=db.example;Password=hunter22", "no server db.example, password: none", "no server …, password: none"),
        ("Bearer s3cret-token", "the bearer sent another", "the bearer sent another"),
        ("a server with the key s3cret-k3y", "the server has no s3cret-k3y", "the server has no …"),
        ('{"password": "hunter22"}', "HUNTER22 is wrong", "… is wrong"),
        ("qcbn.r3yBdGBL+EPH!1qhT6=1+q~t", "sent q-c-b-n-.-r-3-y-B-d-G-B-L-+-E-P-H-!-1-q-h-T", "sent …"),
        ("HmEFFez.Eq~S_VhyD2=8yfRfkJSp", "cut: HmEFFez.Eq~S_VhyD2=8yfRfkJS", "cut: …"),
        ("tok-8f3Kd92Lm0", "it is \\x74\\x6f\\x6b\\x2d\\x3\n8\\x66\\x33\\x4b\\x64\\x39\\x32\\x4c\\x6d\\x30", "it is …"),
        ("Zm9vYmFyYmF6cXV4=", "sent Zm9vYmFyYmF6cXV", "sent …"),
    ],
)
def test_most_of_a_secret_is_a_secret_and_words_beside_it_are_none(secret: str, said: str, read: str) -> None:
    assert without(said, [secret]) == read


@pytest.mark.parametrize(
    ("command", "said", "read"),
    [
        (("python", "-m", "server"), "The server has no module 'server'", "The server has no module 'server'"),
        (("npx", "-y", "everything", "stdio"), "stdio is everything", "stdio is everything"),
        (("python", "server.py"), "server.py: the server ended", "…: the server ended"),
        (("python", "/srv/our/board/server.py"), "cannot find /srv/our/board/x.py", "cannot find /srv/our/board/x.py"),
        (("run", "--password", "opensesame"), "opensesam", "…"),
        (("run", "--at", "eu-central-7"), "the central one, in eu-central-7", "the central one, in …"),
        (("run", "-p", "opensesame"), "it was opensesame", "it was …"),
        (("run", "8f3-Kd92Lm0ab"), "cut: 8f3-Kd92Lm0a", "cut: …"),
    ],
)
def test_arguments_that_are_words_or_paths_are_taken_out_as_a_whole_or_not_at_all(
    command: tuple[str, ...], said: str, read: str
) -> None:
    assert without_secrets(said, UpstreamConfig(command=command)) == read


def test_callers_know_of_further_secrets() -> None:
    config = UpstreamConfig(command=("run",))
    assert without_secrets("with of-the-rel4y or of-the-rel4", config, "of-the-rel4y") == "with … or …"


@pytest.mark.parametrize("piece", ["a=", "a=b ", "'a':'b',", "x1", "=61", "61:", "104, ", "YWJj", "\\x61", "%25", "ﷺ"])
def test_what_is_looked_for_and_through_grows_with_what_is_given(piece: str) -> None:
    def size(times: int) -> tuple[int, int]:
        sought = sought_in(frozenset({piece * times}), frozenset({piece * times}))
        of_layers = sum(len(layer.text) for layer in layers(piece * times))
        return sum(map(len, sought.wholes)) + sum(map(len, sought.runs.values())), of_layers

    (sought, looked), (of_twice, looked_at_twice) = size(1_500), size(3_000)
    assert of_twice <= 2.5 * sought + 100
    assert looked_at_twice <= 2.5 * looked


@pytest.mark.parametrize("word", ["token:", "sk-", "a-", "eyJ", "bearer ", "password: ", "a1"])
def test_words_that_begin_like_secrets_over_and_over_are_read_in_time(word: str) -> None:
    began = time.process_time()
    without(word * 10_000, [])
    assert time.process_time() - began < 1


def test_long_words_are_read_in_time() -> None:
    began, given = time.process_time(), [SECRET, *(f"value-{number}-of-many" for number in range(50))]
    assert len(without("A" * 5_000_000, given)) <= LONGEST + 1
    assert time.process_time() - began < 5


@pytest.mark.parametrize("text", [b64encode(b64encode(b64encode(b"x" * 5_000))).decode(), "61" * 5_000, "%25" * 5_000])
def test_what_is_encoded_many_times_is_read_in_time(text: str) -> None:
    began = time.process_time()
    without(text, [SECRET])
    assert time.process_time() - began < 3


def test_words_that_are_a_value_but_for_their_end_are_read_in_time() -> None:
    value = "/srv/projects/our-servers/tools/of-many-kinds/server.py"
    assert without(f"cannot find {value[:-9]}settings.yaml", [value]) == f"cannot find {value[:-9]}settings.yaml"


def test_what_is_secret_in_an_environment_is_known_by_its_name_or_its_form() -> None:
    environ = {
        "AWS_SECRET_ACCESS_KEY": "aws-key",
        "GITHUB_TOKEN": "gh-token",
        "DATABASE": "postgres://bob:hunter22@db/x",
        "HOME": "/home/bob",
        "LANG": "de_DE.UTF-8",
        "PWD": "/home/bob/shop",
        "OLDPWD": "/home/bob",
        "DB_PWD": "db-password",
        "SSH_AUTH_SOCK": "/tmp/agent",
        "XAUTHORITY": "/home/bob/.Xauthority",
        "GIT_AUTHOR_NAME": "Bob",
        "HTTP_AUTHORIZATION": "basic-one",
        "KEYBOARD_LAYOUT": "de",
    }
    assert set(secrets_in(environ)) == {"aws-key", "gh-token", "bob", "hunter22", "db-password", "basic-one"}


def test_nothing_that_a_server_was_given_or_inherited_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SOME_TOKEN", "inherited-one")
    config = UpstreamConfig(command=("run", "--key", "argument-1"), env={"DSN": "mysql://a:in-the-dsn@db/x"})
    said = without_secrets("ARGUMENT-1, in-the-dsn, Inherited-One, run", config)
    assert said == "…, …, …, run"
    at_url = UpstreamConfig(url="https://x.org/k3y-in-path", headers={"X-Key": "header-1"}, oauth=OAUTH)
    assert without_secrets("header-1 client-secret", at_url) == "… …"


OAUTH = OAuthConfig(client_id="team", client_secret="client-secret")


async def test_the_status_has_no_credential_and_for_a_model_no_value_at_all_that_a_server_was_given() -> None:
    def transport(config: UpstreamConfig, name: str) -> Any:
        raise OSError("no login as HUNTER22-OF-ENV in eu-central-7 with hunter22-of-arg and hunter22-of-url")

    server = UpstreamConfig(
        command=("run", "--token", "hunter22-of-arg", "--at=https://x.org/?key=hunter22-of-url"),
        env={"PW": "hunter22-of-env", "REGION": "eu-central-7"},
    )
    gateway = open_gateway(
        GatewayConfig(upstreams={"a": server}), runtime=Runtime(clock=Clock(), transport=transport), wait=False
    )
    with anyio.fail_after(60):
        async with gateway as tools:
            gateway.ask_unknown()
            while not gateway.status[0].failures:
                await anyio.lowlevel.checkpoint()
            text = as_text((await status_of(tools, gateway.status))[0])
            assert "failed once: OSError: no login as … in … with … and …." in text
            assert "no login as … in eu-central-7 with … and …." in gateway.status[0].reason


async def test_what_is_secret_where_a_relay_was_started_is_read_by_nobody() -> None:
    def transport(config: UpstreamConfig, name: str) -> Any:
        raise OSError("no login with of-the-rel4y at board")

    runtime = Runtime(clock=Clock(), transport=transport, environ={"BOARD_TOKEN": "of-the-rel4y", "BOARD": "board"})
    config = GatewayConfig(upstreams={"a": UpstreamConfig(command=("run",))})
    gateway = open_gateway(config, runtime=runtime, wait=False)
    with anyio.fail_after(60):
        async with gateway:
            gateway.ask_unknown()
            while not gateway.status[0].failures:
                await anyio.lowlevel.checkpoint()
            status = gateway.status[0]
            assert "no login with … at board" in status.reason
            assert "no login with … at board" in status.public_reason
