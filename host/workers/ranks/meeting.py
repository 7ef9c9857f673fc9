"""Steps that all ranks do together: what fails in one of them fails in all."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from penstock.errors import ProcessError

from ..members import Workers


class Meeting:
    """Ranks that open a stream.

    Parameters
    ----------
    workers : Workers
    """

    def __init__(self, workers: Workers) -> None:
        self._workers = workers

    def agree(self, do: Callable[[], Any]) -> list[Any]:
        """Do something in each rank, and return what each made of it, by rank, for JSON.

        Raises
        ------
        PenstockError
            It failed here.
        ProcessError
            It failed in another rank.
        """
        failed: Exception | None = None
        try:
            said = {"value": do()}
        except Exception as error:
            failed = error
            said = {"error": f"{type(error).__name__}: {error}"}
        answers = [json.loads(one) for one in self._workers.exchange(json.dumps(said).encode())]
        if failed is not None:
            raise failed
        for rank, answer in enumerate(answers):
            if "error" in answer:
                raise ProcessError(f"rank {rank} cannot begin: {answer['error']}")
        return [answer["value"] for answer in answers]
