"""What adapters, diagrams and the kit may use beyond the public API; it may change with any release."""

from ._catalog.components import KINDS, Kind, is_settled, listing_rule, never_listed
from ._catalog.rules import Always, Both, Either, Group, Not, required_groups
from ._catalog.uri_templates import matching
from ._extras import extras_named
from ._limits import MAX_URI, enumerated, quoted
from ._plain import table
from ._schema.arguments import NO_ARGUMENTS, Arguments, check_text, plain_json
from ._session import observers
from ._session.observers import Event, ListsAnnounced
from ._session.persistence import dumped, read
from ._usercode import counted, is_failure
from ._view.control import ERROR_META, line_of, refused, step_of
from ._view.listing import group_infos, listed, page_of
from ._view.results import internal_error, misfit
from ._view.visibility import RequestView, available, is_hidden
from .names import WIRE_LENGTH, WIRE_SEPARATOR, Spelling, ancestors, canonical_key, check_segment, split_name

__all__ = [
    "ERROR_META",
    "KINDS",
    "MAX_URI",
    "NO_ARGUMENTS",
    "WIRE_LENGTH",
    "WIRE_SEPARATOR",
    "Always",
    "Arguments",
    "Both",
    "Either",
    "Event",
    "Group",
    "Kind",
    "ListsAnnounced",
    "Not",
    "RequestView",
    "Spelling",
    "ancestors",
    "available",
    "canonical_key",
    "check_segment",
    "check_text",
    "counted",
    "dumped",
    "enumerated",
    "extras_named",
    "group_infos",
    "internal_error",
    "is_failure",
    "is_hidden",
    "is_settled",
    "line_of",
    "listed",
    "listing_rule",
    "matching",
    "misfit",
    "never_listed",
    "observers",
    "page_of",
    "plain_json",
    "quoted",
    "read",
    "refused",
    "required_groups",
    "split_name",
    "step_of",
    "table",
]
