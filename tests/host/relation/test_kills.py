"""``kill -9`` at random: what was committed is there, nothing is doubled, no remains stay."""

from __future__ import annotations

import multiprocessing
import shutil
import signal
from collections import Counter
from contextlib import closing, suppress
from pathlib import Path

import numpy as np
import pytest

from penstock.host.relation import FolderRelation, build, open_relation
from tests.host.relation.kills import FIRST, OPTIONS, Step, run
from tests.host.relation.model import Model, check_version, row_list
from tests.kit.foreign import ForeignFiles

#: Longest time that a program lives from the start of its last step on, in seconds.
LAST_S = 0.1
#: Longest wait for a program's word, in seconds.
WORD_S = 60


class Told:
    """What must be there, as far as programs have said before they were killed."""

    def __init__(self, location: str) -> None:
        self.location = location
        self.rows = Model(FIRST, ("id",))
        self.next_step = 0
        self.newest = 1
        self.open: Step | None = None
        self.pinned: tuple[int, Model] | None = None

    def word(self, number: int, version: int | None) -> None:
        """A step has begun; or, with a version, is done."""
        self.next_step = number + 1
        self.open = Step(number) if version is None else None
        if version is not None:
            self.done(Step(number), version)

    def done(self, step: Step, version: int) -> None:
        self.newest = max(self.newest, version)
        self.rows = step.apply(self.rows)
        if step.kind == "pin":
            self.pinned = version, self.rows
        elif step.kind == "build":
            self.check_built(step)

    def killed(self, relation: FolderRelation) -> None:
        """Find out whether the step that had begun is done."""
        step, self.open = self.open, None
        if step is None:
            return
        after = step.apply(self.rows)
        if row_counts(relation) == after.newest:
            self.rows = after
        if step.kind == "pin":
            self.pinned = relation.pin("query", step.number), self.rows
        elif step.kind == "build" and Path(step.built(self.location)).exists():
            self.check_built(step)

    def check_built(self, step: Step) -> None:
        with closing(open_relation(step.built(self.location))) as built:
            assert row_counts(built) == Model(FIRST, ()).newest
            assert list(built.check()) == []
        shutil.rmtree(step.built(self.location))

    def check(self, relation: FolderRelation) -> None:
        assert relation.newest() >= self.newest
        check_version(relation, relation.newest(), self.rows.newest)
        if self.pinned is not None:
            assert row_counts(relation, self.pinned[0]) == self.pinned[1].newest
        assert list(relation.check()) == []


def row_counts(relation: FolderRelation, number: int | None = None) -> Counter:
    rows = relation.version(number).batches()
    return Counter(row for part in rows for row in row_list(part.batch))


@pytest.mark.parametrize(
    "kills", [5, *(pytest.param(n, marks=pytest.mark.slow) for n in (100, 300))]
)
def test_kill_9_at_random(tmp_path, kills):
    location = str(tmp_path / "r")
    build(FIRST, location, OPTIONS).close()
    told, foreign = Told(location), ForeignFiles()
    for folder in ("", "versions", "data", "holds"):
        foreign.put(tmp_path / "r" / folder)
    foreign.put_files(tmp_path / "r" / "pins")
    foreign.put(tmp_path / "r" / ".sort.mine1234", "run-1.bak")
    random = np.random.default_rng(kills)
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["tests.host.relation.warmed_up"])
    for _ in range(kills):
        hears, says = context.Pipe(duplex=False)
        child = context.Process(target=run, args=(location, told.next_step, says))
        child.start()
        says.close()
        last = told.next_step + random.integers(3)
        while told.next_step <= last:
            assert hears.poll(WORD_S)
            told.word(*hears.recv())
        child.join(random.uniform(0, LAST_S))
        child.kill()
        child.join(WORD_S)
        assert child.exitcode == -signal.SIGKILL
        with closing(hears), suppress(EOFError):
            while True:
                told.word(*hears.recv())
        with closing(open_relation(location)) as relation:
            told.killed(relation)
            told.check(relation)
        foreign.require_untouched()
    with closing(open_relation(location)) as relation:
        relation.vacuum(keep_s=0, pins_s=-1, orphans_s=-1)
        told.pinned = None
        told.check(relation)
        segments = relation.version().record.segments
    foreign.require_untouched()

    def own(folder: str) -> list[str]:
        return sorted(path.name for path in Path(location, folder).iterdir() if path not in foreign)

    names = ["data", "holds", "newest.json", "pins", "relation.json", "versions"]
    assert own("") == [".sort.mine1234", *names]
    assert len(own("data")) == 2 * len(segments)
    assert len(own("versions")) == 1
    assert own("holds") == []
