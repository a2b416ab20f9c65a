"""`toolfold init` on the files of clients, for its tests."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from tests.cli.support import invoke

SECRET = "s3cret"
SERVERS = {
    "files": {"command": sys.executable, "args": ["-m", "files"], "env": {"TOKEN": SECRET}},
    "My Web": {"url": "https://x.org/mcp", "headers": {"Authorization": f"Bearer {SECRET}"}},
}


def write(path: Path, data: Any) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(data if isinstance(data, str) else json.dumps(data), encoding="utf-8")
    return path


def read(path: Path) -> Any:
    return json.loads(path.read_text(encoding="utf-8"))


def init(*arguments: str, answer: str | None = None) -> str:
    result = invoke("init", *arguments, stdin=answer)
    assert result.exit_code == 0, result.output
    assert SECRET not in result.output
    return result.output
