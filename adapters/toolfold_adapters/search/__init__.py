"""Rankers for `ToolSet(search=…)`: BM25 in SQLite, sentence embeddings, and several of them fused (SPEC FND-2).

rankers      what orders tools by how well they match a query
sentences    models of sentences, which two of the rankers use
e5           multilingual-e5-small, from a package that ships it
"""

from .rankers import bm25, by_meaning, embeddings, fused, in_background

__all__ = ["bm25", "by_meaning", "embeddings", "fused", "in_background"]
