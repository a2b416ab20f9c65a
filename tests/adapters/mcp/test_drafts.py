"""Drafts of the next revision, by name: which there are, and what each takes (SPEC 33)."""

from __future__ import annotations

import pytest

from toolfold import ConfigError
from toolfold_adapters.mcp.extensions.drafts import drafts

pytestmark = pytest.mark.spec("NXT-1", "NXT-2")


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (["tag"], "There is no draft 'tag'; they are 'requires', 'resolve', 'tags', 'ttl', 'card'"),
        (["tags", "tags=reject"], "'tags' is given twice"),
        (["tags="], "'tags' needs a value: tags=CHOICE"),
        (["tags=sometimes"], "'sometimes' is not one of ignore, honour, signal, reject"),
        (["resolve=yes"], "'resolve' has no value: leave out =yes"),
        (["resolve="], "'resolve' has no value: leave out ="),
        (["ttl"], "'ttl' needs a value: ttl=SECONDS"),
    ],
)
def test_what_is_no_draft_or_no_value_of_one_is_refused(given: list[str], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        drafts(given)
