"""What a server that runs says to its operator."""

from __future__ import annotations

import json
import os
from typing import Any
from urllib.error import HTTPError, URLError
from urllib.parse import urlsplit
from urllib.request import Request, urlopen

from toolfold import ConfigError

DEFAULT = "http://127.0.0.1:8000"
TOKEN = "TOOLFOLD_OPERATOR_TOKEN"
_SECONDS = 10


def is_url(source: str) -> bool:
    """Return whether a text is the URL of a server."""
    return source.startswith(("http://", "https://"))


def asked(url: str, what: str) -> Any:
    """Return what a server with a live page answers to a question of its operator.

    Raises:
        ConfigError: It does not answer, has no such page, or wants another token.
    """
    parts = urlsplit(url)
    place = f"{parts.scheme}://{parts.netloc}/live/{what}"
    token = os.environ.get(TOKEN)
    headers = {"Authorization": f"Bearer {token}"} if token else {}
    try:
        with urlopen(Request(place, headers=headers), timeout=_SECONDS) as answer:
            return json.load(answer)
    except HTTPError as error:
        if error.code in (401, 403):
            raise ConfigError(f"{place} is for the operator: set {TOKEN} to the token of one.") from error
        raise ConfigError(f"{place} answered {error.code}: start the server with --live.") from error
    except (URLError, OSError, ValueError) as error:
        reason = getattr(error, "reason", error)
        raise ConfigError(f"{place} can't be asked: {reason}. Is the server running, with --http --live?") from error
