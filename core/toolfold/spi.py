"""What adapters, diagrams and the kit may use beyond the public API; it may change in any release."""

from ._catalog.components import KINDS, Kind
from ._extras import extras_named
from ._limits import MAX_URI, enumerated, quoted
from ._memo import Memo
from ._names import ancestors
from ._plain import array, table
from ._schema.arguments import HANDLE, Arguments, plain_json
from ._session.state import Saved, read_facts
from ._session.upkeep import Caller, Full, SessionKind, background
from ._toolset.control import ERROR_META, refused, request_of
from ._toolset.finder import opened_by_search
from ._usercode import counted, is_failure
from ._values import frozen
from ._view.calling import Passed, internal_error, misfit
from ._view.describe import SHORTER_FORMS, Described, Directory, describe, shortened
from ._view.listing import listed, paged
from ._view.search import opened_for
from ._view.visibility import RequestView, available, is_hidden

__all__ = [
    "ERROR_META",
    "HANDLE",
    "KINDS",
    "MAX_URI",
    "SHORTER_FORMS",
    "Arguments",
    "Caller",
    "Described",
    "Directory",
    "Full",
    "Kind",
    "Memo",
    "Passed",
    "RequestView",
    "Saved",
    "SessionKind",
    "ancestors",
    "array",
    "available",
    "background",
    "counted",
    "describe",
    "enumerated",
    "extras_named",
    "frozen",
    "internal_error",
    "is_failure",
    "is_hidden",
    "listed",
    "misfit",
    "opened_by_search",
    "opened_for",
    "paged",
    "plain_json",
    "quoted",
    "read_facts",
    "refused",
    "request_of",
    "shortened",
    "table",
]
