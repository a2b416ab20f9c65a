"""Rankers for `ToolSet(search=…)`: BM25 in SQLite, sentence embeddings, and several of them fused (SPEC FND-2).

rankers      what orders tools by how well they match a query
meaning      words and the models that packages ship, together
e5           multilingual-e5-small, from a package that ships it
minilm       all-MiniLM-L6-v2, from a package that ships it
bert         what encodes texts by weights of few bits
networks     the ONNX format, and what runs it
sentences    models of sentences by folder or name, for `embeddings`
"""

from .meaning import by_meaning
from .rankers import bm25, embeddings, fused, in_background

__all__ = ["bm25", "by_meaning", "embeddings", "fused", "in_background"]
