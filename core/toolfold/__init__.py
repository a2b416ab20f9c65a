"""Toolfold: progressive tool discovery as an explicit state machine.

Layers, each of which knows those before it:

    _values             frozen values
    errors, _limits     what is refused, and the limits on what comes from outside
    _names, _plain      names and paths, and plain JSON values
    _usercode, _memo    running the code of users, and what is computed once for a value
    _extras             what an extra installs, and what the core calls of it
    machine/            the centre: the table of a group's region, and `plan`, the one decider of state
    _schema/            arguments and results against JSON Schema
    _catalog/           what is registered, as immutable values
    _snapshot           (catalog, configuration, facts): what every request is a function of
    _view/              visibility, the one decider of availability; lists, calls
    _session/           `Session`: its state, how that changes, stores, observers
    _toolset/           `ToolSet`: registration, decorators, control tools
    spi                 what adapters may use beyond the public API

`machine`, `errors` and `spi` are the public submodules; `events` and `records` are modules of `_session`.
"""

from ._catalog.catalog import Catalog, ListBudget
from ._catalog.components import Component, Group, Profile, WithheldBy
from ._catalog.loader import Loader, LoaderTexts
from ._catalog.modes import Mode, Modes
from ._catalog.rules import View, Visibility
from ._names import WireNames, qualified_name
from ._plain import CHARACTERS_PER_TOKEN, approximate_tokens
from ._session import events as events
from ._session import records as records
from ._session.context import Context, HookContext, Slot
from ._session.session import Session
from ._session.store import Created, Lease, Place, Record, Store
from ._session.stored import StoredSessions
from ._session.upkeep import Limit
from ._session.usage import Calls, Usage
from ._snapshot import Change, GroupInfo, Page, Snapshot
from ._toolset.decorators import group, prompt, resource, resource_template, tool, toolkit
from ._toolset.options import GroupOptions, PromptOptions, ResourceOptions, ToolOptions
from ._toolset.programs import include_stubs, invoke
from ._toolset.prompts import prompt_section, system_prompt
from ._toolset.toolset import ToolSet, success_of
from ._view.calling import InputRequired, ToolResult
from ._view.reasons import Reason, explain
from ._view.search import Ranked, Ranker, Ranking, SearchDocument
from ._view.stubs import identifiers, stubs
from .errors import (
    ConfigError,
    DuplicateName,
    ExclusionConflict,
    GroupNotFound,
    HandleExpired,
    HandleInvalid,
    HookFailed,
    HookTimeout,
    IllegalEvent,
    InvalidArguments,
    InvalidCursor,
    InvalidDefinition,
    InvalidName,
    LeaseLost,
    ManifestError,
    MissingExtra,
    ParentInactive,
    ProtocolError,
    QuotaExceeded,
    ReentrantTransition,
    SessionClosed,
    StoreError,
    StoreUnavailable,
    ToolError,
    ToolfoldError,
    ToolfoldWarning,
    ToolNotFound,
)
from .machine import Configuration, Forest, Plan, RegionState, TransitionRequest, plan

__version__ = "0.1.0"
__all__ = [
    "CHARACTERS_PER_TOKEN",
    "Calls",
    "Catalog",
    "Change",
    "Component",
    "ConfigError",
    "Configuration",
    "Context",
    "Created",
    "DuplicateName",
    "ExclusionConflict",
    "Forest",
    "Group",
    "GroupInfo",
    "GroupNotFound",
    "GroupOptions",
    "HandleExpired",
    "HandleInvalid",
    "HookContext",
    "HookFailed",
    "HookTimeout",
    "IllegalEvent",
    "InputRequired",
    "InvalidArguments",
    "InvalidCursor",
    "InvalidDefinition",
    "InvalidName",
    "Lease",
    "LeaseLost",
    "Limit",
    "ListBudget",
    "Loader",
    "LoaderTexts",
    "ManifestError",
    "MissingExtra",
    "Mode",
    "Modes",
    "Page",
    "ParentInactive",
    "Place",
    "Plan",
    "Profile",
    "PromptOptions",
    "ProtocolError",
    "QuotaExceeded",
    "Ranked",
    "Ranker",
    "Ranking",
    "Reason",
    "Record",
    "ReentrantTransition",
    "RegionState",
    "ResourceOptions",
    "SearchDocument",
    "Session",
    "SessionClosed",
    "Slot",
    "Snapshot",
    "Store",
    "StoreError",
    "StoreUnavailable",
    "StoredSessions",
    "ToolError",
    "ToolNotFound",
    "ToolOptions",
    "ToolResult",
    "ToolSet",
    "ToolfoldError",
    "ToolfoldWarning",
    "TransitionRequest",
    "Usage",
    "View",
    "Visibility",
    "WireNames",
    "WithheldBy",
    "approximate_tokens",
    "explain",
    "group",
    "identifiers",
    "include_stubs",
    "invoke",
    "plan",
    "prompt",
    "prompt_section",
    "qualified_name",
    "resource",
    "resource_template",
    "stubs",
    "success_of",
    "system_prompt",
    "tool",
    "toolkit",
]
