"""Pictures of tool sets and of the machine, drawn from the data that drives the code (SPEC 21).

drawing, notebooks            all of these by name, for the command line and for notebooks
diagram                       a picture as a value
structure, tree               the forest of groups, as a picture and as text
statechart_view, reachable    regions and transitions, and the graph of reachable states
transaction                   the core's own machines
trace, tracing                what happened in a tool set, and recording it
sequence                      a trace as a sequence diagram
interaction, sequence_layout  its rows, and where they go
page, page_parts/             an interactive page, and its style and script
live/                         a page that shows sessions as they change
usage_report                  what was used, with advice
dot, svg, outline             writers of DOT and SVG, and where the boxes and lines of an outline go
rendering                     Graphviz, as a program or as WebAssembly
text, palette                 texts without control characters, and colours
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
from .usage_report import Report, report

__all__ = [
    "Diagram",
    "Report",
    "Trace",
    "live",
    "page",
    "reachable",
    "region_chart",
    "report",
    "sequence",
    "statechart",
    "structure",
    "tracing",
    "transaction_chart",
    "tree",
]
