"""Whether a folder belongs to a query, and has all that the query left there."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from penstock.errors import FileError, UsageError
from penstock.spark_bridge.streaming.spec import JoinSpec
from penstock.spark_bridge.streaming.store import Store

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


def check_folder(store: Store, spec: JoinSpec) -> None:
    """Make the folder, or see that it is this query's and complete.

    Raises
    ------
    UsageError
        It is another query's.
    FileError
        Something of it is gone.
    """
    store.make()
    wanted, found = identity(spec), store.query()
    done = _spark_commits(Path(store.folder).parent)
    if found is None:
        if done is not None:
            raise FileError(
                f"Spark's checkpoint around {store.folder} is at batch {done}, but the folder has "
                "no state of the join; restore it from a backup, or begin anew with another "
                "checkpointLocation"
            )
        store.put_query(wanted)
        return
    changed = [name for name in {**found, **wanted} if found.get(name) != wanted.get(name)]
    if changed:
        raise UsageError(
            f"the checkpoint {store.folder} is of another query (changed: {', '.join(changed)}): "
            "its window does not fit; start the query as it was, or with another "
            "checkpointLocation"
        )
    latest = store.latest()
    last = -1 if latest is None else latest.batch
    if done is not None and last < done:
        raise FileError(
            f"{store.folder} ends with batch {last}, but Spark has completed batch {done}; restore "
            "the folder from a backup together with Spark's checkpoint around it, or begin anew "
            "with another checkpointLocation"
        )
    if latest is not None:
        store.check(latest)
        before = store.commit(latest.batch - 1)
        if done is None and latest.batch > 0:
            raise UsageError(
                f"{store.folder} is at batch {last}, but Spark's checkpoint around it is new; "
                "remove the folder, or restore the checkpoint"
            )
        if before is not None and (done is None or done < latest.batch):
            store.check(before)


def _spark_commits(checkpoint: Path) -> int | None:
    """The last batch that Spark has completed."""
    numbers = [int(p.name) for p in (checkpoint / "commits").glob("*") if p.name.isdecimal()]
    return max(numbers) if numbers else None
