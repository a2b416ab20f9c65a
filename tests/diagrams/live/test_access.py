"""Who may see the live page, and what it takes to change anything by it."""

from __future__ import annotations

from typing import Any

import pytest
from starlette.applications import Starlette
from starlette.authentication import SimpleUser
from starlette.routing import Mount

from tests.adapters.mcp.desk import make_desk
from tests.diagrams.live.watching import HOST, Response, get, post, quick, watching
from tests.diagrams.pages import hostile
from toolfold import Session, ToolSet, success_of
from toolfold_diagrams import live

PATHS = ("/", "/live.js", "/live.css", "/events", "/sessions/1")


@pytest.mark.spec("DEL-10")
@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize(
    "request_",
    [
        {"client": "10.0.0.7"},
        {"client": None},
        {"host": "tools.example.org"},
        {"host": "127.0.0.1.example.org:8000"},
        {"x_forwarded_for": "10.0.0.7"},
        {"forwarded": "for=10.0.0.7"},
        {"origin": "http://localhost:3000"},
        {"origin": "null"},
        {"sec_fetch_site": "cross-site", "sec_fetch_mode": "no-cors"},
        {"sec_fetch_site": "same-site", "sec_fetch_mode": "no-cors"},
    ],
    ids=str,
)
async def test_only_requests_from_this_machine_and_of_the_page_are_answered(
    path: str, request_: dict[str, Any]
) -> None:
    app = quick(make_desk())
    assert (await get(app, path, **request_)).status == 403
    assert not app.recording.runs


@pytest.mark.parametrize(("client", "host"), [("127.0.0.1", HOST), ("::1", "[::1]:8000"), ("127.0.0.1", "localhost")])
async def test_the_page_is_answered_on_this_machine(client: str, host: str) -> None:
    assert (await get(quick(make_desk()), "/", client=client, host=host)).status == 200


async def test_a_link_of_another_page_opens_it() -> None:
    linked = {"sec_fetch_site": "cross-site", "sec_fetch_mode": "navigate"}
    assert (await get(quick(make_desk()), "/", **linked)).status == 200


@pytest.mark.parametrize("site", ["cross-site", "same-origin", "none"])
async def test_no_window_can_be_opened_on_the_stream_of_events(site: str) -> None:
    request: dict[str, Any] = {"sec_fetch_site": site, "sec_fetch_mode": "navigate"}
    assert (await get(quick(make_desk()), "/events", **request)).status == 403


async def test_a_window_of_another_site_on_a_picture_is_refused() -> None:
    linked = {"sec_fetch_site": "cross-site", "sec_fetch_mode": "navigate"}
    assert (await get(quick(make_desk()), "/sessions/1/0/structure.svg", **linked)).status == 403


async def test_an_application_in_front_may_authenticate_or_decide() -> None:
    far: dict[str, Any] = {"client": "10.0.0.7", "host": "tools.example.org"}
    user = {"user": SimpleUser("alice")}
    assert (await get(quick(make_desk()), "/", more=user, **far)).status == 200
    assert (await get(quick(make_desk(), allow=lambda scope: scope["path"] == "/"), "/", **far)).status == 200
    assert (await get(quick(make_desk(), allow=lambda scope: False), "/")).status == 403


@pytest.mark.parametrize("path", ["/", "/live.js", "/live.css", "/sessions/9", "/nothing"])
async def test_every_response_forbids_to_load_anything_from_elsewhere(path: str) -> None:
    response = await get(quick(hostile()), path)
    policy = response.headers["content-security-policy"]
    assert policy.startswith(
        "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src data:"
    )
    assert "unsafe" not in policy
    assert "frame-ancestors 'none'" in policy
    assert response.headers["x-content-type-options"] == "nosniff"
    assert response.headers["cross-origin-resource-policy"] == "same-origin"
    assert response.headers["cache-control"] == "no-store"
    assert not [place for place in ("http://", "https://", "//cdn") if place in response.text]


@pytest.mark.parametrize(
    "path", ["/nothing", "/sessions/1/1/structure.svg", "/sessions/x", "/sessions/²", "/sessions/1/1/x", "/../live.js"]
)
async def test_what_is_not_there_is_not_found(path: str) -> None:
    assert (await get(quick(make_desk()), path)).status == 404


