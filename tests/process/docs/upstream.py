"""The server that `npx` starts in pages: a stand-in for one of GitHub, with its twenty-six tools of the same names.

They answer nothing of use; what pages show of them is their groups, and what their definitions cost.
"""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from typing import Annotated, Any

from mcp.server import MCPServer
from mcp.types import ToolAnnotations
from pydantic import Field

REPOSITORY = {"owner": (str, "Repository owner, a user or an organization"), "repo": (str, "Repository name")}
PAGES = {"page": (int, "Page number for pagination, starting at 1"), "perPage": (int, "Results per page, at most 100")}
BRANCH = {"branch": (str, "Branch to work on")}
ISSUE = {**REPOSITORY, "issue_number": (int, "Number of the issue")}
PULL = {**REPOSITORY, "pull_number": (int, "Number of the pull request")}
TEXTS = {"title": (str, "Title"), "body": (str, "Text, in Markdown")}
LABELS = {"labels": (list[str], "Names of labels"), "assignees": (list[str], "Login names of assignees")}
QUERY = {"q": (str, "Search query, in the syntax of GitHub's search"), **PAGES}

TOOLS: Mapping[str, tuple[str, Mapping[str, tuple[Any, str]]]] = {
    "create_or_update_file": (
        "Create or update a single file in a GitHub repository",
        {
            **REPOSITORY,
            "path": (str, "Path of the file"),
            "content": (str, "Content of the file"),
            "message": (str, "Commit message"),
            **BRANCH,
            "sha": (str, "SHA of the file that is replaced, when it exists"),
        },
    ),
    "search_repositories": ("Search for GitHub repositories", QUERY),
    "create_repository": (
        "Create a new GitHub repository in your account",
        {
            "name": (str, "Repository name"),
            "description": (str, "Repository description"),
            "private": (bool, "Whether the repository is private"),
            "autoInit": (bool, "Whether it begins with a README.md"),
        },
    ),
    "get_file_contents": (
        "Get the contents of a file or directory from a GitHub repository",
        {**REPOSITORY, "path": (str, "Path of the file or directory"), **BRANCH},
    ),
    "push_files": (
        "Push multiple files to a GitHub repository in a single commit",
        {
            **REPOSITORY,
            **BRANCH,
            "files": (list[dict[str, str]], "Files to push, each with a path and its content"),
            "message": (str, "Commit message"),
        },
    ),
    "create_issue": ("Create a new issue in a GitHub repository", {**REPOSITORY, **TEXTS, **LABELS}),
    "create_pull_request": (
        "Create a new pull request in a GitHub repository",
        {
            **REPOSITORY,
            **TEXTS,
            "head": (str, "Branch with the changes"),
            "base": (str, "Branch to pull the changes into"),
            "draft": (bool, "Whether it is a draft"),
        },
    ),
    "fork_repository": (
        "Fork a GitHub repository to your account or to an organization",
        {**REPOSITORY, "organization": (str, "Organization to fork to")},
    ),
    "create_branch": (
        "Create a new branch in a GitHub repository",
        {**REPOSITORY, **BRANCH, "from_branch": (str, "Branch to begin from, the default branch unless given")},
    ),
    "list_commits": (
        "Get the list of commits of a branch in a GitHub repository",
        {**REPOSITORY, "sha": (str, "Branch, tag or commit to begin from"), **PAGES},
    ),
    "list_issues": (
        "List issues in a GitHub repository with filtering options",
        {
            **REPOSITORY,
            "state": (str, "open, closed or all"),
            "labels": (list[str], "Names of labels"),
            "since": (str, "Changed since this time, in ISO 8601"),
            **PAGES,
        },
    ),
    "update_issue": (
        "Update an existing issue in a GitHub repository",
        {**ISSUE, **TEXTS, **LABELS, "state": (str, "open or closed")},
    ),
    "add_issue_comment": ("Add a comment to an existing issue", {**ISSUE, "body": (str, "Text, in Markdown")}),
    "search_code": ("Search for code across GitHub repositories", QUERY),
    "search_issues": ("Search for issues and pull requests across GitHub repositories", QUERY),
    "search_users": ("Search for users on GitHub", QUERY),
    "get_issue": ("Get details of a specific issue in a GitHub repository", ISSUE),
    "get_pull_request": ("Get details of a specific pull request", PULL),
    "list_pull_requests": (
        "List and filter pull requests of a repository",
        {
            **REPOSITORY,
            "state": (str, "open, closed or all"),
            "head": (str, "Branch with the changes"),
            "base": (str, "Branch that they go into"),
            **PAGES,
        },
    ),
    "create_pull_request_review": (
        "Create a review on a pull request",
        {
            **PULL,
            "body": (str, "Text of the review"),
            "event": (str, "APPROVE, REQUEST_CHANGES or COMMENT"),
            "comments": (list[dict[str, str]], "Comments on lines, each with path, position and body"),
        },
    ),
    "merge_pull_request": (
        "Merge a pull request",
        {
            **PULL,
            "commit_title": (str, "Title of the merge commit"),
            "merge_method": (str, "merge, squash or rebase"),
        },
    ),
    "get_pull_request_files": ("Get the list of files changed in a pull request", PULL),
    "get_pull_request_status": ("Get the combined status of all status checks for a pull request", PULL),
    "update_pull_request_branch": (
        "Update a pull request branch with the latest changes from the base branch",
        {**PULL, "expected_head_sha": (str, "SHA that the head of the branch should have")},
    ),
    "get_pull_request_comments": ("Get the review comments on a pull request", PULL),
    "get_pull_request_reviews": ("Get the reviews on a pull request", PULL),
}

server = MCPServer("github", instructions="Work with repositories on GitHub.")


def stand_in(name: str, parameters: Mapping[str, tuple[Any, str]]) -> Any:
    """Return a function with the name and parameters of a tool, which returns its name."""

    def answer(**_: Any) -> str:
        return name

    keywords = [
        inspect.Parameter(key, inspect.Parameter.KEYWORD_ONLY, annotation=Annotated[kind, Field(description=text)])
        for key, (kind, text) in parameters.items()
    ]
    answer.__name__ = name
    answer.__signature__ = inspect.Signature(keywords, return_annotation=str)  # type: ignore[attr-defined]
    return answer


for name, (description, parameters) in TOOLS.items():
    only_reads = name.startswith(("get_", "list_", "search_"))
    server.add_tool(
        stand_in(name, parameters),
        description=description,
        annotations=ToolAnnotations(read_only_hint=only_reads),
        structured_output=False,
    )

if __name__ == "__main__":
    server.run()
