"""The answers of the tools: for each mode, a plain function of the buffers."""

import json
from collections.abc import Callable, Iterable, Mapping
from statistics import median
from typing import Any
from xml.etree import ElementTree

from attrs import asdict

from .events import PAGE, Action
from .telemetry import Telemetry

Report = Callable[[Telemetry], Any]


def query(path: str) -> list[dict[str, Any]]:
    """Return the elements of the page at an ElementTree path, such as `.//button`, or raise `SyntaxError`."""
    found = ElementTree.fromstring(PAGE).findall(path)
    return [{"tag": element.tag, **element.attrib, "text": (element.text or "").strip()} for element in found]


def audit(telemetry: Telemetry) -> list[dict[str, str]]:
    """Return what keeps people from using the page: images, inputs and buttons without a text."""
    faults: list[dict[str, str]] = []
    for tag, key, rule in (("img", "alt", "image-alt"), ("input", "aria-label", "label"), ("button", "text", "name")):
        for element in query(f".//{tag}"):
            if not element.get(key):
                faults.append({"rule": rule, "element": f"<{tag} {element.get('id') or element.get('src')}>"})
    return faults


def _items(events: Iterable[Any]) -> list[dict[str, Any]]:
    return [asdict(event) for event in events]


def _page(telemetry: Telemetry) -> list[dict[str, Any]]:
    went = [action.target for action in telemetry.actions if action.kind == "navigate"]
    return [{"path": went[-1] if went else None, "title": ElementTree.fromstring(PAGE).findtext(".//title")}]


def _performance(telemetry: Telemetry) -> dict[str, Any]:
    return {
        "snapshots": len(telemetry.vitals),
        "largest_paint": median(one.largest_paint for one in telemetry.vitals),
        "next_paint": median(one.next_paint for one in telemetry.vitals),
        "layout_shift": max(one.layout_shift for one in telemetry.vitals),
    }


def _api(telemetry: Telemetry) -> dict[str, list[int]]:
    """Return the response statuses of each endpoint."""
    statuses: dict[str, set[int]] = {endpoint: set() for endpoint in telemetry.endpoints}
    for request in telemetry.requests:
        statuses.setdefault(f"{request.method} {request.path}", set()).add(request.status)
    return {endpoint: sorted(seen) for endpoint, seen in statuses.items()}


def _timeline(telemetry: Telemetry) -> list[dict[str, Any]]:
    errors = [line for line in telemetry.console if line.level == "error"]
    return _items(sorted([*telemetry.actions, *errors], key=lambda event: event.at))


def _script(action: Action) -> str:
    """Return the action as a line of Python; values reported by the page are quoted, so that they can't be code."""
    target, value = json.dumps(action.target), json.dumps(action.value)
    match action.kind:
        case "navigate":
            return f"page.goto({target})"
        case "click":
            return f"page.click({target})"
        case "type":
            return f"page.fill({target}, {value})"


def _reproduction(telemetry: Telemetry) -> str:
    return "\n".join(_script(action) for action in telemetry.actions)


def _test(telemetry: Telemetry) -> str:
    return "\n".join(["def test_visit(page):", *(f"    {_script(action)}" for action in telemetry.actions)])


def _pr_summary(telemetry: Telemetry) -> str:
    counts = asdict(telemetry.counts())
    return "\n".join(["The page reported:", *(f"- {name}: {count}" for name, count in counts.items() if count)])


def _sarif(telemetry: Telemetry) -> dict[str, Any]:
    results = [{"ruleId": fault["rule"], "message": {"text": fault["element"]}} for fault in audit(telemetry)]
    return {"version": "2.1.0", "runs": [{"tool": {"driver": {"name": "browser telemetry"}}, "results": results}]}


def _har(telemetry: Telemetry) -> dict[str, Any]:
    entries = [
        {
            "time": one.milliseconds,
            "request": {"method": one.method, "url": f"https://shop.test{one.path}"},
            "response": {"status": one.status},
        }
        for one in telemetry.requests
    ]
    return {"log": {"version": "1.2", "creator": {"name": "browser telemetry", "version": "1"}, "entries": entries}}


OBSERVATIONS: Mapping[str, Callable[[Telemetry], list[dict[str, Any]]]] = {
    "errors": lambda data: _items(line for line in data.console if line.level == "error"),
    "logs": lambda data: _items(data.console),
    "network": lambda data: _items(data.requests),
    "websocket_events": lambda data: _items(data.frames),
    "websocket_status": lambda data: _items(data.sockets.values()),
    "actions": lambda data: _items(data.actions),
    "vitals": lambda data: _items(data.vitals),
    "page": _page,
}
ANALYSES: Mapping[str, Report] = {
    "performance": _performance,
    "api": _api,
    "accessibility": audit,
    "changes": lambda data: asdict(data.counts()),
    "timeline": _timeline,
}
ARTEFACTS: Mapping[str, Report] = {
    "reproduction": _reproduction,
    "test": _test,
    "pr_summary": _pr_summary,
    "sarif": _sarif,
    "har": _har,
}
