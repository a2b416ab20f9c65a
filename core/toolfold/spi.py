"""What adapters, diagrams and the kit may use beyond the public API; it may change in any release."""

from ._background import background
from ._catalog import rules
from ._catalog.components import KINDS, Kind
from ._extras import extras_named
from ._limits import MAX_URI, enumerated, quoted
from ._memo import Memo
from ._names import ToWire, ancestors, check_segment
from ._plain import array, table
from ._quota import Caller, Full, Limit, Tally
from ._schema.arguments import HANDLE, NO_ARGUMENTS, Arguments, check_text, plain_json
from ._session import events
from ._session.events import Event, ListsAnnounced
from ._session.pool import SessionPool
from ._session.state import NAMELESS, Saved, StatePacker, dumped, read
from ._session.store import AWAY, FULL, Created
from ._session.stored import KeyInUse, StoredSession
from ._session.stored_sessions import SessionKind, StoredSessions
from ._toolset.control import ERROR_META, may_change, refused, request_of
from ._toolset.finder import opened_by_search
from ._toolset.prompts import openers
from ._usercode import is_failure
from ._view import describe as descriptions
from ._view import directory
from ._view.listing import group_infos, listed, selectable_groups
from ._view.results import Passed, internal_error, misfit
from ._view.search import opened_for
from ._view.visibility import RequestView, available, is_hidden

__all__ = [
    "AWAY",
    "ERROR_META",
    "FULL",
    "HANDLE",
    "KINDS",
    "MAX_URI",
    "NAMELESS",
    "NO_ARGUMENTS",
    "Arguments",
    "Caller",
    "Created",
    "Event",
    "Full",
    "KeyInUse",
    "Kind",
    "Limit",
    "ListsAnnounced",
    "Memo",
    "Passed",
    "RequestView",
    "Saved",
    "SessionKind",
    "SessionPool",
    "StatePacker",
    "StoredSession",
    "StoredSessions",
    "Tally",
    "ToWire",
    "ancestors",
    "array",
    "available",
    "background",
    "check_segment",
    "check_text",
    "descriptions",
    "directory",
    "dumped",
    "enumerated",
    "events",
    "extras_named",
    "group_infos",
    "internal_error",
    "is_failure",
    "is_hidden",
    "listed",
    "may_change",
    "misfit",
    "opened_by_search",
    "opened_for",
    "openers",
    "plain_json",
    "quoted",
    "read",
    "refused",
    "request_of",
    "rules",
    "selectable_groups",
    "table",
]
