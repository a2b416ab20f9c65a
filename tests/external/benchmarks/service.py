"""tau2 as one desk for four services: its 57 tools in groups, and of its policies what rules can say (SPEC EVA-5).

Only one service is open at a time: the groups exclude each other. What an answer says of a session becomes a fact, and
predicates see facts: who called, and in which state what was looked up last is. Arguments they do not see, so what a
policy says of these (no more than two gigabytes) is no rule.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from attrs import frozen

from toolfold import Context, Loader, ToolError, ToolSet, View, Visibility
from toolfold_adapters.evaluation.tasks import ObservedCall
from toolfold_adapters.evaluation.world import Simulation
from toolfold_adapters.names import wire_name

from .link import Worker

SERVICES = {
    "airline": "Flights: reservations, their changes and cancellations, certificates",
    "retail": "The shop: orders, their changes, returns and exchanges, customers and products",
    "telecom": "Phone lines: customers, bills, data, roaming and suspended lines",
    "banking": "The bank: customers, cards, referrals, and what the knowledge base says",
}
AIRLINE_TODAY, AIRLINE_YESTERDAY, TELECOM_TODAY = "2024-05-15", "2024-05-14T15:00:00", "2025-02-25"


# -- what answers say, as facts ----------------------------------------------------------------------------------------


def facts_of(tool: str, arguments: Mapping[str, Any], text: str) -> Iterable[tuple[str, Any]]:
    """Yield the facts that an answer tells."""
    if tool.startswith("retail.find_user_id"):
        yield "customer", text
    elif tool.startswith(("telecom.get_customer_by", "banking.log_verification")) and text != "[]":
        yield "customer", True
    answer: Any
    try:
        answer = json.loads(text)
    except ValueError:
        answer = text
    match tool, answer:
        case "airline.get_reservation_details", dict(booked):
            yield "insured", booked["insurance"] == "yes" or booked["cabin"] == "business"
            yield "recent", booked["created_at"] >= AIRLINE_YESTERDAY
            yield "flown", any(flight["date"] < AIRLINE_TODAY for flight in booked["flights"])
            yield "cancelled", False
        case "airline.get_flight_status", state:
            if state == "cancelled":
                yield "cancelled", True
            if state in ("landed", "flying"):
                yield "flown", True
        case "airline.get_user_details", {"membership": membership}:
            yield "member", membership != "regular"
        case _, {"order_id": _, "status": status, "user_id": user}:
            yield "order", (str(user), str(status))
        case "telecom.get_bills_for_customer", list(bills):
            yield "overdue", any(bill["status"] == "Overdue" for bill in bills)
        case "telecom.get_details_by_id", {"line_id": _, "contract_end_date": end}:
            yield "ended", isinstance(end, str) and end < TELECOM_TODAY
        case _:
            pass


# -- rules over these facts --------------------------------------------------------------------------------------------


def _caller_is_known(view: View) -> bool:
    return bool(view.facts.get("customer"))


def _own_order(view: View, status: str) -> bool:
    return view.facts.get("order") == (view.facts.get("customer"), status)


def _pending(view: View) -> bool:
    return _own_order(view, "pending")


def _delivered(view: View) -> bool:
    return _own_order(view, "delivered")


def _can_be_cancelled(view: View) -> bool:
    covered = any(view.facts.get(fact) for fact in ("insured", "recent", "cancelled"))
    return covered and not view.facts.get("flown", True)


def _can_be_compensated(view: View) -> bool:
    return bool(view.facts.get("member") or view.facts.get("insured"))


def _is_overdue(view: View) -> bool:
    return _caller_is_known(view) and bool(view.facts.get("overdue"))


def _may_resume(view: View) -> bool:
    return _caller_is_known(view) and not view.facts.get("overdue", True) and not view.facts.get("ended", True)


RULES: Mapping[Callable[[View], bool], tuple[str, ...]] = {
    _caller_is_known: (
        "retail.get_order_details",
        "retail.get_user_details",
        "retail.modify_user_address",
        "telecom.get_details_by_id",
        "telecom.suspend_line",
        "telecom.get_bills_for_customer",
        "telecom.get_data_usage",
        "telecom.enable_roaming",
        "telecom.disable_roaming",
        "telecom.refuel_data",
        "banking.change_user_email",
        "banking.get_referrals_by_user",
        "banking.get_credit_card_accounts_by_user",
        "banking.get_credit_card_transactions_by_user",
    ),
    _pending: (
        "retail.cancel_pending_order",
        "retail.modify_pending_order_address",
        "retail.modify_pending_order_items",
        "retail.modify_pending_order_payment",
    ),
    _delivered: ("retail.return_delivered_order_items", "retail.exchange_delivered_order_items"),
    _can_be_cancelled: ("airline.cancel_reservation",),
    _can_be_compensated: ("airline.send_certificate",),
    _is_overdue: ("telecom.send_payment_request",),
    _may_resume: ("telecom.resume_line",),
}
"""What a rule is over, and the tools that it guards."""


# -- the tool sets -----------------------------------------------------------------------------------------------------


@frozen
class Desk:
    """A tool set over the benchmark, with the definitions that it has, and the calls that reach its tools."""

    tools: ToolSet
    definitions: Mapping[str, Mapping[str, Any]]
    simulation: Simulation


def desk(link: Worker, *, grouped: bool) -> Desk:
    """Return all tools, in groups under the rules, or listed flat without any."""
    definitions = {one["name"]: one for one in link.ask("definitions")}
    control: Any = Loader(name="open_group", needs_groups=True) if grouped else "none"  # one group closes another
    tools, simulation = ToolSet("desk", control=control, on_hidden="hint"), Simulation()
    for service, about in SERVICES.items() if grouped else ():
        tools.register_group(service, about)
    if grouped:
        tools.register_exclusion(*SERVICES)
    guards = {tool: Visibility.when(rule) for rule, guarded in RULES.items() for tool in guarded}
    for name, given in definitions.items():
        service, _, base = name.partition(".")
        tools.register(
            base if grouped else wire_name(name),
            _handler(link, name, simulation),
            description=given["description"],
            input_schema=given["inputSchema"],
            group=service if grouped else None,
            visibility=guards.get(name) if grouped else None,
        )
    return Desk(tools, definitions, simulation)


def _handler(link: Worker, name: str, simulation: Simulation) -> Callable[[dict[str, Any], Context], Any]:
    async def handle(arguments: dict[str, Any], context: Context) -> str:
        simulation.made.append(ObservedCall(tool=name, arguments=arguments, reached=True))
        text, is_error = link.call(name, arguments)
        if is_error:
            raise ToolError(text)
        for fact, value in facts_of(name, arguments, text):
            context.set_fact(fact, value)
        return text

    return handle
