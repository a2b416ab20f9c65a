"""The sequence view: a recorded trace as a sequence diagram of UML (SPEC DIA-1)."""

from __future__ import annotations

from collections.abc import Iterator

from .diagram import Diagram
from .interaction import Bar, Interaction, Lifeline, Look, Message, Note
from .sequence_layout import drawn
from .svg import placed
from .text import drawable, mermaid, mermaid_lines, plural, printable, wrapped
from .trace import Trace

__all__ = ["Trace", "sequence"]

WIDTH, LINES = 40, 6
_ARROWS = {Look.CALL: "->>", Look.REPLY: "-->>", Look.SIGNAL: "-)", Look.FAILED: "--x"}


def sequence(trace: Trace) -> Diagram:
    """Return a trace as a sequence diagram: who asked whom for what, and with what result, from top to bottom.

    Its lifelines are the callers, the sessions, the hooks of each group, and the listeners. A bar shows how long a
    session or a hook is at work on a request; an arrow back with a cross shows a failure. The Mermaid form is left out
    where a trace is too long for what Mermaid draws.
    """
    interaction = Interaction.of(trace)
    mermaid_text = drawable(_mermaid(interaction))
    title, graph = f"{printable(trace.name)}: sequence", drawn(interaction, trace.name)
    messages = sum(isinstance(row, Message) for row in interaction.rows)
    about = (
        f"{plural(messages, 'message')} between {', '.join(' '.join(_title(line)) for line in interaction.lifelines)}."
    )
    return Diagram(title, graph.text(), mermaid_text, svg=placed(graph, title, about), description=about)


def _mermaid(interaction: Interaction) -> str:
    ids = {line: f"{line.role.name.lower()}_{number}" for number, line in enumerate(interaction.lifelines)}
    lines = ["sequenceDiagram"]
    for line, identity in ids.items():
        lines.append(f"  participant {identity} as {mermaid_lines(_title(line))}")
    lines += [f"  {row}" for row in _mermaid_rows(interaction, ids)]
    return "\n".join(lines) + "\n"


def _mermaid_rows(interaction: Interaction, ids: dict[Lifeline, str]) -> Iterator[str]:
    for row in interaction.rows:
        match row:
            case Message():
                text = mermaid_lines(wrapped(row.text, WIDTH, LINES)) or mermaid(" ")
                yield f"{ids[row.tail]}{_ARROWS[row.look]}{ids[row.head]}: {text}"
            case Note():
                yield f"Note over {ids[row.over]}: {mermaid_lines(wrapped(row.text, WIDTH, LINES))}"
            case Bar():
                yield f"{'activate' if row.begins else 'deactivate'} {ids[row.on]}"


def _title(line: Lifeline) -> list[str]:
    return [line.role.value, *wrapped(line.name, 24, LINES)]
