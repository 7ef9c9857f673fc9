"""Whether a folder belongs to a query, and has all that the query left there."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from penstock.errors import FileError, UsageError
from penstock.spark_bridge.streaming.place import Place
from penstock.spark_bridge.streaming.spec import JoinSpec
from penstock.spark_bridge.streaming.storage import Storage, storage_of

#: Number of the format of the files; others cannot be read.
FORMAT = 1


def identity(spec: JoinSpec) -> dict[str, Any]:
    """What must not change while a query lives: anything that says which rows it gives."""
    return {
        "format": FORMAT,
        "query": spec.compiled.text,
        **{name: repr(value) for name, value in spec.compiled.options.items()},
        **{
            f"columns of {spec.names[side]}": str(spec.side_schema(side).remove_metadata())
            for side in spec.slots
        },
    }


def require_same(found: Mapping[str, Any], wanted: Mapping[str, Any], where: str) -> None:
    """Refuse to go on with what another query has left.

    Parameters
    ----------
    found, wanted : mapping
        Identities, of what is there and of what is asked for.
    where : str
        The checkpoint, for the message.

    Raises
    ------
    UsageError
    """
    changed = [name for name in {**found, **wanted} if found.get(name) != wanted.get(name)]
    if changed:
        raise UsageError(
            f"{where} is of another query (changed: {', '.join(changed)}): its window does not "
            "fit; start the query as it was, or with another checkpointLocation"
        )


def check_folder(place: Place, spec: JoinSpec) -> None:
    """Make the folder, or see that it is this query's and complete.

    Raises
    ------
    UsageError
        It is another query's.
    FileError
        Something of it is gone.
    """
    store, checkpoint = place.store, storage_of(place.checkpoint)
    store.make()
    wanted, found = identity(spec) | place.identity(), store.query()
    done = _spark_commits(checkpoint)
    if found is None:
        if done is not None:
            raise FileError(
                f"Spark's checkpoint {checkpoint.root} is at batch {done}, but {store.shown} has "
                "no state of the join; restore it from a backup, or begin anew with another "
                "checkpointLocation"
            )
        store.put_query(wanted)
        return
    require_same(found, wanted, f"the checkpoint {store.shown}")
    latest = store.latest()
    last = -1 if latest is None else latest.batch
    if done is not None and last < done:
        raise FileError(
            f"{store.shown} ends with batch {last}, but Spark has completed batch {done}; restore "
            "the folder from a backup together with Spark's checkpoint around it, or begin anew "
            "with another checkpointLocation"
        )
    if latest is not None:
        store.check(latest)
        before = store.commit(latest.batch - 1)
        if done is None and latest.batch > 0:
            raise UsageError(
                f"{store.shown} is at batch {last}, but Spark's checkpoint {checkpoint.root} is "
                "new; remove the former, or restore the checkpoint"
            )
        if before is not None and (done is None or done < latest.batch):
            store.check(before)


def _spark_commits(checkpoint: Storage) -> int | None:
    """The last batch that Spark has completed."""
    numbers = [int(name) for name in checkpoint.names("commits") if name.isdecimal()]
    return max(numbers) if numbers else None
