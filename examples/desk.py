"""A desk as small as can be: two groups, one inside the other, and a tool that is always available."""

from toolfold import ToolSet

tools = ToolSet("desk", control_visibility="relevant")  # list only control tools that can have an effect
tools.register_group("database", "Look things up in the database")
tools.register_group("write", "Change rows", parent="database")


@tools.tool()
def ping() -> str:
    """Answer at once."""
    return "pong"


@tools.tool(group="database")
async def query(sql: str) -> list[dict[str, str]]:
    """Run a query that changes nothing."""
    return [{"ran": sql}]


@tools.tool(group="database.write")
async def insert(table: str, row: dict[str, str]) -> int:
    """Insert a row and return its number."""
    return len(row)
