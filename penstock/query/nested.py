"""Messages about lists, structs and maps, which are passed on and not compared."""

from __future__ import annotations

#: What to write instead, by how the name of the type begins.
_INSTEAD = {
    "struct": "its fields, as in {name}.x",
    "map": "a value of it, as in {name}['k'], or size({name})",
    "": "an element of it, as in {name}[0], or size({name})",
}
#: Most characters of a type in a message.
_MOST_SHOWN = 80


def not_compared(name: str, dtype: str) -> str:
    """Explain that a column of a nested type is not computed with; name a value that is.

    Parameters
    ----------
    name : str
        Of the column, or the expression.
    dtype : str
    """
    kind = next(one for one in _INSTEAD if dtype.lower().startswith(one))
    shown = dtype if len(dtype) <= _MOST_SHOWN else f"{dtype[:_MOST_SHOWN]}..."
    return (
        f"{name} is of type {shown}: it can be selected as it is, not compared, sorted or grouped "
        f"by; write {_INSTEAD[kind].format(name=name)}"
    )
