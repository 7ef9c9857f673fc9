"""The plan of a query, made without data: the only place that decides how a query is run."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from enum import Enum
from functools import cached_property, partial

from ..errors import QueryError
from ..expr import ops
from ..expr.node import Expr, Op, node
from ..program import MAX_BAND_TESTS, Mode
from ..types import Kind
from .band import BandForm
from .folds import FoldKey, FoldPlan, fold_plan
from .forms import JoinForm, fold_form, join_form
from .general import GeneralForm, NoFormError
from .group_query import TimeKey, is_per_row, require_closing, time_key
from .query import LEFT, RIGHT, JoinQuery, other
from .search import Search, search_of
from .shown import plan_facts, text_of


class Output(Enum):
    """The kind of a join's output."""

    PAIRS = "pairs"
    #: Rows of one side by whether they match.
    EXISTENCE = "existence"
    #: Groups of one side's rows, each of which is folded over its matches on the device.
    FOLDS = "folds"
    #: Groups of pairs, by keys of both sides.
    PAIR_GROUPS = "pair groups"


@dataclass(frozen=True)
class Evaluation:
    """A computation of devices on tuples of one side and the window of the other.

    Parameters
    ----------
    form : JoinForm
    modes : tuple of Mode
        What becomes of the matches.
    needed_by : str
        The part of the query that needs it, for messages.
    fold : FoldKey, optional
        The fold of the plan that it computes.
    """

    form: JoinForm
    modes: tuple[Mode, ...] = (Mode.PAIRS,)
    needed_by: str = "this query"
    fold: FoldKey | None = None

    @cached_property
    def search(self) -> Search:
        """The keys by which the window is searched for the matches of a tuple."""
        return search_of(self.form.predicate, self.form.window)

    @property
    def in_order(self) -> bool:
        """Whether the result depends on the order of rows, as sums of floats do."""
        form = self.form.form
        value = form.value if isinstance(form, GeneralForm) else None
        return Mode.SUM in self.modes and value is not None and not value.type.is_integral


