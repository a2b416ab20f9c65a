"""The shop of the examples in the help: orders with returns inside, stock, which excludes them, and two profiles."""

from collections.abc import Mapping

from toolfold import Profile, ToolSet, View, Visibility

tools = ToolSet("shop")

tools.register_group("orders", "Take orders")
tools.register_group("returns", "Take goods back", parent="orders")
tools.register_group("stock", "Count what is in store", on_activate=lambda: print("the store is lit"))
tools.register_exclusion("orders", "stock")
tools.register_profile(Profile(name="clerk", description="For the counter", active=("orders",), available=("*",)))
tools.register_profile(Profile(name="look", description="Change nothing", available=("stock",), read_only=True))


def is_manager(view: View) -> bool:
    facts: Mapping[str, object] = view.facts
    return facts.get("role") == "manager"


@tools.tool()
def hours() -> str:
    """When the shop is open."""
    return "9 to 18"


@tools.tool(group="orders")
def place(item: str, count: int = 1) -> str:
    """Order an item."""
    print("a handler prints")
    return f"{count} of {item}"


@tools.tool(group="orders", visibility=Visibility.when(is_manager))
def refund(item: str) -> str:
    """Pay money back."""
    return f"paid for {item}"


@tools.tool(group="orders.returns")
def take_back(item: str) -> str:
    """Take an item back."""
    return f"took back {item}"


@tools.tool(group="stock", annotations={"readOnlyHint": True})
def count(item: str) -> int:
    """Count an item."""
    return len(item)


def make_tools() -> ToolSet:
    return tools


def fail() -> ToolSet:
    raise RuntimeError("the till is locked")
