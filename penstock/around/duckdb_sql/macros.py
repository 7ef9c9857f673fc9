"""Spark's functions as macros of DuckDB, where DuckDB's own differ or are missing.

The translation calls them by the names given here.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache

from sqlglot import exp

from ..computed_calls import call

#: Most characters that ``repeat``, ``lpad`` and ``rpad`` make, and most bytes of a text that
#: becomes longer in another way. DuckDB makes some 2,000 values at once, counts none of their bytes
#: against its memory limit, and cannot be interrupted before it has them.
MOST_PADDED, MOST_TEXT = 1 << 16, 1 << 20
#: Most elements that ``sequence`` makes, for the same reason: 160 MB for 2,000 rows.
MOST_ELEMENTS = 10_000

#: Raises an error with its argument as the message, and is given to the database by its engine.
FAIL = "ps_fail"
_OF_ERRORS = {
    # DuckDB's own is volatile, which keys of window functions must not be; it has any type.
    "ps_error(text)": f"CASE WHEN {FAIL}(text) THEN NULL END",
}
_OF_NUMBERS = {
    "ps_format_number(x, n)": "format('{:,.' || n::INT || 'f}', x::DOUBLE)",
}
# Too many are an argument's error, since a call that is constant is computed even where a CASE
# leaves it out.
_OF_LENGTHS = {
    "ps_bounded(n, each)": (
        f"CASE WHEN n::HUGEINT * each > {MOST_PADDED} THEN ps_error('a text of more than "
        f"{MOST_PADDED:,} characters would be made; take fewer') ELSE n::BIGINT END"
    ),
    "ps_repeat(s, n)": "repeat(s, ps_bounded(n, strlen(s)))",
    "ps_lpad(s, n, fill)": "lpad(s, ps_bounded(n, 1)::INT, fill)",
    "ps_rpad(s, n, fill)": "rpad(s, ps_bounded(n, 1)::INT, fill)",
    "ps_too_long()": (
        f"ps_error('a text of more than {MOST_TEXT:,} bytes would be made; shorten its parts')"
    ),
    "ps_growing(s, times)": (
        f"CASE WHEN strlen(s)::HUGEINT * times > {MOST_TEXT} THEN ps_too_long() ELSE s END"
    ),
    "ps_replace(s, a, b)": (
        "replace(s, a, CASE WHEN strlen(b) > strlen(a) AND a <> '' AND strlen(s)::HUGEINT "
        f"// strlen(a) * strlen(b) > {MOST_TEXT} THEN ps_too_long() ELSE b END)"
    ),
    # By a list, so that the text is computed once.
    "ps_short(s)": (
        "list_transform([s], lambda x: "
        f"CASE WHEN strlen(x) > {MOST_TEXT} THEN ps_too_long() ELSE x END)[1]"
    ),
    # It takes as many steps, and cannot be interrupted either.
    "ps_levenshtein(a, b)": (
        f"levenshtein(a, CASE WHEN length(a)::HUGEINT * length(b) > {MOST_TEXT} THEN ps_error('"
        f"more than {MOST_TEXT:,} pairs of characters would be compared; shorten the texts') "
        "ELSE b END)"
    ),
    "ps_elements(step, width)": (
        f"CASE WHEN abs(width::HUGEINT) // {MOST_ELEMENTS} >= abs(step) THEN ps_error('"
        f"a sequence of more than {MOST_ELEMENTS:,} elements would be made; take a longer step') "
        "ELSE 0 END"
    ),
    "ps_series(a, b, step)": (
        "generate_series(a + ps_elements(step, b::HUGEINT - a)::BIGINT, b, step)"
    ),
    "ps_times(a, b, step)": (
        "generate_series(a, b, step + "
        "to_days(ps_elements(epoch_us(step), epoch_us(b) - epoch_us(a))::INT))"
    ),
}
_OF_TEXT = {
    "ps_upper(s)": "upper(replace(s, 'ß', 'SS'))",
    # Where a text begins that is asked for at a place from 1 on, or from the end on, from 0 on.
    "ps_begin(s, p)": "CASE WHEN p > 0 THEN p - 1 WHEN p < 0 THEN length(s) + p ELSE 0 END",
    "ps_substring(s, p, n)": (
        "CASE WHEN p IS NULL OR n IS NULL THEN NULL ELSE "
        "substring(s, greatest(ps_begin(s, p), 0) + 1, "
        "greatest(ps_begin(s, p) + n - greatest(ps_begin(s, p), 0), 0)) END"
    ),
    # greatest() skips NULL.
    "ps_left(s, n)": "CASE WHEN n IS NOT NULL THEN left(s, greatest(n, 0)) END",
    "ps_right(s, n)": "CASE WHEN n IS NOT NULL THEN right(s, greatest(n, 0)) END",
    "ps_split_part(s, d, n)": (
        "CASE WHEN d <> '' THEN split_part(s, d, n) WHEN s IS NULL OR d IS NULL OR n IS NULL THEN "
        "NULL WHEN abs(n) = 1 THEN s ELSE '' END"
    ),
    # DuckDB's own keeps what is combined.
    "ps_reverse(s)": "array_to_string(list_reverse(regexp_extract_all(s, '(?s).')), '')",
    "ps_substring_index(s, d, n)": (
        "CASE WHEN n > 0 THEN array_to_string(string_split(s, d)[1:n], d) "
        "WHEN n < 0 THEN array_to_string(string_split(s, d)[n:], d) "
        "WHEN n = 0 AND s IS NOT NULL AND d IS NOT NULL THEN '' END"
    ),
    "ps_locate(sub, s, p)": (
        "CASE WHEN sub IS NULL OR s IS NULL OR p IS NULL THEN NULL WHEN p < 1 THEN 0 "
        "WHEN sub = '' THEN 1 "
        "WHEN strpos(substring(s, p), sub) = 0 THEN 0 ELSE strpos(substring(s, p), sub) + p - 1 END"
    ),
    "ps_initcap(s)": (
        "array_to_string(list_transform(string_split(lower(s), ' '), "
        "lambda w: upper(w[1]) || w[2:]), ' ')"
    ),
    # Spark reads fewer texts as integers than DuckDB, and more as floats.
    "ps_shorn(s)": r"regexp_replace(s, '^\s+|\s+$', '', 'g')",
    "ps_is_whole(s)": r"regexp_full_match(s, '\s*[+-]?[0-9]+\s*')",
    "ps_is_number(s)": (
        r"regexp_full_match(ps_shorn(s), '[+-]?([0-9]+[.]?[0-9]*|[.][0-9]+)([eE][+-]?[0-9]+)?')"
    ),
    "ps_is_special(s)": (
        "regexp_full_match(lower(ps_shorn(s)), "
        "'nan|[+-]?inf(inity)?|[+-]?[0-9.]+(e[+-]?[0-9]+)?[fd]')"
    ),
    "ps_whole(s)": (
        "CASE WHEN s IS NULL OR ps_is_whole(s) THEN ps_shorn(s) ELSE ps_error('the text ' "
        "|| left(s, 40) || ' is no integer; cast it to DECIMAL or DOUBLE first, or use TRY_CAST') "
        "END"
    ),
    "ps_whole_or_null(s)": "CASE WHEN ps_is_whole(s) THEN ps_shorn(s) END",
    "ps_number_or_null(s)": (
        "CASE WHEN ps_is_number(s) THEN ps_shorn(s) WHEN ps_is_special(s) THEN "
        "ps_error('the text ' || left(s, 40) || ' is a number to Spark alone; replace it first') "
        "END"
    ),
    "ps_text_of_double(x)": (
        "CASE WHEN x IS NULL THEN NULL WHEN x = 0 OR (abs(x) >= 0.001 AND abs(x) < 10000000) "
        "THEN x::VARCHAR ELSE ps_error('a number below 0.001 or from 10,000,000 on is not written "
        "as text: round it, or cast it to DECIMAL first') END"
    ),
}
_OF_TIMES = {
    "ps_text_of_time(t)": "rtrim(rtrim(strftime(t, '%Y-%m-%d %H:%M:%S.%f'), '0'), '.')",
    "ps_instant(n)": "timezone('UTC', make_timestamp(n::BIGINT * 1000000))",
    # DuckDB takes fewer digits than a format has: Spark does not.
    "ps_read_time(s, format)": (
        "CASE WHEN strftime(strptime(s, format), format) = s THEN strptime(s, format) WHEN s IS "
        "NOT NULL THEN ps_error('the text ' || left(s, 40) || ' does not have the "
        "format of the query') END"
    ),
    "ps_span(a, b)": "{'start': a, 'end': b}",
}
# Elements are counted from 0 by [] and from 1 by element_at, where they also count from the end.
_OF_NESTED = {
    "ps_item(l, i)": "CASE WHEN i >= 0 THEN l[i::BIGINT + 1] END",
    "ps_element(l, i)": (
        "CASE WHEN i = 0 AND l IS NOT NULL THEN ps_error('element_at counts from 1, or from the "
        "end from -1; its place is 0') ELSE l[i::BIGINT] END"
    ),
    "ps_value(m, k)": "m[k]",
    "ps_size(l)": "len(l)::INT",
    "ps_map_size(m)": "cardinality(m)::INT",
    "ps_lacks(l)": "len(list_filter(l, lambda x: x IS NULL)) > 0",
    "ps_array_contains(l, v)": (
        "CASE WHEN l IS NULL OR v IS NULL THEN NULL WHEN list_contains(l, v) THEN true "
        "WHEN ps_lacks(l) THEN NULL ELSE false END"
    ),
    "ps_array_position(l, v)": (
        "CASE WHEN l IS NOT NULL AND v IS NOT NULL THEN coalesce(list_position(l, v), 0)::BIGINT "
        "END"
    ),
    "ps_arrays_overlap(a, b)": (
        "CASE WHEN a IS NULL OR b IS NULL THEN NULL WHEN list_has_any(a, b) THEN true "
        "WHEN len(a) > 0 AND len(b) > 0 AND (ps_lacks(a) OR ps_lacks(b)) THEN NULL ELSE false END"
    ),
    "ps_map_contains_key(m, k)": "list_contains(map_keys(m), k)",
}
_OF_GROUPS = {
    "ps_list(x)": "coalesce(list(x) FILTER (x IS NOT NULL), [])",
    "ps_set(x)": "coalesce(list(DISTINCT x) FILTER (x IS NOT NULL), [])",
}


_BODIES = {
    call.partition("(")[0]: f"CREATE TEMP MACRO {call} AS {body};\n"
    for group in (_OF_ERRORS, _OF_NUMBERS, _OF_LENGTHS, _OF_TEXT, _OF_TIMES, _OF_NESTED, _OF_GROUPS)
    for call, body in group.items()
}
_NAME = re.compile(r"\bps_\w+", re.IGNORECASE)


@cache
def _repeats(name: str) -> bool:
    """Whether a macro, or one that it calls, writes an argument more than once."""
    head, _, body = _BODIES.get(name, "").partition(" AS ")
    parameters = re.findall(r"\w+", head.partition("(")[2])
    return any(len(re.findall(rf"\b{one}\b", body)) > 1 for one in parameters) or any(
        _repeats(one) for one in _NAME.findall(body)
    )


def compute_once(tree: exp.Query) -> None:
    """Name the arguments of macros that hold macros, in the tree itself.

    DuckDB writes an argument wherever the macro's body has it: without names, the text would grow
    with the power of how many calls stand one in another.
    """
    repeating: set[int] = set()
    for node in reversed(list(tree.walk(bfs=True))):  # from the leaves up
        if isinstance(node, exp.Anonymous) and node.name in _BODIES and _repeats(node.name):
            if any(id(one) in repeating for one in node.expressions):
                node = _named(node)
            repeating.add(id(node))
        if id(node) in repeating:
            repeating.add(id(node.parent))


def _named(node: exp.Anonymous) -> exp.Expr:
    """Put a call with names for its arguments in its place."""
    fields = [
        exp.PropertyEQ(this=exp.to_identifier(f"c{k}"), expression=one)
        for k, one in enumerate(node.expressions)
    ]
    names = [
        call("struct_extract", exp.column("ps_given"), exp.Literal.string(f"c{k}"))
        for k in range(len(fields))
    ]
    named = exp.Lambda(
        this=call(node.name, *names), expressions=[exp.to_identifier("ps_given")], colon=True
    )
    values = exp.Array(expressions=[exp.Struct(expressions=fields)])
    return node.replace(call("list_extract", call("list_transform", values, named), 1))


def definitions(text: str, known: set[str]) -> Iterator[str]:
    """Yield statements that define the macros of a text, each after the macros that it calls.

    Parameters
    ----------
    known : set of str
        Those that are defined by now; the others are added.

    Yields
    ------
    str
        A statement.
    """
    for name in dict.fromkeys(word.lower() for word in _NAME.findall(text)):
        if name in known or name not in _BODIES:  # it may be a column
            continue
        known.add(name)
        yield from definitions(_BODIES[name], known)
        yield _BODIES[name]
