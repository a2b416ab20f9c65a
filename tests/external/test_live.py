"""The live page in a real browser: it moves as the sessions do, bears any names and numbers, and loads nothing else."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from threading import Event
from typing import Any

import anyio
import pytest
import uvicorn
from anyio.from_thread import BlockingPortal, start_blocking_portal
from attrs import frozen

from tests.adapters.mcp.desk import make_desk
from tests.diagrams.pages import HOSTILE, hostile
from tests.external.browser import Browser
from toolfold import Session, Snapshot, ToolfoldError, ToolSet
from toolfold_diagrams import live
from toolfold_diagrams.live import views
from toolfold_diagrams.live.app import Live
from toolfold_diagrams.live.recording import Recording

SIZES = ((1600, 1000), (1200, 800), (900, 700), (390, 844))
ROWS = "#sessions [role=option]"
CHOSEN = ["texts", "#chosen"]
# By their classes, which have the names of the machine's states.
STATES = "[...document.querySelectorAll('.region')].map((each) => each.className.split(' ')[1])"


@frozen
class Served:
    """A live page that is served, and the tool set that it shows."""

    browser: Browser
    portal: BlockingPortal
    app: Live
    url: str

    def opened(self, *steps: list[Any], complaints: Sequence[str] = (), **how: Any) -> dict[str, Any]:
        """Return what the steps of a job give; the page asks for nothing but its own, and complains of nothing else."""
        (said,) = self.browser.do({"url": self.url, "steps": steps, **how})
        assert said["complaints"] == [*complaints]
        assert [each for each in said["requests"] if not each.startswith(self.url)] == []
        return said

    def goes_on(self, *steps: list[Any]) -> dict[str, Any]:
        """Return what more steps give in the page that is open."""
        (said,) = self.browser.do({"steps": steps})
        return said

    def session(self, *paths: str, **options: Any) -> Session:
        """Return an open session in which groups were opened, one after the other, where that was possible."""
        session: Session = self.portal.call(self.app.recording.tools.open_session(**options).start)
        for path in paths:
            with suppress(ToolfoldError):
                self.portal.call(session.activate, path)
        return session


class _Server(uvicorn.Server):
    ready: Callable[[], None]

    async def startup(self, sockets: Any = None) -> None:
        await super().startup(sockets)
        self.ready()


@contextmanager
def served(browser: Browser, tools: ToolSet, **options: Any) -> Iterator[Served]:
    """Serve the live page of a tool set, recording from the start."""
    app = live(tools, **options)

    async def ending(scope: dict[str, Any], receive: Any, send: Any) -> None:
        scope["extensions"] = {"toolfold.ending": lambda: server.should_exit}
        await app(scope, receive, send)

    server = _Server(uvicorn.Config(ending, port=0, log_config=None, lifespan="off", timeout_graceful_shutdown=60))
    with start_blocking_portal() as portal:
        ready = portal.call(anyio.Event)
        server.ready = ready.set
        running = portal.start_task_soon(server.serve)
        portal.call(ready.wait)
        portal.call(app.recording.watch)
        port = server.servers[0].sockets[0].getsockname()[1]
        try:
            yield Served(browser, portal, app, f"http://127.0.0.1:{port}/")
        finally:
            server.should_exit = True
            running.result()


def once(condition: str) -> list[Any]:
    """Return a step that waits until a condition holds in the page."""
    return [
        "evaluate",
        f"""(async () => {{
            const end = performance.now() + 60_000;
            while (!({condition})) {{
                if (performance.now() > end) throw new Error(`waited in vain, at ${{document.body.innerText}}`);
                await new Promise(requestAnimationFrame);
            }}
        }})()""",
    ]


def shows(selector: str, text: str) -> list[Any]:
    """Return a step that waits until an element has a text in it."""
    return once(f"document.querySelector('{selector}')?.textContent.includes({text!r})")


DRAWN = once("document.querySelector('#structure svg') && document.querySelector('#sequence svg')")


@pytest.mark.spec("DIA-3")
def test_a_session_is_shown_with_its_states_its_sequence_and_what_was_refused(browser: Browser) -> None:
    with served(browser, make_desk()) as page:
        page.session("mode_a", "mode_b", "database.write", "vault")
        said = page.opened(
            shows("#title", "open vault"),
            DRAWN,
            ["evaluate", STATES],
            ["texts", "#structure .group.active text:first-of-type"],
            ["texts", "#outcome, #reasons li"],
            ["texts", "#problems button"],
            ["texts", "#sequence .node text"],
        )["results"]
    assert said[2] == ["inactive", "locked", "inactive", "active", "inactive"]
    assert said[3] == ["● mode_b"]
    assert said[4] == ["failed", "on_activate of vault: ToolError: the key is missing"]
    assert len(said[5]) == 2
    assert "rolled back: nothing has changed" in said[6]


@pytest.mark.spec("DIA-3")
def test_it_moves_while_a_transition_runs_that_the_operator_has_begun(browser: Browser) -> None:
    tools, gate = ToolSet("gated"), anyio.Event()
    tools.register_group("slow", on_activate=lambda: None, run_in_thread=False)
    tools.register_group("slower", parent="slow", on_activate=gate.wait)
    tools.register_group("gate", on_activate=gate.set, run_in_thread=False)
    with served(browser, tools, control=True) as page:
        first, second = page.session(), page.session()
        said = page.opened(
            shows("#chosen", first.id),
            ["click", "button[aria-label='Open slow']"],
            shows("#sequence", "committed: +slow"),
            ["click", "button[aria-label='Open slower']"],
            once("document.querySelector('.region.activating')"),
            once("/on_activate(?!.*committed)/s.test(document.querySelector('#sequence').textContent)"),
            ["texts", "#outcome"],
            ["click", f"{ROWS}:nth-child(2)"],
            shows("#chosen", second.id),
            ["click", "button[aria-label='Open gate']"],
            once("document.querySelector('.region.active .name')?.textContent === 'gate'"),
            ["click", f"{ROWS}:nth-child(1)"],
            shows("#sequence", "committed: +slow.slower"),
            shows("#outcome", "changed"),
            once("document.querySelector('#structure .group.active.moved text')?.textContent === '● slower'"),
            ["texts", "#structure .group.active.moved text:first-of-type"],
            ["click", "button[aria-label='Close slow']"],
            once("document.querySelectorAll('.region.closed').length === 2"),
        )["results"]
        assert (said[6], said[15]) == (["running"], ["● slower"])
        assert (first.active, second.active) == ((), ("gate",))


def test_what_the_core_refuses_the_operator_is_shown(browser: Browser) -> None:
    with served(browser, make_desk(), control=True) as page:
        page.session()
        click = ["click", "button[aria-label='Open vault']"]
        conflict = "Failed to load resource: the server responded with a status of 409 (Conflict)"
        page.opened(shows("#chosen", "desk-"), click, shows("#refused", "HookFailed"), complaints=[conflict])
        said = page.opened(shows("#chosen", "desk-"), ["attributes", "button[aria-label='Open write']", "disabled"])
    assert said["results"][1] == [""]


def test_without_control_there_are_no_buttons_for_groups(browser: Browser) -> None:
    with served(browser, make_desk()) as page:
        page.session("mode_a")
        said = page.opened(shows("#title", "open mode_a"), ["shown", ".region button"])
    assert said["results"][1] == []


@pytest.mark.spec("DIA-3")
def test_everything_is_reached_by_the_keyboard_and_the_slider_goes_back(browser: Browser) -> None:
    focused = ["evaluate", "document.activeElement.id"]
    with served(browser, make_desk()) as page:
        page.session("mode_a", "mode_b")
        page.session("database", "database.write")
        said = page.opened(
            shows("#title", "open mode_b"),
            *([["press", "Tab"], focused] * 3),
            ["press", "End"],
            shows("#title", "open database.write"),
            *([["press", "Tab"], focused] * 2),
            ["press", "ArrowLeft"],
            once("document.querySelector('#title').textContent === 'open database'"),
            ["evaluate", STATES],
            ["attributes", "#slider", "aria-valuetext"],
            ["press", "Home"],
            shows("#title", "Before the first"),
            ["evaluate", STATES],
            *([["press", "Tab"], focused] * 2),
            ["press", "Enter"],
            shows("#title", "open database.write"),
            ["attributes", "#now", "aria-pressed"],
            ["attributes", "#sessions", "aria-activedescendant"],
        )["results"]
    reached = [each for each in said if isinstance(each, str)]
    assert reached == ["search", "busy", "sessions", "back", "slider", "on", "now"]
    assert said[15] == ["active", "inactive", "inactive", "inactive", "inactive"]
    assert said[16] == ["Step 1 of 2: open database changed"]
    assert said[19] == ["inactive", "locked", "inactive", "inactive", "inactive"]
    assert said[-2:] == [["true"], ["session-2"]]


@pytest.mark.spec("DIA-3")
def test_another_session_may_be_chosen_while_the_picture_of_one_is_drawn(
    browser: Browser, monkeypatch: pytest.MonkeyPatch
) -> None:
    drawn, is_allowed = views.structure_svg, Event()

    def slowly(snapshot: Snapshot) -> str:
        assert is_allowed.wait(60)
        return drawn(snapshot)

    monkeypatch.setattr(views, "structure_svg", slowly)
    with served(browser, make_desk()) as page:
        page.session("mode_a")
        page.session("mode_b")
        page.opened(shows("#title", "open mode_a"), ["click", f"{ROWS}:nth-child(2)"], shows("#title", "open mode_b"))
        is_allowed.set()
        assert page.goes_on(shows("#structure .group.active.moved", "mode_b"))["complaints"] == []


@pytest.mark.spec("DIA-3")
def test_until_the_chosen_session_is_shown_no_button_acts_on_it(browser: Browser) -> None:
    hold = """((real) => (Response.prototype.json = function () {
        Response.prototype.json = real;
        return new Promise((release) => (window.release = release)).then(() => this.json());
    }))(Response.prototype.json), 0"""
    with served(browser, make_desk(), control=True) as page:
        page.session("database", "mode_a")
        second = page.session("database")
        page.opened(
            shows("#title", "open mode_a"),
            ["evaluate", hold],
            ["click", f"{ROWS}:nth-child(2)"],
            once("window.release"),
            *(["click", selector] for selector in ("#back", "#now", "button[aria-label='Open mode_b']")),
            ["evaluate", "window.release()"],
            shows("#title", "open database"),
        )
        assert second.active == ("database",)


def test_a_refusal_leads_to_its_session_and_step(browser: Browser) -> None:
    with served(browser, make_desk()) as page:
        page.session("mode_a")
        second = page.session("vault", "mode_b")
        said = page.opened(
            shows("#title", "open mode_a"),
            ["click", "#problems button"],
            shows("#title", "open vault"),
            CHOSEN,
            ["attributes", "#now", "aria-pressed"],
            ["texts", "#announced"],
        )["results"]
    assert said[3:] == [[second.id], ["false"], ["on_activate of vault: ToolError: the key is missing"]]


@pytest.mark.spec("SAF-6")
def test_hostile_texts_are_shown_literally_and_nothing_of_them_runs(browser: Browser) -> None:
    tools = hostile()
    with served(browser, tools, control=True) as page:
        for text in HOSTILE:
            session = page.session(*(group.path for group in tools.catalog.groups), identity=text, caller=text)
            with suppress(ToolfoldError):
                page.portal.call(session.call, text)
        said = page.opened(
            shows("#title", "call"),
            DRAWN,
            ["texts", f"{ROWS} .name"],
            ["count", "body :is(img, b, iframe, a, style, foreignObject), svg script"],
            ["count", "script"],
            ["evaluate", "document.title"],
        )["results"]
    assert HOSTILE[0] in said[2]
    assert said[3:5] == [0, 1]
    assert said[5].endswith(", live")


def test_its_policy_blocks_injected_styles_markup_and_requests(browser: Browser) -> None:
    inject = """(async () => {
        const blocked = new Set();
        document.addEventListener("securitypolicyviolation", (event) => blocked.add(event.violatedDirective));
        const image = Object.assign(document.createElement("img"), { src: "https://toolfold.invalid/" });
        const style = Object.assign(document.createElement("style"), { textContent: "body { display: none }" });
        document.body.append(image, style);
        await fetch("https://toolfold.invalid/").catch(() => {});
        try { document.body.innerHTML = "<script>document.title = 1</script>"; } catch {}
        while (blocked.size < 4) await new Promise(requestAnimationFrame);
        return [...blocked].sort();
    })()"""
    with served(browser, make_desk()) as page:
        (said,) = browser.do({"url": page.url, "steps": [["evaluate", inject], ["evaluate", "document.title"]]})
    assert said["results"] == [
        ["connect-src", "img-src", "require-trusted-types-for", "style-src-elem"],
        "desk, live",
    ]


@pytest.mark.spec("EXP-1")
def test_equal_refusals_are_joined_and_idle_sessions_hidden_by_choice(browser: Browser) -> None:
    with served(browser, make_desk()) as page:
        page.session("mode_a")
        idle = page.session()
        said = page.opened(
            shows("#title", "open mode_a"),
            ["click", "#busy"],
            ["shown", f"{ROWS} .name"],
        )["results"]
        for _ in range(3):
            with suppress(ToolfoldError):
                page.portal.call(idle.activate, "database.write")
        joined = page.goes_on(shows("#problems .outcome", "refused 3 times"), ["texts", "#problems button"])["results"]
    assert len(said[2]) == 1
    assert len(joined[1]) == 1


@pytest.mark.spec("EXP-3")
def test_what_was_used_is_shown_where_the_operator_opens_it(browser: Browser) -> None:
    with served(browser, make_desk()) as page:
        session = page.session("mode_a")
        with suppress(ToolfoldError):
            page.portal.call(session.call, "no_such_tool")
        said = page.opened(
            shows("#title", "call"),
            ["click", "#use summary"],
            shows("#use-lines", "unknown 1"),
            ["texts", "#use-tables td:first-child"],
        )["results"]
    assert "mode_a" in said[3]


def test_hundreds_of_busy_sessions_are_shown_and_filtered(browser: Browser) -> None:
    with served(browser, make_desk()) as page:
        sessions = [page.session("mode_a", caller=f"address 10.0.0.{number}") for number in range(400)]
        busy = page.portal.start_task_soon(_keep_busy, sessions)
        said = page.opened(
            once(f"document.querySelectorAll({ROWS!r}).length === 400"),
            ["fill", "#search", "10.0.0.39"],
            ["shown", f"{ROWS} .name"],
            [
                "evaluate",
                "((was) => new Promise((done) => setTimeout(() => done(performance.now() - was))))(performance.now())",
            ],
            ["texts", "#found"],
        )
        busy.cancel()
    assert len(said["results"][2]) == 11
    assert said["results"][4] == ["11 of 400"]
    print(f"opened in {said['opened']:.0f} ms, a task of the page waited {said['results'][3]:.0f} ms")


async def _keep_busy(sessions: list[Session]) -> None:
    while True:
        for number, session in enumerate(sessions):
            await session.activate(("mode_a", "mode_b")[number % 2])
            await anyio.sleep(0.002)


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("make", [make_desk, partial(hostile)], ids=["desk", "hostile"])
def test_nothing_is_wider_than_its_place_on_any_screen(
    browser: Browser, make: Callable[[], ToolSet], scheme: str, tmp_path: Path
) -> None:
    with served(browser, make(), control=True) as page:
        groups = [group.path for group in page.app.recording.tools.catalog.groups]
        page.session(*groups, identity="x" * 400, caller="principal " + "y" * 400)
        for width, height in SIZES:
            shot = ["shot", str(tmp_path / f"{width}.png")]
            said = page.opened(DRAWN, ["overflow"], shot, width=width, height=height, scheme=scheme)
            assert said["results"][1] == []


def test_nothing_is_animated_for_those_who_prefer_that(browser: Browser) -> None:
    with served(browser, make_desk()) as page:
        page.session("mode_a")
        animations = ["evaluate", "document.getAnimations().length"]
        still = page.opened(DRAWN, animations, motion="reduce")["results"][1]
        moving = page.opened(DRAWN, animations)["results"][1]
    assert still == 0
    assert moving > 0


def test_after_a_restart_of_the_server_a_session_that_is_gone_is_not_shown(browser: Browser) -> None:
    with served(browser, make_desk(), control=True) as page:
        page.session("database")
        page.opened(once("document.querySelector('.switch:not([hidden])')"))
        page.app.recording = Recording(make_desk())
        said = page.goes_on(shows("#chosen", "No session is chosen"), ["shown", ".switch"], ["texts", "#about"])
        assert said["results"][1:] == [[], [""]]


def test_after_a_restart_of_the_server_pictures_of_a_session_with_the_same_number_are_drawn_anew(
    browser: Browser,
) -> None:
    before, after = ToolSet("desk"), ToolSet("desk")
    for tools in (before, after):
        for path in ("first", "second"):
            tools.register_group(path)
    with served(browser, before) as page:
        page.session("first")
        page.opened(shows("#sequence", "committed: +first"))
        page.app.recording = Recording(after)
        page.goes_on(shows("#chosen", "No session is chosen"))
        page.session("second")
        page.goes_on(shows("#sequence", "committed: +second"))


def test_an_answer_that_is_cut_off_does_not_stop_the_page(browser: Browser) -> None:
    cut_off = """((real) => (Response.prototype.json = () => {
        Response.prototype.json = real;
        document.body.dataset.cut = "off";
        return Promise.reject(new TypeError("cut off"));
    }))(Response.prototype.json), 0"""
    with served(browser, make_desk()) as page:
        session = page.session("mode_a")
        page.opened(shows("#chosen", ""), once("document.querySelector('.region')"), ["evaluate", cut_off])
        page.portal.call(session.activate, "mode_b")
        page.goes_on(once("document.body.dataset.cut"), shows("#title", "mode_b"))
