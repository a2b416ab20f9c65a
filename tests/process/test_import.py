"""What importing the core loads, seen in a fresh interpreter."""

import subprocess
import sys

NOT_LOADED = {"click", "httpx", "httpx2", "mcp", "mcp_types", "rich", "starlette", "uvicorn"}


def test_importing_the_core_loads_no_protocol_server_or_terminal_library() -> None:
    code = "import sys, toolfold; print(*{name.partition('.')[0] for name in sys.modules})"
    loaded = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True).stdout.split()
    assert "toolfold" in loaded
    assert NOT_LOADED.isdisjoint(loaded)
