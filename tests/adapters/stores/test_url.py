"""What is no URL of a store is refused in a sentence, which repeats no password (SPEC STO-1)."""

from __future__ import annotations

import pytest

from toolfold import ConfigError
from toolfold_adapters.stores import open_store


@pytest.mark.spec("STO-1")
@pytest.mark.parametrize(
    ("url", "message"),
    [
        ("state.db", "'state.db' is no store; use sqlite:///state.db"),
        ("sqlite://state.db", "sqlite://… is no store"),
        ("postgres://u:secret@h/d", "postgres://… is no store"),
        ("redis:", "'redis:' is no store"),
        ("redis:u:secret@h", "redis:… is no store"),
        ("redis://u:secret@h:port/0", "The URL of the Redis store is malformed"),
        ("redis://u:secret@h/0?ssl=true", "has an option that redis-py does not know"),
        ("rediss://u:secret@h/0?ssl_cert_reqs=perhaps", "has an option that redis-py does not know"),
    ],
)
def test_what_is_no_url_of_a_store_is_refused_without_its_password(url: str, message: str) -> None:
    with pytest.raises(ConfigError) as raised:
        open_store(url)
    assert message in str(raised.value)
    assert "secret" not in str(raised.value)
