"""The vendors' scripts in a Tcl interpreter in which the vendors' commands are recorded."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from penstock.constraints.boards import BOARDS, ToolFlow, board
from penstock.errors import DeviceError, MissingToolError
from penstock.hw.board.build import build_overlay, check_tools
from penstock.hw.board.hwh import handoff
from penstock.hw.board.placement import clock_of, register_range, system_of
from penstock.hw.board.scripts import DESIGN, PACKAGE, PBLOCKS, XDC, build_scripts
from penstock.hw.join.config import JoinConfig
from penstock.hw.join.kernel.config import KernelConfig
from penstock.hw.join.kernel.describe import describe
from penstock.hw.kernel.description import Description
from penstock.hw.kernel.link import LINK, compute_units, link_config
from penstock.hw.window.config import WindowConfig
from penstock.hw.window.kernel.config import WindowKernelConfig
from penstock.hw.window.kernel.describe import describe as describe_window
from tests.hw.board import vendor

KERNEL = describe(KernelConfig.fit(JoinConfig(units=4, units_per_block=2, tests=2, key_bits=32)))
WINDOW = describe_window(WindowKernelConfig(window=WindowConfig(depth=16, tests=2)))
KERNELS = [pytest.param(KERNEL, id="join"), pytest.param(WINDOW, id="window")]
VENDOR = Path(__file__).with_name("vendor.tcl")
ZYNQ = [name for name, entry in BOARDS.items() if entry.flow is ToolFlow.VIVADO]
CARDS = [name for name in BOARDS if name not in ZYNQ]

needs_tcl = pytest.mark.skipif(shutil.which("tclsh") is None, reason="tclsh is not installed")


def run(script: Path, **answers: str) -> subprocess.CompletedProcess[str]:
    given = {"BOARD_PARTS": "part:1.0 part:1.1", "PROGRESS": "100%", "WNS": "0.1"}
    given |= {"CELLS": "get_cells=kernel"} | answers
    return subprocess.run(
        ["tclsh", str(VENDOR), str(script), *vendor.commands()],
        capture_output=True,
        text=True,
        timeout=60,
        env={**os.environ, **given},
    )


def calls(script: Path) -> list[list[str]]:
    """What the script asks of the tools, once it has been parsed and run to its end."""
    done = run(script)
    assert done.returncode == 0, done.stderr
    return [line.split("\x1f") for line in done.stdout.splitlines()]


def written(
    name: str, folder: Path, kernel: Description = KERNEL, copies: int = 2
) -> dict[str, Path]:
    entry = board(name)
    texts = build_scripts(kernel, entry, compute_units(copies, kernel.kernel))
    if entry.flow is ToolFlow.VITIS:
        texts[LINK] = link_config(kernel, entry, copies)
    for file, text in texts.items():
        (folder / file).write_text(text)
    return {file: folder / file for file in texts}


def replayed(script: Path, kernel: Description = KERNEL) -> tuple[vendor.Design, list[list[str]]]:
    """The design that a script leaves, unless the tools would refuse a call."""
    made = calls(script)
    design = vendor.Design(kernel)
    design.replay(made)
    return design, made


@needs_tcl
@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("name", BOARDS)
def test_package(name: str, kernel: Description, tmp_path: Path) -> None:
    _, made = replayed(written(name, tmp_path, kernel)[PACKAGE], kernel)
    order = [call[0] for call in made]
    before = ["create_project", "add_files", "ipx::package_project", "ipx::edit_ip_in_project"]
    before += ["ipx::add_memory_map", "ipx::check_integrity", "ipx::save_core", "close_project"]
    assert sorted(before, key=order.index) == before
    registers = {c[1] for c in made if c[0] == "ipx::add_register"}
    assert registers == {entry["name"] for entry in kernel.table()["registers"]}
    offsets = [int(c[2], 0) for c in made if c[:2] == ["set_property", "address_offset"]]
    assert offsets == [entry["offset"] for entry in kernel.table()["registers"]]
    joined = [c for c in made if c[0] == "ipx::associate_bus_interfaces"]
    clocked = {c[c.index("-busif") + 1] for c in joined if "-busif" in c}
    assert clocked == {"s_axi_control", *kernel.ports}
    frequency = "ipx::add_bus_parameter=FREQ_HZ"
    hertz = str(round(clock_of(board(name)) * 1e6))
    assert ["set_property", "value", hertz, frequency] in made
    assert ["set_property", "value_resolve_type", "user", frequency] in made
    is_card = BOARDS[name].flow is ToolFlow.VITIS
    assert ("package_xo" in order) == is_card
    assert (["set_property", "sdx_kernel", "true", "ipx::current_core="] in made) == is_card


@needs_tcl
@pytest.mark.parametrize("copies", [1, 2, 5, 8])
@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("name", ZYNQ)
def test_design(name: str, kernel: Description, copies: int, tmp_path: Path) -> None:
    design, made = replayed(written(name, tmp_path, kernel, copies)[DESIGN], kernel)
    order = [call[0] for call in made]
    before = ["create_project", "update_ip_catalog", "create_bd_design", "create_bd_cell"]
    before += ["apply_bd_automation", "validate_bd_design", "save_bd_design", "make_wrapper"]
    before += ["launch_runs", "wait_on_run", "open_run", "file copy"]
    assert sorted(before, key=order.index) == before
    entry = board(name)
    system = system_of(entry)
    units = compute_units(copies, kernel.kernel)
    assert [name for name, cell in design.cells.items() if cell.kind == "kernel"] == units
    # Registers lie where the handoff of the virtual board has them.
    for number, unit in enumerate(units):
        segment = (f"{system.instance}/Data", f"{unit}/s_axi_control/reg0")
        assert design.ranges[segment] == register_range(entry, number)
        assert design.driven[f"interrupts_0/In{number}"] == f"{unit}/interrupt"
    # All ports of the processing system are used, evenly, as long as there are managers.
    managers = copies * len(kernel.ports)
    used = [port for port in system.memory if f"{system.instance}/{port}" in design.joined]
    assert used == list(system.memory[:managers])
    sharing = [cell.config["NUM_SI"] for cell in design.cells.values() if "NUM_SI" in cell.config]
    shares = [int(count) for count in sharing[1:]]
    assert sum(shares) == managers
    assert max(shares) - min(shares) <= 1
    # The newest of several versions of the board files.
    assert ["set_property", "board_part", "part:1.1", "current_project="] in made
    # The tools' handoff, and with it PYNQ, finds the kernels at the addresses of ours.
    handed = handoff(kernel, entry, units)
    for number in range(copies):
        assert f'BASEVALUE="0x{register_range(entry, number).start:08X}"' in handed


@needs_tcl
@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("name", CARDS)
@pytest.mark.parametrize("copies", [1, 3, 60])
def test_link(name: str, copies: int, kernel: Description, tmp_path: Path) -> None:
    files = written(name, tmp_path, kernel, copies)
    text = files[LINK].read_text()
    vendor.check_link(text)
    dies = dict(re.findall(r"^slr=(\w+):SLR(\d)$", text, re.MULTILINE))
    assert list(dies) == compute_units(copies, kernel.kernel)
    assert max(dies.values()) == str(min(copies, BOARDS[name].slrs) - 1)
    # The linker puts registers at the dies' borders for kernels with both.
    assert {unit for unit, _ in re.findall(r"^sp=(\w+)\.(\w+)", text, re.MULTILINE)} == set(dies)
    _, made = replayed(files[PBLOCKS], kernel)
    kept = [call[-1] for call in made if call[0] == "get_cells"]
    regions = [call[-1] for call in made if call[0] == "get_pblocks"]
    assert dict(zip(kept, regions, strict=True)) == {
        unit: f"pblock_dynamic_SLR{die}" for unit, die in dies.items()
    }


@needs_tcl
def test_a_kernel_that_is_not_found_is_left_where_it_is(tmp_path: Path) -> None:
    done = run(written("u280", tmp_path)[PBLOCKS], CELLS="")
    assert "WARNING: penstock_kernel_2 is not kept within SLR1" in done.stdout
    assert "add_cells_to_pblock" not in done.stdout


@needs_tcl
def test_constraints(tmp_path: Path) -> None:
    replayed(written("kv260", tmp_path)[XDC])


@needs_tcl
@pytest.mark.parametrize(
    ("answers", "message"),
    [
        ({"BOARD_PARTS": ""}, "Vivado has no board files for xilinx.com:zcu104:part0:1.1"),
        ({"PROGRESS": "47%"}, "implementation failed"),
        (
            {"WNS": "-0.2"},
            "timing is not met at 200 MHz; build fewer units or banks, or with a lower clock (--cl",
        ),
    ],
)
def test_what_goes_wrong_is_said(answers: dict[str, str], message: str, tmp_path: Path) -> None:
    done = run(written("zcu104", tmp_path)[DESIGN], **answers)
    assert done.returncode == 1
    assert message in done.stderr
    assert "file copy" not in done.stdout


#: What a script could say by mistake, and what the recorder says of it.
MISTAKES = [
    ("zcu104", PACKAGE, "ipx::save_core", "ipx::save_cores", "invalid command name"),
    ("zcu104", PACKAGE, "-taxonomy", "-taxonomies", "has no option -taxonomies"),
    ("zcu104", PACKAGE, "value_resolve_type", "resolve_type", "has no property resolve_type"),
    ("zcu104", PACKAGE, "address_offset", "offset_address", "has no property offset_address"),
    ("u280", PACKAGE, "sdx_kernel_type", "sdx_type", "has no property sdx_type"),
    ("u280", PACKAGE, "-kernel_xml ./kernel.xml", "-kernel_xml", "lacks its value"),
    ("pynq-z2", DESIGN, "PCW_USE_M_AXI_GP0", "PCW_USE_M_AXI_GPO", "has no property CONFIG.PCW_USE"),
    ("pynq-z2", DESIGN, "PCW_IRQ_F2P_INTR 1", "PCW_IRQ_F2P_INTR 0", "no pin processing_system7_0/"),
    ("pynq-z2", DESIGN, 'Master "Disable"', 'Masters "Disable"', "has no Masters in its -config"),
    ("pynq-z2", DESIGN, 'make_external "FIXED_IO, DDR" ', "", "FIXED_IO and DDR are not external"),
    ("zcu104", DESIGN, "PSU__USE__IRQ0", "PSU__USE_IRQ0", "has no property CONFIG.PSU__USE_IRQ0"),
    ("zcu104", DESIGN, "CONFIG.NUM_SI $managers", "CONFIG.NUM_SI 1", "there is no interface mem"),
    ("zcu104", DESIGN, "CONFIG.NUM_SI $managers", "CONFIG.NUM_SI 17", "is 1 to 16, not 17"),
    ("zcu104", DESIGN, "[llength $sharing] 1", "[llength $sharing] 2", "M01_AXI is not connected"),
    (
        "zcu104",
        DESIGN,
        "CONFIG.NUM_PORTS $copies",
        "CONFIG.NUM_PORTS 9",
        "takes 8 interrupts, not 9",
    ),
    ("zcu104", DESIGN, "CONFIG.NUM_PORTS $copies", "CONFIG.NUM_PORTS 3", "In2 is not connected"),
    ("zcu104", DESIGN, "incr place", "", "memory_0/S00_AXI is connected to"),
    ("zcu104", DESIGN, "registers_0/M%02d_AXI $number", "registers_0/M00_AXI", "is connected to"),
    ("zcu104", DESIGN, "interrupts_0/In$number", "interrupts_0/In0", "2 of them have a net"),
    (
        "zcu104",
        DESIGN,
        "clocked $name/aclk",
        "clocked reset_0/slowest_sync_clk",
        "2 of them have a",
    ),
    ("zcu104", DESIGN, "0xA0010000", "0xA0000800", "cannot lie at 0xA0000800"),
    ("zcu104", DESIGN, "-range 0x1000", "-range 0x10000", "is packaged with 4096 bytes, not 65536"),
    (
        "u280",
        PACKAGE,
        "-clock ap_clk -reset ap_rst_n",
        "-busif s_axi_control -clock ap_clk",
        "ap_rst_n has",
    ),
    (
        "u280",
        PACKAGE,
        "-busif $interface -clock",
        "-busif s_axi_control -clock",
        "m_axi_gmem0, m_axi_gmem1",
    ),
    ("zcu104", PACKAGE, "$port:APERTURE_0", "none:APERTURE_0", "keeps the aperture"),
    (
        "zcu104",
        PACKAGE,
        "ignore_freq_hz true",
        "ignore_freq_hz maybe",
        "cannot be 'ignore_freq_hz m",
    ),
    ("u280", PACKAGE, "sdx_kernel_type rtl", "sdx_kernel_type hls", "cannot be 'hls'"),
    (
        "zcu104",
        PACKAGE,
        "range 4096",
        "range 65536",
        "range of what ipx::add_address_block gives ca",
    ),
    ("zcu104", DESIGN, "0xA0010000", "0xA0000000", "overlap at 0xA0000000"),
    ("zcu104", DESIGN, "-offset $address ", "", "lacks -offset"),
    ("zcu104", DESIGN, "\nassign_bd_address\n", "\n", "memory has no addresses"),
    (
        "zcu104",
        DESIGN,
        "ip:smartconnect",
        "ip:smart_connect",
        "there is no IP xilinx.com:ip:smart_",
    ),
    ("zcu104", DESIGN, "$kernel/interrupt", "$kernel/irq", "there is no pin penstock_kernel_1/irq"),
    ("u280", PBLOCKS, "-clear_locs", "-clear", "has no option -clear"),
    ("kv260", XDC, "COMPRESS", "COMPRESSED", "has no property BITSTREAM.GENERAL.COMPRESSED"),
]


@needs_tcl
@pytest.mark.parametrize(("name", "file", "right", "wrong", "message"), MISTAKES)
def test_mistakes_are_noticed(
    name: str, file: str, right: str, wrong: str, message: str, tmp_path: Path
) -> None:
    script = written(name, tmp_path)[file]
    text = script.read_text()
    assert right in text
    script.write_text(text.replace(right, wrong))
    done = run(script)
    if done.returncode:
        assert message in done.stderr
        return
    with pytest.raises(vendor.Refused, match=re.escape(message)):
        replayed(script)


@needs_tcl
def test_automation_of_a_taken_port_is_refused(tmp_path: Path) -> None:
    """What kept two kernels from a Zynq board: each kernel applied the rule to the same ports."""
    script = written("zcu104", tmp_path)[DESIGN]
    taken = "apply_bd_automation -rule xilinx.com:bd_rule:clkrst -config {Clk Auto} "
    taken += "[get_bd_intf_pins zynq_ultra_ps_e_0/S_AXI_HP0_FPD]\n"
    script.write_text(script.read_text().replace("validate_bd_design\n", taken))
    with pytest.raises(vendor.Refused, match="HP0_FPD, which is taken"):
        replayed(script)


@pytest.mark.parametrize(
    ("right", "wrong"),
    [
        ("[vivado]", "[advanced]"),
        ("[connectivity]", "[connections]"),
        ("prop=run.impl_1.STEPS.OPT", "prop=run.impl_1.STEP.OPT"),
        ("DIRECTIVE=Explore", "DIRECTIVE=Exploring"),
        ("slr=penstock_kernel_2:SLR1", "slr=penstock_kernel_2:1"),
        ("kernel_frequency=0:300", "kernel_frequency=300000000"),
        ("kernel_frequency=0:300", "[clock]\ndefaultFreqHz=300000000"),
        ("nk=penstock_kernel:2:", "nk=penstock_kernel:"),
    ],
)
def test_mistakes_in_the_links_configuration_are_noticed(right: str, wrong: str) -> None:
    text = link_config(KERNEL, board("u280"), 2)
    assert right in text
    with pytest.raises(vendor.Refused, match="has no"):
        vendor.check_link(text.replace(right, wrong))


def test_each_source_is_a_public_file_or_a_manual() -> None:
    pattern = r"[\w.-]+/[\w.-]+: \S+\.(tcl|py|cfg|rst|xdc)|AMD UG\d+, .+"
    assert [source for source in vendor.sources() if not re.fullmatch(pattern, source)] == []


@pytest.mark.parametrize(
    ("right", "wrong", "message"),
    [
        ("--save-temps", "--clock.defaultFreqHz=300000000", "has no option --clock.defaultFreqHz="),
        ("--target hw", "--target hardware", "--target of v++ cannot be 'hardware'"),
        ("--config link.cfg", "", "is not told --config"),
        ("k.xo", "k.v", "links kernels"),
    ],
)
def test_mistakes_in_a_call_of_the_linker_are_noticed(right: str, wrong: str, message: str) -> None:
    call = "v++ --target hw --platform xilinx_u280_gen3x16_xdma_1_202211_1 --save-temps --link "
    call += "--config link.cfg -o k.xclbin k.xo"
    vendor.check_vpp(call.split())
    with pytest.raises(vendor.Refused, match=re.escape(message)):
        vendor.check_vpp(call.replace(right, wrong).split())


@pytest.mark.parametrize("kernel", KERNELS)
def test_arguments_of_a_kernel_have_their_sizes(kernel: Description) -> None:
    text = kernel.kernel_xml()
    vendor.check_kernel_xml(text)
    wrong = text.replace('hostSize="0x8"', 'hostSize="0x4"')
    assert wrong != text
    with pytest.raises(vendor.Refused, match="has 8 bytes, on the host too"):
        vendor.check_kernel_xml(wrong)


@pytest.mark.parametrize("name", ZYNQ)
def test_a_divided_clock_is_no_faster_than_the_boards(name: str) -> None:
    for asked in range(50, BOARDS[name].clock_mhz + 1, 7):
        entry = board(name, asked)
        assert clock_of(entry) <= asked
        assert clock_of(entry) > asked * 0.7


def test_cards_have_no_design(tmp_path: Path) -> None:
    assert set(written("u280", tmp_path)) == {PACKAGE, PBLOCKS, LINK}
    assert set(written("kv260", tmp_path)) == {PACKAGE, DESIGN, XDC}


def test_a_lower_clock(tmp_path: Path) -> None:
    entry = board("zcu104", 150)
    texts = build_scripts(KERNEL, entry, compute_units(1, KERNEL.kernel))
    assert "PL0_REF_CTRL__FREQMHZ 150 " in texts[DESIGN]
    assert "set_property value 150000000 $frequency" in texts[PACKAGE]
    assert "timing is not met at 150 MHz" in texts[DESIGN]
    assert "150 MHz" in texts[XDC]


class TestTools:
    """The vendor's tools as programs that say what they were asked."""

    @pytest.fixture
    def path(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
        folder = tmp_path / "bin"
        folder.mkdir()
        monkeypatch.setenv("PATH", f"{folder}:/usr/bin:/bin")
        return folder

    def tool(self, path: Path, name: str, version: str, act: str = "") -> None:
        file = path / name
        file.write_text(f'#!/bin/sh\ncase "$1" in -version|--version) echo "{version}";; *)\n')
        file.write_text(file.read_text() + f'echo "$0 $@" >> calls; {act}\n;; esac\n')
        file.chmod(0o755)

    def test_missing(self, path: Path) -> None:
        with pytest.raises(MissingToolError, match=r"vivado is not on the path; install Vivado"):
            check_tools(board("zcu104"))
        self.tool(path, "vivado", "vivado v2023.2 (64-bit)")
        assert check_tools(board("zcu104")) == {"vivado": "v2023.2"}
        with pytest.raises(MissingToolError, match=r"v\+\+ is not on the path; install Vitis"):
            check_tools(board("u280"))

    def test_too_old(self, path: Path) -> None:
        self.tool(path, "vivado", "Vivado v2018.3")
        with pytest.raises(MissingToolError, match=r"vivado is v2018.3; the scripts are for 2021"):
            check_tools(board("zcu104"))

    @pytest.mark.parametrize(("name", "made"), [("zcu104", ".bit"), ("u280", ".xclbin")])
    def test_build(self, name: str, made: str, path: Path, tmp_path: Path) -> None:
        self.tool(path, "vivado", "vivado v2022.1")
        self.tool(path, "v++", "v++ v2022.1")
        steps: list[str] = []
        overlay = build_overlay(KERNEL, board(name), tmp_path, steps.append)
        assert overlay.suffix == made
        assert [line.rpartition("/")[2] for line in (tmp_path / "calls").read_text().splitlines()]
        assert (tmp_path / "calls").read_text().count("\n") == len(steps) == 2
        assert "-source package.tcl" in steps[0]
        assert ("--config link.cfg" in steps[1]) == (made == ".xclbin")
        if made == ".xclbin":
            vendor.check_vpp(steps[1].split(" "))
        # Vivado resolves a relative path in its own folder.
        assert (f"PLACE_DESIGN.TCL.PRE={tmp_path}/pblocks.tcl" in steps[1]) == (made == ".xclbin")

    def test_a_tool_that_fails(self, path: Path, tmp_path: Path) -> None:
        self.tool(path, "vivado", "vivado v2022.1", act="echo 'ERROR: no licence'; exit 3")
        with pytest.raises(DeviceError, match="vivado failed: ERROR: no licence"):
            build_overlay(KERNEL, board("zcu104"), tmp_path, lambda step: None)
