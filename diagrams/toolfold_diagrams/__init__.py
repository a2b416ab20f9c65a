"""Pictures of tool sets and of the machine, drawn from the data that drives the code (SPEC 21).

diagram.py    a picture as a value          text.py      wrapping and escaping
dot.py        a writer of DOT               palette.py   colours and marks
svg.py        a writer of SVG               rendering.py  Graphviz, as a program or as WebAssembly
structure.py  the forest of groups          statechart_view.py  regions and transitions
outline.py    where its boxes and lines go  reachable.py  the graph of reachable states
tracing.py  recording a trace.py          sequence.py   a trace as a sequence diagram
transaction.py  the core's own machines     interaction.py, sequence_layout.py  its rows, and where they go
tree.py       the forest as text            page.py      an interactive page
live/         a page that shows sessions as they change
drawing.py    all of these by name, for the command line
notebooks.py  what notebooks show; found by name by the core
"""

from .diagram import Diagram
from .live import live
from .page import page
from .reachable import reachable
from .sequence import sequence
from .statechart_view import statechart
from .structure import structure
from .trace import Trace
from .tracing import tracing
from .transaction import region_chart, transaction_chart
from .tree import tree

__all__ = [
    "Diagram",
    "Trace",
    "live",
    "page",
    "reachable",
    "region_chart",
    "sequence",
    "statechart",
    "structure",
    "tracing",
    "transaction_chart",
    "tree",
]