async def test_mounted_without_a_slash_it_redirects_to_its_folder() -> None:
    app = Starlette(routes=[Mount("/a", Starlette(routes=[Mount("/live", live(make_desk()))]))])
    response = await get(app, "/a/live")
    assert (response.status, response.headers["location"]) == (307, f"http://{HOST}/a/live/")
    assert (await get(app, "/a/live/live.js")).headers["content-type"] == "text/javascript; charset=utf-8"


# Control


async def asked(tools: ToolSet, session: Session, data: Any, *, control: bool = True, **headers: Any) -> Response:
    """Return the response to a request for a group of a session."""
    app = quick(tools, control=control)
    async with watching(app) as page:
        return await post(app, f"/sessions/{await page.key(session.id)}", data, **headers)


async def test_the_operator_opens_and_closes_groups_where_control_is_on() -> None:
    tools = make_desk()
    async with tools.open_session() as session:
        for is_open, active in ((True, ("mode_a",)), (False, ())):
            response = await asked(tools, session, {"group": "mode_a", "open": is_open})
            assert (response.status, response.json, session.active) == (200, {"changed": True}, active)


@pytest.mark.spec("ERR-2")
@pytest.mark.parametrize(
    ("group", "reason"),
    [
        ("database.write", "ParentInactive: Group 'database.write' can't be opened yet: open 'database' first."),
        ("vault", "HookFailed"),
        ("none", "GroupNotFound"),
    ],
)
async def test_what_is_refused_is_answered_with_its_reason(group: str, reason: str) -> None:
    tools = make_desk()
    async with tools.open_session() as session:
        response = await asked(tools, session, {"group": group, "open": True})
    assert response.status == 409
    assert response.json["error"].startswith(reason)


@pytest.mark.spec("SES-6", "FND-4")
async def test_the_operator_changes_no_group_that_clients_can_not_change() -> None:
    tools = ToolSet("desk")
    tools.register("observe", lambda: "seen", description="Look.")
    tools.register_group("gate", controls=False, opens_on=success_of("observe"))
    tools.register_group("base", pinned=True)
    tools.register_group("stays", show_deactivator=False)
    async with tools.open_session() as session:
        await session.activate("stays")
        for group, is_open in (("gate", True), ("base", False), ("stays", False)):
            response = await asked(tools, session, {"group": group, "open": is_open})
            assert (response.status, session.active) == (409, ("base", "stays"))
            assert response.json["error"].startswith(f"Clients can't {'open' if is_open else 'close'} the group")


async def test_without_control_nothing_is_changed() -> None:
    tools = make_desk()
    async with tools.open_session() as session:
        response = await asked(tools, session, {"group": "mode_a", "open": True}, control=False)
        assert (response.status, session.active) == (403, ())
    assert "only watches" in response.json["error"]


@pytest.mark.spec("DEL-10")
@pytest.mark.parametrize(
    "headers",
    [
        {"origin": "https://evil.example"},
        {"origin": f"http://{HOST}.evil.example"},
        {"origin": "null"},
        {"sec_fetch_site": "cross-site"},
        {"sec_fetch_site": "same-site"},
        {"content_type": "text/plain"},
        {"content_type": "application/x-www-form-urlencoded"},
    ],
    ids=str,
)
async def test_requests_of_other_pages_change_nothing(headers: dict[str, Any]) -> None:
    tools = make_desk()
    async with tools.open_session() as session:
        response = await asked(tools, session, {"group": "mode_a", "open": True}, **headers)
        assert (response.status, session.active) == (403, ())


@pytest.mark.parametrize(
    "data", [b"", b"{", b"[" * 4_000, {}, [], {"group": "mode_a"}, {"group": "mode_a", "open": 1}, b" " * 5_000 + b"{}"]
)
async def test_a_malformed_request_is_refused(data: Any) -> None:
    tools = make_desk()
    async with tools.open_session() as session:
        assert (await asked(tools, session, data)).status == 400


async def test_a_session_that_has_ended_is_not_changed() -> None:
    tools = make_desk()
    app = quick(tools, control=True)
    async with watching(app) as page:
        async with tools.open_session() as session:
            key = await page.key(session.id)
        response = await post(app, f"/sessions/{key}", {"group": "mode_a", "open": True})
        missing = await post(app, "/sessions/99", {"group": "mode_a", "open": True})
    assert (response.status, missing.status) == (409, 409)
