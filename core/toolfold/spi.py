"""What adapters, diagrams and the kit may use beyond the public API; it may change in any release."""

from ._background import background
from ._catalog import rules
from ._catalog.components import KINDS, Kind, WithheldBy
from ._extras import extras_named
from ._limits import MAX_URI, enumerated, quoted
from ._memo import Memo
from ._names import ToWire, ancestors, check_segment
from ._plain import array, table
from ._quota import Caller, Full, Tally
from ._schema import arguments as schemas
from ._schema.arguments import HANDLE
from ._session import events
from ._session import state as saved_state
from ._session.pool import SessionPool
from ._session.store import AWAY, FULL, Created
from ._session.stored_sessions import KeyInUse, SessionKind
from ._toolset import control as control_tools
from ._toolset.finder import opened_by_search
from ._toolset.prompts import openers
from ._usercode import is_failure
from ._view import describe as descriptions
from ._view import directory, results
from ._view.listing import group_infos, listed, listed_in, paged
from ._view.search import opened_for
from ._view.visibility import RequestView, available, is_hidden
from .errors import warn

__all__ = [
    "AWAY",
    "FULL",
    "HANDLE",
    "KINDS",
    "MAX_URI",
    "Caller",
    "Created",
    "Full",
    "KeyInUse",
    "Kind",
    "Memo",
    "RequestView",
    "SessionKind",
    "SessionPool",
    "Tally",
    "ToWire",
    "WithheldBy",
    "ancestors",
    "array",
    "available",
    "background",
    "check_segment",
    "control_tools",
    "descriptions",
    "directory",
    "enumerated",
    "events",
    "extras_named",
    "group_infos",
    "is_failure",
    "is_hidden",
    "listed",
    "listed_in",
    "opened_by_search",
    "opened_for",
    "openers",
    "paged",
    "quoted",
    "results",
    "rules",
    "saved_state",
    "schemas",
    "table",
    "warn",
]
