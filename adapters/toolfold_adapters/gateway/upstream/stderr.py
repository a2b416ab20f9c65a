"""Which line of what a program wrote to its stderr says why it ended, as a table (SPEC GWY-3, GWY-4).

Programs end with where their log is, how to ask for help, or the rest of a stack. Each row knows how one kind of them
says why; rows that know more come first, and lines that never say why are left out before.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Literal

from attrs import frozen

REASON_LENGTH = 200


@frozen
class Rule:
    """How one kind of program says why it ended: a pattern of a line, whose first group is the reason, if it has one.

    Of several such lines the `pick`ed one counts: the first, before what follows from it, or the last of a chain.
    """

    kind: str
    pattern: str
    pick: Literal["first", "last"] = "first"


RULES = (
    Rule("npm", r"npm (?:error|ERR!) (?!code |syscall |path |errno |dest |\d+$|\S+$).*\S"),
    Rule("uv, pip", r"\W*[├╰]─▶ (.+)", "last"),
    Rule("docker", r"(?:docker|podman): .+"),
    Rule("a panic of Rust", r"thread '.*' .*panicked at .+"),
    Rule("a panic of Go", r"(?:panic|fatal error): .+"),
    Rule("a chain of causes", r"\s*Caused by: (?:\d+: )?(.+)", "last"),
    Rule("Java, .NET", r"(?:Exception in thread|Unhandled exception)\b.+"),
    Rule("Python", r"[\s|+-]*((?:\w+\.)*\w*(?:Error|Exception|Exit|Interrupt)(?:: .+)?)", "last"),
    Rule("Node", r"(?:Uncaught )?(?:\w+\.)*\w*Error(?: \[\w+\])?: .+"),
    Rule("an error", r"[\w.\[\] -]*(?:error|exception|fatal|panic)[^:]{0,40}: \S.*", "last"),
    Rule("a shell", r".+: (?:command not found|not found|No such file or directory|Permission denied)", "last"),
    Rule("an error without a colon", r"\W*(?:error|fatal|failed)\b.+", "last"),
)
_OF_THE_PROBE = re.compile(
    r"server/discover|io\.modelcontextprotocol/|failed to validate request|(?:method not|unknown method|-3260[0-2]\b)"
    r"|expected?.{0,20}initializ",
    re.IGNORECASE,
)
_NEVER = re.compile(
    r"(?:npm (?:error|ERR!) (?:A complete log|.*problem related to network connectivity|In most cases you)"
    r"|npm (?:notice|warn)|\W*(?:help|hint|note|usage|tip): |\W*(?:run|try|use|see) .*(?:--help|for more|for details)"
    r"|.*for more information|Traceback \(|\s*File \"|\s+at \S|goroutine \d|Node\.js v\d|exit status \d+$|\W*$)",
    re.IGNORECASE,
)


def of_the_probe(line: str) -> bool:
    """Return whether a line says that a server does not know the request for the newest era."""
    return _OF_THE_PROBE.search(line) is not None


def reason_in(lines: Sequence[str]) -> str:
    """Return the line that says why a program ended, cut; an empty text if none looks as if it did."""
    said = _possible(lines)
    for rule in RULES:
        found = [(number, one) for number, line in enumerate(said) if (one := _match(rule, line))]
        if found:
            number, match = found[0 if rule.pick == "first" else -1]
            text = match[match.lastindex or 0].strip()
            if text.endswith(":") and number + 1 < len(said):  # the reason is on a line of its own
                text = f"{text} {said[number + 1].strip()}"
            return cut(text)
    return ""


def last_line(lines: Sequence[str]) -> str:
    """Return the last line that may say why a program ended, cut; an empty text if it wrote nothing."""
    said = _possible(lines) or list(lines)
    return cut(said[-1].strip()) if said else ""


def _possible(lines: Sequence[str]) -> list[str]:
    """Return the lines that may say why a program ended."""
    return [line for line in lines if not _NEVER.match(line) and not of_the_probe(line)]


def cut(text: str) -> str:
    """Return a text with an ellipsis in place of what is too long."""
    return text if len(text) <= REASON_LENGTH else f"{text[:REASON_LENGTH]}…"


def _match(rule: Rule, line: str) -> re.Match[str] | None:
    flags = re.IGNORECASE if rule.kind.startswith("an error") else 0
    return re.fullmatch(rule.pattern, line, flags)
