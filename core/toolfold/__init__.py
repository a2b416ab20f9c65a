"""Toolfold: progressive tool discovery as an explicit state machine.

machine/        the centre: the transition table of a group's region, and `plan`, the only decider of state
catalog.py      what is registered, immutable          draft.py      a catalog in the making
snapshot.py     (catalog, active groups, facts)        visibility.py the only decider of availability
transaction.py  the life of one step over hooks        session.py    one holder's state and its queue of steps
listing.py      pages, cursors, group infos            control.py    activators, deactivators, loaders
modes.py        composite tools and their modes        dispatch.py   calling
schema.py       schemas and validation                 declare.py    decorators, and the marks that they leave
fields.py       schemas in three forms                 toolkits.py   all that a class or module declares, at once
options.py      the options of registrations           specs.py      what is registered, checked
prompts.py      the groups in a system prompt          persist.py   a session's state as JSON, and back
catalog_tool.py what there is to call, for the model   pool.py      which sessions are open
toolset.py      `ToolSet`, the face of it all     registration.py  what it is told
settings.py     what its settings must be
statechart.py   the catalog as an explicit hierarchical machine, exported to transitions, SCXML, XState
usercode.py     what the code of users may do, and how it is run
names.py, resources.py, observe.py          names, URI templates, events
errors.py, extras.py                        errors, and packages that are not installed
"""

from .catalog import Catalog, GroupSpec, Profile, Spec
from .control import Loader, LoaderTexts
from .declare import group, prompt, resource, resource_template, tool, toolkit
from .dispatch import Context, InputRequired, ToolResult
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
    ManifestError,
    MissingExtra,
    ParentInactive,
    ProtocolError,
    QuotaExceeded,
    ReentrantTransition,
    SessionClosed,
    ToolError,
    ToolfoldError,
    ToolNotFound,
)
from .listing import GroupInfo, Page
from .machine import Configuration, Forest, Plan, RegionState, TransitionRequest, plan
from .modes import Mode, Modes
from .names import WireNames, qualified_name
from .observe import Change
from .prompts import prompt_section, system_prompt
from .session import Session
from .snapshot import Snapshot
from .steps import HookContext
from .toolset import ToolSet, success_of
from .visibility import View, Visibility

__version__ = "0.1.0"
__all__ = [
    "Catalog",
    "Change",
    "ConfigError",
    "Configuration",
    "Context",
    "DuplicateName",
    "ExclusionConflict",
    "Forest",
    "GroupInfo",
    "GroupNotFound",
    "GroupSpec",
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
    "Loader",
    "LoaderTexts",
    "ManifestError",
    "MissingExtra",
    "Mode",
    "Modes",
    "Page",
    "ParentInactive",
    "Plan",
    "Profile",
    "ProtocolError",
    "QuotaExceeded",
    "ReentrantTransition",
    "RegionState",
    "Session",
    "SessionClosed",
    "Snapshot",
    "Spec",
    "ToolError",
    "ToolNotFound",
    "ToolResult",
    "ToolSet",
    "ToolfoldError",
    "TransitionRequest",
    "View",
    "Visibility",
    "WireNames",
    "group",
    "plan",
    "prompt",
    "prompt_section",
    "qualified_name",
    "resource",
    "resource_template",
    "success_of",
    "system_prompt",
    "tool",
    "toolkit",
]
