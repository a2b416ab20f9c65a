"""Pictures of tool sets and of the machine, drawn from the data that drives the code (SPEC 21).

diagram.py    a picture as a value          text.py      wrapping and escaping
dot.py        a writer of DOT               palette.py   colours and marks
structure.py  the forest of groups          statechart_view.py  regions and transitions
outline.py    where its boxes and lines go  reachable.py  the graph of reachable states
recording.py  what happens, as a story.py   sequence.py   a story as a sequence diagram
transaction.py  the core's own machines     interaction.py, sequence_layout.py  its rows, and where they go
tree.py       the forest as text            page.py      a page to look around in
drawing.py    all of these by name, for the command line
"""

from .diagram import Diagram
from .page import page
from .reachable import reachable
from .recording import recording
from .sequence import sequence
from .statechart_view import statechart
from .story import Story
from .structure import structure
from .transaction import region_chart, transaction_chart
from .tree import tree

__all__ = [
    "Diagram",
    "Story",
    "page",
    "reachable",
    "recording",
    "region_chart",
    "sequence",
    "statechart",
    "structure",
    "transaction_chart",
    "tree",
]
