"""Frozen values as attrs makes them, but for what it would write and compile as code of each class.

For a hundred classes that code, of comparison, hash and text, is a tenth of the time that `import toolfold` takes
beyond its dependencies, and attrs has no option that leaves it out of classes that are compared and shown. Here they
are functions, made of the names of a class's fields.
"""

from __future__ import annotations

from operator import attrgetter
from reprlib import recursive_repr
from typing import TYPE_CHECKING

import attrs

if TYPE_CHECKING:
    from attrs import frozen as frozen
else:

    def frozen(cls=None, *, eq=True, repr=True, cache_hash=False, **options):
        """Return the class, frozen; type checkers take this for `attrs.frozen`, whose arguments it has.

        A hash that is cached is left to attrs.
        """

        def decorate(cls):
            made = attrs.frozen(cls, eq=eq and cache_hash, repr=False, cache_hash=cache_hash, **options)
            if eq and not cache_hash:
                _compare_by_fields(made)
            if repr and "__repr__" not in vars(cls):
                _show_fields(made)
            return made

        return decorate if cls is None else decorate(cls)

    def _compare_by_fields(cls):
        compared = [field.name for field in attrs.fields(cls) if field.eq]
        values = attrgetter(*compared) if compared else lambda _: ()
        salt = cls.__qualname__  # hashes of equal values of two classes differ

        def __eq__(self, other):
            return values(self) == values(other) if other.__class__ is self.__class__ else NotImplemented

        def __hash__(self):
            return hash((salt, values(self)))

        cls.__eq__, cls.__hash__ = __eq__, __hash__

    def _show_fields(cls):
        shown = [field.name for field in attrs.fields(cls) if field.repr]

        @recursive_repr()
        def __repr__(self):
            return f"{type(self).__qualname__}({', '.join(f'{name}={getattr(self, name)!r}' for name in shown)})"

        cls.__repr__ = __repr__
