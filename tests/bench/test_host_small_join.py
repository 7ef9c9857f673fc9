"""What bench/host/small_join measures is there to be measured."""

import pytest

from bench.host.small_join import calls, main


def test_calls():
    assert len(taken := calls(2)) == 2
    assert min(taken) > 0


@pytest.mark.slow
def test_command(capsys):
    assert main(["--quick"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 4
    assert all(" ms " in line for line in lines)