@dataclass(frozen=True)
class JoinPlan:
    """The plan of a query, see :func:`plan`.

    Parameters
    ----------
    query : JoinQuery
    band : bool
        Whether band form is allowed.
    about : str, optional
        A side: the join then gives only this side's rows with a match, or those without; of an
        outer join those without. By default the join gives what the query asks for.
    """

    query: JoinQuery
    band: bool = True
    about: str | None = None

    def __str__(self) -> str:
        return text_of(plan_facts(self))

    @cached_property
    def output(self) -> Output:
        """The kind of output rows."""
        aggregation = self.query.aggregation
        if aggregation is not None:
            return Output.PAIR_GROUPS if aggregation.side is None else Output.FOLDS
        is_existence = self.about is not None or self.query.kind.is_existence
        return Output.EXISTENCE if is_existence else Output.PAIRS

    @cached_property
    def probing(self) -> str | None:
        """The side each of whose rows probes once; None where rows probe as they come."""
        if self.output is Output.FOLDS:
            assert self.query.aggregation is not None
            return self.query.aggregation.side
        return (self.about or LEFT) if self.output is Output.EXISTENCE else None

    @cached_property
    def decided_once(self) -> tuple[str, ...]:
        """Sides whose rows, or groups, give output once, when they can meet no later row."""
        if self.output is Output.PAIR_GROUPS:
            assert self.time_key is not None
            return (self.time_key.side,)
        if self.probing is not None:
            return (self.probing,)
        return tuple(side for side in (LEFT, RIGHT) if side in self.query.kind.unmatched)

    @cached_property
    def met_later(self) -> tuple[str, ...]:
        """Sides with rows that later rows may meet after the rows' own step."""
        return (LEFT, RIGHT) if self.output is Output.PAIRS else (other(self.decided_once[0]),)

    # -- what is evaluated ------------------------------------------------------------------------

    def pairs(self, window: str) -> Evaluation:
        """The pairs of the predicate with this side as the window.

        Raises
        ------
        QueryError
            It has no form in this direction.
        """
        return Evaluation(self._form(window))

    def _named(self, form: Callable[[], JoinForm]) -> JoinForm:
        """Make a form; an error calls the sides as the query does."""
        try:
            return form()
        except NoFormError as error:
            raise error.named(self.query.names) from None

    def _form(self, window: str) -> JoinForm:
        predicate = self.query.predicate
        form = self._named(lambda: join_form(predicate, window, band=self.band))
        search = search_of(predicate, window) if self.query.tests_pairs else None
        bands = None if search is None else search.form_of_best(MAX_BAND_TESTS)
        if bands is None or isinstance(form.form, BandForm):
            return form
        return JoinForm(window, bands, predicate)

    def candidates(self) -> tuple[Evaluation, ...]:
        """The directions in which pairs can be evaluated, at least one; a prefix has only one.

        Raises
        ------
        QueryError
            There is none.
        """
        evaluations: list[Evaluation] = []
        refusal: QueryError | None = None
        for window in (RIGHT, LEFT):
            try:
                evaluations.append(self.pairs(window))
            except QueryError as error:
                refusal = error
        if refusal is not None and not evaluations:
            raise refusal
        return tuple(evaluations)

    def existence(self, side: str) -> Evaluation:
        """Whether each row of a side has a match."""
        modes = (Mode.PAIRS,) if self.query.tests_pairs else (Mode.EXISTS,)
        return Evaluation(self._form(other(side)), modes, f"this {self.query.kind.value} join")

    @cached_property
    def folds(self) -> FoldPlan:
        """The folds that the aggregates need."""
        assert self.query.aggregation is not None
        return fold_plan(self.query.aggregation)

    def folded(self) -> tuple[Evaluation, ...]:
        """The folds of the probing side's rows, in the order of ``folds.modes``."""
        assert self.probing is not None
        return tuple(
            Evaluation(
                self._named(
                    partial(
                        fold_form,
                        self.query.predicate,
                        other(self.probing),
                        key.value,
                        frozenset(modes),
                        band=self.band,
                    )
                ),
                tuple(sorted(modes, key=lambda mode: mode.value)),
                f"this query ({', '.join(self.folds.texts_of(key))})",
                key,
            )
            for key, modes in self.folds.modes.items()
        )

    @cached_property
    def evaluations(self) -> dict[str, Evaluation]:
        """The evaluations of a stream: by window side, or by :func:`fold_name`.

        Raises
        ------
        QueryError
            The predicate, or a value that is folded, has no form.
        """
        if self.output is Output.FOLDS:
            return {fold_name(k): one for k, one in enumerate(self.folded())}
        if self.output is Output.EXISTENCE:
            return {RIGHT: self.existence(LEFT)}
        return {window: self.pairs(window) for window in (LEFT, RIGHT)}

    # -- streams ----------------------------------------------------------------------------------

    @cached_property
    def time_key(self) -> TimeKey | None:
        """The key of GROUP BY that says when groups of a stream are complete."""
        return time_key(self.query)

    @property
    def closing_key(self) -> TimeKey | None:
        """The time key that rows wait for; None where there are no groups, or each row is one."""
        if self.query.aggregation is None or is_per_row(self.query):
            return None
        return self.time_key

    def require_stepwise(self) -> None:
        """Refuse a query that has no end in a stream, or is not joined in micro-batches.

        Raises
        ------
        QueryError
        """
        query = self.query
        require_closing(query)
        query.require_no_sessions("micro-batches")
        if not query.is_rows:
            return
        if query.left.time is None or query.right.time is None:
            raise QueryError(
                "ROWS of streams are in the order of time: name the time column of both tables "
                "with time"
            )
        if query.aggregation is not None and not is_per_row(query):
            raise QueryError(
                "groups of several rows over ROWS are not joined in micro-batches: group by a "
                "column that differs from row to row and say so with unique, or use a time window"
            )

    # -- tables -----------------------------------------------------------------------------------

    def require_order(self) -> None:
        """Refuse ROWS of tables whose rows have no order.

        Raises
        ------
        QueryError
        """
        query = self.query
        if query.is_rows and (query.left.time is None or query.right.time is None):
            raise QueryError(
                "ROWS of a table are its latest in time: name the time column of both tables "
                "with time (or push batches in order of arrival to a stream)"
            )

    # -- with data --------------------------------------------------------------------------------

    def without_null(self, is_never_null: Callable[[tuple[str, str]], bool]) -> JoinPlan:
        """The plan for rows whose nullable columns happen to hold no NULL.

        A value that cannot be NULL needs no test, and its ``count(e)`` is ``count(*)``.

        Parameters
        ----------
        is_never_null : callable
            Takes a column as (side, name).
        """

        def typed(column: Expr) -> Expr:
            if column.type.kind is Kind.NULL or not is_never_null(column.attr):
                return column
            return node(Op.COLUMN, (), column.type.as_nullable(False), column.attr)

        def known(expr: Expr | None) -> Expr | None:
            return None if expr is None else ops.over_columns(expr, typed)

        query = self.query
        assert query.aggregation is not None
        aggregates = tuple(
            replace(a, value=known(a.value) if a.by is None else a.value, by=known(a.by))
            for a in query.aggregation.aggregates
        )
        aggregation = replace(query.aggregation, aggregates=aggregates)
        predicate = ops.over_columns(query.predicate, typed)
        return replace(self, query=replace(query, predicate=predicate, aggregation=aggregation))


def fold_name(number: int) -> str:
    """Name of a fold among the evaluations of a plan."""
    return f"fold {number}"


def plan(query: JoinQuery, *, band: bool = True, about: str | None = None) -> JoinPlan:
    """Plan a query.

    Parameters
    ----------
    query : JoinQuery
    band : bool
        False switches band form off, to compare with the general form.
    about : str, optional
        As for :class:`JoinPlan`.
    """
    return JoinPlan(query, band, about)
