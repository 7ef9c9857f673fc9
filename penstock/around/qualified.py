"""Names of a query in full: each column with its table, and ``*`` as columns."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from difflib import get_close_matches

import pyarrow as pa
from sqlglot import exp
from sqlglot.errors import OptimizeError, SchemaError
from sqlglot.optimizer.annotate_types import annotate_types
from sqlglot.optimizer.qualify import qualify

from ..errors import QueryError
from ..query.constants import ARROW_TYPES
from ..query.dialect import MALFORMED, Penstock, place, refused, snippet
from ..query.scope import is_star, output_name
from ..query.window_function import is_session, is_window
from .parts import PartError
from .sides import column_of, field_of, items_of, name_of

#: Spark's names of types; others are told by their kind.
_TYPES = {
    dtype: str(name.value)
    for name, dtype in ARROW_TYPES.items()
    if pa.types.is_primitive(dtype) and not pa.types.is_timestamp(dtype)
}

#: Types that Spark has no name for.
_UNSIGNED = {pa.uint64(): exp.DataType(this=exp.DType.UBIGINT)}

_ARRAYS = (pa.types.is_list, pa.types.is_large_list, pa.types.is_fixed_size_list)
_UNKNOWN = re.compile(r"(?:Column '|Unknown column: )([^'\s]+)")
#: Ends an alias while names are looked up.
_HIDDEN = "_side"
#: Marks an output column that the query names.
_NAMED = "named"


def qualified(tree: exp.Query, schemas: Mapping[str, pa.Schema]) -> exp.Query:
    """Name all columns of a query in full, in a copy, and annotate the types that are known.

    Raises
    ------
    PartError
        A column or table does not exist, or may be one of several.
    """
    named = tree.copy()
    for select in named.find_all(exp.Select):
        _call_windows(select)
        _join_asof(select)
    for item in _outputs(named):
        if isinstance(item, exp.Alias):
            item.meta[_NAMED] = True
        elif is_star(item):
            _check_star(item, schemas, named)
        else:
            item.replace(exp.alias_(item.copy(), output_name(item), quoted=True))
    _hide_aliases(named, schemas)
    known: dict[str, object] = {
        name: {column.name: _UNSIGNED.get(column.type, type_name(column.type)) for column in schema}
        for name, schema in schemas.items()
    }
    for one in named.find_all(exp.Unnest):
        if isinstance(one.parent, exp.From | exp.Join) and not one.alias:
            raise refused("unnest in FROM needs names, as in unnest(l) AS u(x)", one)
    try:
        whole = qualify(named, dialect=Penstock, schema=known, identify=False)
        _rename(whole, lambda alias: alias.removesuffix(_HIDDEN))
        for select in whole.find_all(exp.Select):
            _inline_windows(select)
            if any(map(is_star, select.expressions)) and not whole.find(exp.Pivot):
                raise _not_expanded()
        _spell_tables(whole, schemas)
        return annotate_types(whole, schema=known, dialect=Penstock)
    except (OptimizeError, SchemaError) as error:
        raise PartError(_in_own_words(str(error).splitlines()[0], tree, schemas)) from None
    except AssertionError:  # of a place in the list of columns
        raise _not_expanded() from None
    except MALFORMED:
        raise PartError("a function lacks an argument, or has one of another kind") from None


def _not_expanded() -> PartError:
    return PartError(
        "* stands for two columns of one name; list them, and rename one with AS, in the subquery "
        "that gives them"
    )


def _hide_aliases(tree: exp.Query, schemas: Mapping[str, pa.Schema]) -> None:
    """Rename sides of SEMI and ANTI JOIN whose alias is also the name of a column.

    The parser would take ``s.t`` of a side s for the field t of a column s.
    """
    columns = {name.lower() for schema in schemas.values() for name in schema.names}
    joins = [one for one in tree.find_all(exp.Join) if one.kind in ("SEMI", "ANTI")]
    hidden = {join.this.alias_or_name.lower() for join in joins} & columns
    if hidden:
        _rename(tree, lambda alias: f"{alias}{_HIDDEN}" if alias.lower() in hidden else alias)


def _rename(tree: exp.Expr, renamed: Callable[[str], str]) -> None:
    """Rename aliases, and the qualifiers of columns, in the tree itself."""
    for item in tree.find_all(exp.Table, exp.Subquery):
        alias = item.alias_or_name
        if renamed(alias) != alias:
            item.set("alias", exp.TableAlias(this=exp.to_identifier(renamed(alias))))
    for column in tree.find_all(exp.Column):
        if column.table and renamed(column.table) != column.table:
            column.set("table", exp.to_identifier(renamed(column.table)))


def set_apart(tree: exp.Query) -> dict[str, str]:
    """Rename items of FROM that hide one around them; those of LATERAL differ from all others.

    A name then means the same item everywhere, so that columns can be replaced in subqueries, too.

    Returns
    -------
    dict of str to str
        The old names, by new ones.
    """
    selects = list(tree.find_all(exp.Select))
    names = {id(one): {item.alias_or_name for item in _named_items(one)} for one in selects}
    old: dict[str, str] = {}
    for select in reversed(selects):  # those inside first
        around, outer = set[str](), select.parent_select
        while outer is not None:
            around |= names[id(outer)]
            outer = outer.parent_select
        if select.parent is not None and isinstance(select.parent.parent, exp.Lateral):
            around = around.union(*(names[id(one)] for one in selects if one is not select))
        for item in _named_items(select):
            alias, named = item.alias_or_name, item.args.get("alias")
            if alias not in around or named is None or item.args.get("pivots"):
                continue
            new = name_of(alias, {*old, *set().union(*names.values())})
            old[new] = alias
            columns = (one for one in select.find_all(exp.Column) if one.table == alias)
            for name in [named.this, *(one.args["table"] for one in columns)]:
                name.set("this", new)
                name.set("quoted", True)
    return old


def _named_items(select: exp.Select) -> list[exp.Expr]:
    return [*items_of(select), *(select.args.get("laterals") or [])]


def _spell_tables(tree: exp.Expr, schemas: Mapping[str, pa.Schema]) -> None:
    """Write names of tables as the caller spells them; all other names are in lower case."""
    spelled = {name.lower(): name for name in schemas}
    for table in tree.find_all(exp.Table):
        if isinstance(table.this, exp.Identifier) and table.name in spelled:
            table.set("this", exp.to_identifier(spelled[table.name], quoted=True))


def _check_star(item: exp.Expr, schemas: Mapping[str, pa.Schema], tree: exp.Query) -> None:
    """Refuse ``* EXCEPT`` of an unknown column, and tables with a column named ``*``."""
    read = {table.name.lower() for table in tree.find_all(exp.Table)}
    if any("*" in schema.names for name, schema in schemas.items() if name.lower() in read):
        raise QueryError("a table has a column named *, which * cannot mean, too: list the columns")
    star = item.this if isinstance(item, exp.Column) else item
    known = {name.lower() for schema in schemas.values() for name in schema.names}
    known |= {one.alias.lower() for one in tree.find_all(exp.Alias)}
    for one in star.args.get("except_") or []:
        if one.name.lower() not in known:
            raise PartError(f"* EXCEPT: unknown column {one.name}")


def _in_own_words(message: str, tree: exp.Query, schemas: Mapping[str, pa.Schema]) -> str:
    """Say what the parser says of a column in words of this project."""
    match = _UNKNOWN.match(message)
    if match is None:
        return message
    column = match[1].replace('"', "").replace("`", "").rpartition(".")[2]
    every = {name for schema in schemas.values() for name in schema.names}
    near = get_close_matches(column, sorted(every), n=3)
    hint = f"; close names are {', '.join(near)}" if near else ""
    for one in tree.find_all(exp.Column):
        if one.name.lower() == column.lower():
            return f"unknown column {snippet(one)}{hint} ({place(one)})"
    return f"unknown column {column}{hint}"


def _call_windows(select: exp.Select) -> None:
    """Write ``window.start`` and ``session_window.end`` with the call of GROUP BY that is meant."""
    group = select.args.get("group")
    for key in [] if group is None else group.expressions:
        if not (is_window(key) or is_session(key)):
            continue
        for column in list(select.find_all(exp.Column)):
            if column.table.lower() == key.name.lower() and column.name.lower() in ("start", "end"):
                column.replace(field_of(key.copy(), column.name.lower()))


def _inline_windows(select: exp.Select) -> None:
    """Write a column that a subquery of FROM makes by ``window(t, ...)`` as that call.

    So that equal windows of two subqueries are known as a window of their join.
    """
    for item in items_of(select):
        inner = item.this if isinstance(item, exp.Subquery) else None
        is_grouped = inner is not None and (inner.args.get("group") or inner.args.get("distinct"))
        if not isinstance(inner, exp.Select) or is_grouped:
            continue
        for one in list(inner.expressions):
            call = one.unalias()
            if not is_window(call) or not isinstance(one, exp.Alias) or len(call.expressions) > 2:
                continue
            used = [
                column
                for column in select.find_all(exp.Column)
                if (column.table, column.name) == (item.alias_or_name, one.alias)
            ]
            if any(column.find_ancestor(exp.Select) is not select for column in used):
                continue
            same = (i.alias for i in inner.expressions if i.unalias() == call.expressions[0])
            time = next(same, None)
            if time is None:
                time = f"{one.alias}_time"
                one.replace(exp.alias_(call.expressions[0].copy(), time, quoted=True))
            else:
                one.pop()
            for column in used:
                window = call.copy()
                window.expressions[0].replace(column_of(item.alias_or_name, time))
                column.replace(window)


def _join_asof(select: exp.Select) -> None:
    """Write USING of an ASOF JOIN as ON: equal but for the last one, which is before."""
    for join in select.args.get("joins") or []:
        using = join.args.get("using")
        if join.method.upper() != "ASOF" or not using:
            continue
        left, right = select.args["from_"].this.alias_or_name, join.this.alias_or_name
        *equal, last = [one.name for one in using]
        pairs = [
            (exp.column(name, table=left), exp.column(name, table=right)) for name in (*equal, last)
        ]
        parts: list[exp.Expr] = [exp.EQ(this=a, expression=b) for a, b in pairs[:-1]]
        parts.append(exp.GTE(this=pairs[-1][0], expression=pairs[-1][1]))
        join.set("using", None)
        join.set("on", exp.and_(*parts, copy=False))
        for column in list(select.find_all(exp.Column)):
            if not column.table and column.name in (*equal, last):
                column.set("table", exp.to_identifier(left))


def output_names(
    tree: exp.Query, qualified_tree: exp.Query, schemas: Mapping[str, pa.Schema]
) -> list[str]:
    """Names of the output columns as the query and the tables spell them.

    Columns of one name that are selected as they are get their alias in front, here and there.

    Parameters
    ----------
    tree : Query
        As it was before its names were written in full, all of them in lower case.

    Raises
    ------
    QueryError
        Two columns have one name.
    """
    spelled: dict[str, str] = {}
    for schema in schemas.values():
        for name in schema.names:
            spelled.setdefault(name.lower(), name)
    for item in _outputs(tree):
        if not is_star(item):
            spelled[output_name(item).lower()] = output_name(item)
    names = [spelled.get(name.lower(), name) for name in qualified_tree.named_selects]
    count = Counter(name.lower() for name in names)
    aliases = {one.alias_or_name.lower(): one.alias_or_name for one in tree.find_all(exp.Table)}
    items = qualified_tree.expressions if isinstance(qualified_tree, exp.Select) else []
    for index, item in enumerate(items):
        name, value = names[index], item.unalias()
        is_plain = isinstance(value, exp.Column) and value.name == item.alias_or_name
        if count[name.lower()] > 1 and is_plain and _NAMED not in item.meta:
            names[index] = f"{aliases.get(value.table, value.table)}_{name}"
            item.set("alias", exp.to_identifier(names[index], quoted=True))
    for name, count in Counter(name.lower() for name in names).items():
        if count > 1:
            raise QueryError(f"the output has two columns named {name}; rename one with AS")
    return names


def _outputs(tree: exp.Query) -> Sequence[exp.Expr]:
    while isinstance(tree, exp.SetOperation | exp.Subquery):
        tree = tree.this
    return list(tree.expressions) if isinstance(tree, exp.Select) else []


def is_unread(dtype: pa.DataType) -> bool:
    """Whether a type, or one nested in it, is one that engines around joins cannot even read."""
    return any(name in str(dtype) for name in ("decimal256", "halffloat"))


def unread(name: str, dtype: object) -> str:
    """Say that DuckDB does not compute with a column of a type."""
    return (
        f"column {name} is a {dtype}, which DuckDB does not compute with: cast it before, to a "
        "decimal of at most 38 digits or a float of 32 or 64 bits"
    )


def type_name(dtype: pa.DataType) -> str:
    """Spark's name of a type; of one that it lacks, a name that says nothing."""
    if dtype in _TYPES:
        return _TYPES[dtype]
    if pa.types.is_dictionary(dtype):
        return type_name(dtype.value_type)
    if pa.types.is_integer(dtype):
        return "BIGINT"
    if pa.types.is_string(dtype) or pa.types.is_large_string(dtype):
        return "STRING"
    if pa.types.is_binary(dtype) or pa.types.is_large_binary(dtype):
        return "BINARY"
    if pa.types.is_decimal(dtype) and dtype.precision <= 38:
        return f"DECIMAL({dtype.precision}, {dtype.scale})"
    if pa.types.is_timestamp(dtype):
        return "TIMESTAMP_NTZ" if dtype.tz is None else "TIMESTAMP"
    if pa.types.is_struct(dtype):
        named = ((f.name.replace("`", "``"), type_name(f.type)) for f in dtype)
        fields = ", ".join(f"`{name}`: {one}" for name, one in named)
        return f"STRUCT<{fields}>"
    if pa.types.is_map(dtype):
        return f"MAP<{type_name(dtype.key_type)}, {type_name(dtype.item_type)}>"
    if any(is_one(dtype) for is_one in _ARRAYS):
        return f"ARRAY<{type_name(dtype.value_type)}>"
    return "UNKNOWN"
