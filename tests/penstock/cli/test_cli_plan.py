"""``penstock plan``: what is needed, what is sustained, and clear refusals."""

from __future__ import annotations

import json

import pytest

WINDOW = ("--window", "180s")
CARD = (*WINDOW, "--board", "u280")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([*WINDOW, "--board", "u55"], "no board named 'u55'; choose one of u50, u200"),
        ([*WINDOW], "give --board, --clock, or --device cpu"),
        ([*CARD], "give --units to know the rate, or --rate to know the units"),
        ([*CARD, "--clock", "300"], "--board and --clock both say the clock"),
        ([*CARD, "--rate", "0"], "--rate must be above 0, not 0"),
        ([*CARD, "--rate", "-5"], "--rate must be above 0, not -5"),
        ([*CARD, "--units", "0"], "--units must be above 0, not 0"),
        ([*CARD, "--units", "70000"], "units must be 1 to 65536, not 70000"),
        ([*CARD, "--rate", "1", "--ratio", "0"], "--ratio must be above 0, not 0"),
        ([*CARD, "--rate", "1", "--latency", "0s"], "--latency must be above 0, not 0"),
        ([*CARD, "--rate", "1", "--link", "0"], "--link must be above 0, not 0"),
        ([*CARD, "--rate", "1", "--transfer-us", "-1"], "--transfer-us must not be negative"),
        ([*CARD, "--rate", "1", "--pipelines", "0"], "--pipelines must be above 0, not 0"),
        ([*CARD, "--rate", "1", "--ratio", "1e308"], "--ratio must be from 1e-15 to 1e+15"),
        ([*CARD, "--rate", "1e9"], "do not sustain this rate; use more pipelines"),
        (["--clock", "-1", *WINDOW, "--rate", "1"], "--clock must be above 0, not -1"),
        (["--window", "180", "--board", "u50"], "--window takes a duration with its unit"),
        (["--window", "0s", "--board", "u50"], "--window must have a length above 0"),
        (["--window", "1s,2s,3s", "--board", "u50"], "one duration or two, before and after"),
        ([*WINDOW, "--device", "gpu"], "--device takes cpu, not 'gpu'"),
        ([*WINDOW, "--device", "cpu", "--units", "5"], "--device cpu is this machine"),
        ([*CARD, "--rate", "1", "--picture", "x.doc"], "--picture ends in .png, .svg, .pdf"),
    ],
)
def test_refuses(cli, arguments, message):
    out, err, status = cli("plan", *arguments)
    assert status == 2
    assert message in err
    assert not out


def planned(cli, *arguments: str) -> dict:
    out, err, status = cli("plan", *arguments, "--json")
    assert (status, err) == (0, "")
    return json.loads(out)


def test_rate_and_units_invert_each_other(cli):
    rated = planned(cli, *CARD, "--units", "1024")
    assert rated["clock_mhz"] == 300
    assert rated["utilisation"] == pytest.approx(1)
    # η·f·n_b against 2·ϖ·T²/4, equation (5).
    assert rated["evaluating"] * 300e6 * 1024 == pytest.approx(90 * rated["rate_per_s"] ** 2)
    needed = planned(cli, *CARD, "--rate", str(rated["rate_per_s"]))
    assert needed["units_needed"] <= 1024
    less = planned(cli, *CARD, "--rate", "20000", "--units", "1024")
    assert less["utilisation"] < 1
    assert less["latency_mean_s"] < less["latency_worst_s"] < 0.2
    assert less["sustained_rate_per_s"] == pytest.approx(rated["rate_per_s"])


def test_asymmetric_window(cli):
    symmetric = planned(cli, "--window", "30s", "--clock", "200", "--rate", "50000")
    other = planned(cli, "--window", "50s,10s", "--clock", "200", "--rate", "50000")
    assert (other["before_s"], other["after_s"]) == (50, 10)
    assert other["evaluations_per_s"] == symmetric["evaluations_per_s"]


def test_table(cli):
    out, _, status = cli("plan", *CARD, "--rate", "1e5", "--units", "64")
    assert status == 0
    assert "rate of both streams" in out
    assert "100,000" in out
    assert "overloaded: latency grows without end" in out


def test_cpu_and_picture(cli, tmp_path):
    pytest.importorskip("matplotlib", reason="needs the demo extra")
    path = tmp_path / "cores.png"
    out, err, status = cli("plan", *WINDOW, "--device", "cpu", "--rate", "1000", "--picture", path)
    assert (status, err) == (0, f"picture: {path}\n")
    assert "cores needed" in out
    assert path.read_bytes().startswith(b"\x89PNG")
    missing = tmp_path / "no" / "units.png"
    _, err, status = cli("plan", *CARD, "--rate", "1000", "--picture", missing)
    assert status == 6
    assert "there is no folder" in err
