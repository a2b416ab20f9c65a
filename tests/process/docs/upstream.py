"""The server that `npx` starts in pages: a stand-in for one of GitHub, with a few tools of the same names."""

from __future__ import annotations

from mcp.server import MCPServer

server = MCPServer("github", instructions="Work with repositories on GitHub.")


@server.tool()
def get_me() -> str:
    """Get my profile."""
    return "you"


@server.tool()
def create_issue(title: str) -> str:
    """Create an issue in a repository."""
    return f"#1 {title}"


@server.tool()
def list_issues(state: str = "open") -> list[str]:
    """List the issues of a repository."""
    return []


@server.tool()
def get_file_contents(path: str) -> str:
    """Get a file of a repository."""
    return path


@server.tool()
def list_commits(branch: str = "main") -> list[str]:
    """List the commits of a branch."""
    return []


@server.tool()
def search_code(query: str) -> list[str]:
    """Search for code in repositories."""
    return []


server.run()
