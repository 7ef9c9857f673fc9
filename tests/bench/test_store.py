"""What was measured is kept, and measured anew only where that is asked for, and once."""

from __future__ import annotations

from pathlib import Path

from bench.store import Store


def test_results_are_kept_and_measured_again_once(tmp_path: Path) -> None:
    counts = iter(range(100))

    def get(store: Store, content: str = "a") -> int:
        return store.get({"what": "count"}, content, lambda: next(counts))

    first = Store(tmp_path)
    assert [get(first), get(first), get(Store(tmp_path))] == [0, 0, 0]
    assert get(first, "b") == 1
    again = Store(tmp_path, again=True)
    assert [get(again), get(again), get(again, "b")] == [2, 2, 3]
    assert get(Store(tmp_path)) == 2
