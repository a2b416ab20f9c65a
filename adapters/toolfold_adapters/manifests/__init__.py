"""Groups of tools as data: what is read into a `ToolSet` without a program behind it.

folders     folders of JSON files, one for each group
catalogs    one file of TOML or JSON
nouns       groups by the names of tools, where nobody has made any
"""

from .folders import Handlers, ManifestReport, load_manifests

__all__ = ["Handlers", "ManifestReport", "load_manifests"]
