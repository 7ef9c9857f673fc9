"""Checks that a folder belongs to a query and is complete."""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from difflib import SequenceMatcher
from typing import Any

from penstock.errors import FileError, QueryError, UsageError
from penstock.host.store.file_store import FileStore
from penstock.query.parse import canonical

from .commit import BatchRecord
from .place import QueryPlace, log_number
from .spec import JoinSpec
from .store import LOST, Store, file_store

#: Number of the format of the files; others cannot be read.
FORMAT = 2

#: Words before and after a change of a query that a message repeats.
_AROUND = 4

#: Folder in Spark's checkpoint by which earlier versions noted a query of design="state".
STATE_NOTE = "penstock-query"

#: Options that earlier versions did not know: their queries go on as they are started now.
_LATER_OPTIONS = ("ansi", "all_rows")

#: Entry of the folder's note with the number of its query.
NUMBER = "number"


def identity(spec: JoinSpec) -> dict[str, Any]:
    """Everything that decides a query's output, and so must not change from start to start."""
    options = vars(spec.compiled.options)
    groups = {} if spec.waiting is None else {"groups": spec.waiting.text}
    return {
        "format": FORMAT,
        "query": spec.compiled.text,
        **groups,
        **{name: _shown(value) for name, value in options.items() if name != "entrance"},
        **{
            f"columns of {spec.names[side]}": str(spec.side_schema(side).remove_metadata())
            for side in spec.slots
        },
    }


def _shown(value: Any) -> str:
    """An option as text, in which the order of a mapping does not show."""
    if isinstance(value, Mapping):
        return repr({key: value[key] for key in sorted(value)})
    return repr(value)


def _is_same(name: str, stored: Any, current: Any) -> bool:
    """Whether two values of an entry of an identity mean the same."""
    if stored is None and name in _LATER_OPTIONS:
        return True
    if stored == current or name != "query" or stored is None or current is None:
        return stored == current
    try:
        return canonical(stored) == canonical(current)
    except QueryError:  # of a version that could read more
        return False


def require_same(stored: Mapping[str, Any], wanted: Mapping[str, Any], where: str) -> None:
    """Refuse to go on with the files of another query.

    Parameters
    ----------
    stored, wanted : mapping
        Identities of the query in the checkpoint, and of the one to be started.
    where : str
        The checkpoint, for the message.

    Raises
    ------
    UsageError
    """
    names = {**stored, **wanted}
    pairs = {name: (stored.get(name), wanted.get(name)) for name in names}
    changes = [
        "{} `{}` is now `{}`".format(name, *_differing(*pair))
        for name, pair in pairs.items()
        if not _is_same(name, *pair)
    ]
    if changes:
        raise UsageError(
            f"{where} is of another query, whose rows it keeps: {'; '.join(changes)}. Start the "
            "query as it was, or with another checkpointLocation"
        )


def _differing(*values: Any) -> list[str]:
    """Return the words in which two values differ, each with a few words around them."""
    was, now = (["not", "given"] if v in (None, "None") else str(v).split() for v in values)
    blocks = SequenceMatcher(None, was, now, autojunk=False).get_opcodes()
    changed = [ends for kind, *ends in blocks if kind != "equal"]
    (a, _, c, _), (_, b, _, d) = changed[0], changed[-1]
    parts = was[max(a - _AROUND, 0) : b + _AROUND], now[max(c - _AROUND, 0) : d + _AROUND]
    return [" ".join(words) for words in parts]


def check_folder(place: QueryPlace, spec: JoinSpec) -> str:
    """Make the folder, or check that it is this query's and complete.

    Returns
    -------
    str
        Number of the query, which its folder keeps.

    Raises
    ------
    UsageError
        It is another query's.
    FileError
        Something of it is gone or damaged.
    """
    store, checkpoint = place.store, file_store(place.checkpoint)
    store.make()
    wanted, stored = identity(spec) | place.identity(), store.query()
    done, latest = _spark_commits(checkpoint), store.latest()
    last = -1 if latest is None else latest.batch
    if stored is None:
        if checkpoint.names(STATE_NOTE):
            raise UsageError(
                f"{checkpoint.root} was begun with design='state', whose rows lie in Spark's own "
                "state and cannot be read here: start the query with another checkpointLocation, "
                "from where the sources can still be read, and drop from its first output what "
                "the old query has written"
            )
        if max(done, last) >= 0:
            raise FileError(
                f"{checkpoint.root} is at batch {max(done, last)}, but {store.shown} has no state "
                f"of the join, or does not say of which query; {LOST}"
            )
        number = uuid.uuid4().hex
        store.put_query(wanted | {NUMBER: number})
        return number
    number = stored.pop(NUMBER, "")
    require_same(stored, wanted, f"the checkpoint {store.shown}")
    if last < done:
        raise FileError(
            f"{store.shown} ends with batch {last}, but Spark has completed batch {done}; restore "
            "the folder from a backup together with Spark's checkpoint around it, or begin anew "
            "with another checkpointLocation"
        )
    if latest is None:
        return number
    require_of(latest, number, store)
    store.check(latest)
    before = store.commit(latest.batch - 1)
    if done < 0 < last:
        raise UsageError(
            f"{store.shown} is at batch {last}, but Spark's checkpoint {checkpoint.root} is "
            "new; remove the former, or restore the checkpoint"
        )
    require_position(place, latest)
    if before is not None and done < last:
        store.check(before)
    return number


def require_of(commit: BatchRecord, number: str, store: Store) -> None:
    """Refuse a record that another query has written.

    Raises
    ------
    FileError
    """
    if commit.batch >= 0 and commit.query != number:
        raise FileError(
            f"the record of batch {commit.batch} in {store.shown} is of another query than the "
            f"folder; {LOST}"
        )


def require_position(place: QueryPlace, commit: BatchRecord) -> None:
    """Refuse to go on where Spark would repeat a batch, or go on after it, with other rows.

    Raises
    ------
    FileError
    """
    checksums = place.checksums(commit.position)
    newest: dict[str, int] = {}
    for name in sorted(commit.position, key=log_number):
        newest[name.rpartition("/")[0]] = log_number(name)
    for name, wanted in commit.position.items():
        # Spark removes old files of a source's log, and itself says if one that it needs is gone.
        is_old = name not in checksums and log_number(name) < newest[name.rpartition("/")[0]]
        if checksums.get(name) != wanted and not is_old:
            problem = "is not what it was" if name in checksums else "is gone"
            raise FileError(
                f"{file_store(place.checkpoint).shown(name)}, from which Spark knows where its "
                f"sources were in batch {commit.batch}, {problem}; {LOST}"
            )


def _spark_commits(checkpoint: FileStore) -> int:
    """The last batch that Spark has completed; -1 if there is none."""
    return max((int(n) for n in checkpoint.names("commits") if n.isdecimal()), default=-1)
