"""The user's words for the columns and parts that a split query adds."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from sqlglot import exp

from ..errors import PenstockError
from ..query.dialect import Penstock, place

#: Where a node stands in the text of a part, at the end of a message.
_PLACE = re.compile(r" \(at(?: line \d+, column \d+)?: (.*)\)$", re.DOTALL)
#: A quoted name up to its closing sign, which may open the next one, and its qualifier. A word is
#: tried from its start alone: from each letter, a long one takes minutes.
_NAME = re.compile(r"(?:[`\"][^`\"]*[`\"]\.|\b\w++\.)?[`\"]([^`\"]*)(?=[`\"])")
#: Functions of the engine's that stand for Spark's.
_OF_ENGINE = re.compile(r"\bps_(?:udf_)?(?=\w)")


@dataclass
class Words:
    """The user's words for added columns and parts, and where these words stand in the query.

    Parameters
    ----------
    tree : Query
        The query, with names in full; not changed.
    """

    tree: exp.Expr
    #: The user's words, by name.
    texts: dict[str, str] = field(default_factory=dict)
    #: Names of columns that are computed for a join.
    computed: set[str] = field(default_factory=set)

    def note(self, name: str, text: str) -> None:
        """Note the words that a column or part stands for."""
        self.texts[name] = self.restored(text)

    def restored(self, message: str) -> str:
        """Put the user's words for added names into a message, and where these words stand.

        The qualifier of an added column, such as a part's name, goes with it.
        """
        pieces, end = [], 0
        for name in _NAME.finditer(message) if self.texts else ():
            if name[1] in self.texts:
                pieces += [message[end : name.start()], self.texts[name[1]]]
                end = name.end() + 1
        if pieces:
            message = _PLACE.sub(self._placed, "".join([*pieces, message[end:]]))
        return _OF_ENGINE.sub("", message)

    def _placed(self, match: re.Match[str]) -> str:
        """Return where the query has the text of a message's place, which may be cut short."""
        snippet, is_cut = match[1].removesuffix("..."), match[1].endswith("...")
        if is_cut:
            snippet = snippet.rpartition(" ")[0]  # it may end within a name
        wanted = _plain(snippet)
        for node in self.tree.walk():
            text = _plain(node.sql(dialect=Penstock))
            if text == wanted or (is_cut and text.startswith(wanted)):
                return f" ({place(node)})"
        return f" (at: {snippet}{'...' if is_cut else ''})"

    @contextmanager
    def spoken(self) -> Iterator[None]:
        """Let errors that leave the block say what the user wrote."""
        try:
            yield
        except PenstockError as error:
            if error.args == (str(error),):  # others make their message of names of options
                error.args = (self.restored(str(error)),)
            raise


def _plain(text: str) -> str:
    return re.sub(r"[`\"]", "", text).lower()
