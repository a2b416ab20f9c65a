"""Prints what FastMCP's client learns of the skills of a server, `skills.py URL`, and whether their files are so."""

# pyright: reportMissingImports=false

import json
import sys
from hashlib import sha256
from typing import Any

import anyio
from fastmcp import Client
from fastmcp.skills.client import SkillsClientExtension
from mcp_types import TextResourceContents


async def main(url: str) -> None:
    """List the skills, get each of them, and read the files that it has."""
    async with Client(url, extensions=[SkillsClientExtension()]) as client:
        listed = await client.list_skills()
        fetched = [await client.get_skill(one.uri) for one in listed]
        print(
            json.dumps(
                {
                    "skills": [one.model_dump(mode="json", by_alias=True, exclude_none=True) for one in listed],
                    "same": fetched == listed,
                    "verified": [await verified(client, one) for skill in listed for one in skill.resources],
                }
            )
        )


async def verified(client: Any, described: Any) -> bool:
    """Return whether a file that is read has the size and the digest that its skill says."""
    (content,) = await client.read_resource(described.uri)
    assert isinstance(content, TextResourceContents)
    data = content.text.encode()
    return (described.size, described.digest) == (len(data), f"sha256:{sha256(data).hexdigest()}")


if __name__ == "__main__":
    anyio.run(main, sys.argv[1])
