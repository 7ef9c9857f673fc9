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
    assert len(lines) == 8
    assert all(line.split()[-1].replace(".", "").replace(",", "").isdigit() for line in lines[1:-1])


@pytest.mark.slow
def test_real_joins(capsys):
    assert main(["--quick", "--real"]) == 0
    assert "points, 1,000 rows a side" in capsys.readouterr().out
