"""Document C's assignment of tools to groups, as data; tests of the core and of the wire share it."""

from collections.abc import Iterable
from typing import Any

from toolfold import Component, ToolSet

GROUPS = {
    "config": ("Configuration", "Change providers, models, agents and settings"),
    "js_tool_management": ("JS Tool Management", "Keep tools of one's own in JavaScript"),
    "pdf": ("PDF Tools", "Look into PDF files and take pages out of them"),
    "scheduled_tasks": ("Scheduled Tasks", "Have things done at a set time"),
}
"""Title and description of each group, in canonical order."""

GROUPED = {
    "config": (
        "list_providers",
        "create_provider",
        "update_provider",
        "delete_provider",
        "list_models",
        "fetch_models",
        "set_default_model",
        "add_model",
        "delete_model",
        "list_agents",
        "update_agent",
        "delete_agent",
        "get_config",
        "set_config",
        "manage_env_var",
        "list_tool_states",
        "set_tool_enabled",
    ),
    "js_tool_management": ("create_js_tool", "list_user_tools", "update_js_tool", "delete_js_tool"),
    "pdf": ("pdf_info", "pdf_extract_text", "pdf_render_page"),
    "scheduled_tasks": (
        "schedule_task",
        "list_scheduled_tasks",
        "run_scheduled_task",
        "update_scheduled_task",
        "delete_scheduled_task",
    ),
}
"""The tools of each group, as the document's table has them."""

UNGROUPED = (
    "load_skill",
    "save_memory",
    "search_history",
    "exec",
    "js_eval",
    "webfetch",
    "browser",
    "create_agent",
    "read_file",
    "write_file",
    "get_current_time",
    "http_request",
)
"""The tools that are always listed, beside the loader."""

CORE = sorted([*UNGROUPED, "load_tool_group"])


def assistant(**hooks: Any) -> ToolSet:
    """Return the document's tools as a tool set whose groups are loaded by name; every group has these hooks."""
    tools = ToolSet("assistant", control="load_tool_group")
    for group, (title, description) in GROUPS.items():
        tools.register_group(group, description, title=title, **hooks)
        for name in GROUPED[group]:
            tools.register(name, lambda: "done", description=f"Does {name}", group=group, flat=True)
    for name in UNGROUPED:
        tools.register(name, lambda: "done", description=f"Does {name}")
    return tools


def names(specs: Iterable[Component]) -> list[str]:
    """Return the names of tools."""
    return [spec.name for spec in specs]


def listed_with(*groups: str) -> list[str]:
    """Return the names in the list when these groups are loaded."""
    return sorted([*CORE, *(name for group in groups for name in GROUPED[group])])
