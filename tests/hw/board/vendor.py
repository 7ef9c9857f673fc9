"""What the vendor's commands take, and what Vivado and v++ refuse.

Commands, options, properties and parameters are those of public scripts, whose repository and path
stand beside each group, or of a manual. Whatever is in no group is refused, since nobody can ask
Vivado here. Facts about block designs (pins that are taken, addresses that overlap) are those of
UG994.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from xml.etree import ElementTree as xml

from penstock.hw.kernel.description import CONTROL, Description
from penstock.hw.kernel.registers import RANGE_BYTES

_TUTORIALS = "Xilinx/Vitis-Tutorials: Hardware_Acceleration/"

FINN = "Xilinx/finn: src/finn/transformation/fpgadataflow/templates.py"
VADD = "Xilinx/Vitis_Accel_Examples: getting_started/rtl_kernel/rtl_vadd/scripts/package_kernel.tcl"
VADD_XO = (
    "Xilinx/Vitis_Accel_Examples: 400_rtl_kernels/404_rtl_vadd_2kernels/rtl_vadd_2kernels/scripts/"
    "gen_vadd0_xo.tcl"
)
CBC = _TUTORIALS + "Design_Tutorials/05-bottom_up_rtl_kernel/krnl_cbc/pack_kernel.tcl"
TOPSORT = "WeikangQiao/TopSort: scripts/package_kernel.tcl"
IRQ = "zhenghuama/zcu104-setup: Vivado/zcu104irq.tcl"
LOGICTOOLS = "Xilinx/PYNQ: boards/Pynq-Z1/logictools/logictools.tcl"
CLOCKS = "Xilinx/PYNQ: pynq/pl_server/hwh_parser.py"
BITSTREAM = "Xilinx/PYNQ: boards/Pynq-Z1/base/build_bitstream.tcl"
ENZIAN = "KireinaHoro/enzian-pio-nic: vivado/create_bitstream.tcl"
FYSH = "Fysh-Fyve/fysh: packages/riscv/write-bitstream.tcl"
TSFPGA = "tsfpga/tsfpga: tsfpga/tcl/vivado_check_timing.tcl"
PLACED = "Xilinx/Vitis_Libraries: database/L3/tests/gqe/join/post_opt.tcl"
COMPRESSED = "rriggs/kintex-7-stlv7325t-board-files: constraints/bitstream.xdc"
BANKS = _TUTORIALS + "Feature_Tutorials/06-controlling-vivado-implementation/reference-files/"
BANKS += "design.cfg"
HARNESS = "Xilinx/AI-Engine-Test-Harness: test_harness/post_opt.tcl"
HBM = "Xilinx/Vitis_Accel_Examples: host/hbm_large_buffers/krnl_vadd.cfg"
CLOCK = "Xilinx/Vitis_Accel_Examples: rtl_kernels/rtl_vadd_2clks/details.rst"
VPP_MANUAL = "AMD UG1393, options of v++"
DIES = "Xilinx/Vitis_Accel_Examples: sys_opt/slr_assign/details.rst"
OVERLAY = "Xilinx/Vitis_Accel_Examples: host/hbm_rama_ip/advanced.cfg"
COMMANDS_MANUAL = "AMD UG835, Vivado Tcl commands"

#: For each source, commands with their flags, their options (``=`` has a value), and how many
#: words there are besides.
_COMMANDS: dict[str, dict[str, str]] = {
    FINN: {
        "create_project": "-part= 2",
        "current_project": "0",
        "create_bd_design": "1",
        "create_bd_cell": "-type= -vlnv= 1",
        "apply_bd_automation": "-rule= -config= 1",
        "set_property": "-dict 2-3",
        "get_property": "2",
        "get_bd_cells": "1",
        "get_bd_pins": "1",
        "get_bd_intf_pins": "1",
        "get_bd_addr_segs": "1",
        "connect_bd_net": "2+",
        "connect_bd_intf_net": "2",
        "assign_bd_address": "-offset= -range= 0-1",
        "validate_bd_design": "0",
        "save_bd_design": "0",
        "make_wrapper": "-files= -top -import 0",
        "get_files": "1",
        "get_runs": "1",
        "launch_runs": "-to_step= -jobs= 1",
        "wait_on_run": "1",
        "open_run": "1",
        "report_utilization": "-hierarchical -file= 0",
        "close_project": "0",
        "ipx::remove_segment": "-quiet 2",
        "ipx::get_address_spaces": "-of_objects= 1",
    },
    VADD: {
        "create_project": "-force 2",
        "add_files": "-norecurse 1",
        "update_compile_order": "-fileset= 0",
        "ipx::package_project": (
            "-root_dir= -vendor= -library= -taxonomy= -import_files -set_current= 0"
        ),
        "ipx::unload_core": "1",
        "ipx::edit_ip_in_project": "-upgrade= -name= -directory= 1",
        "ipx::current_core": "0",
        "ipx::remove_user_parameter": "2",
        "ipx::create_xgui_files": "1",
        "ipx::associate_bus_interfaces": "-busif= -clock= 1",
        "ipx::update_checksums": "1",
        "ipx::save_core": "1",
        "close_project": "-delete 0",
    },
    CBC: {
        "ipx::associate_bus_interfaces": "-clock= -reset= 1",
        "ipx::add_bus_parameter": "2",
        "ipx::add_register": "2",
        "ipx::add_register_parameter": "2",
        "ipx::get_bus_interfaces": "-of_objects= 1",
        "package_xo": "-force -xo_path= -kernel_name= -ip_directory= 0",
    },
    TOPSORT: {
        "ipx::add_bus_parameter": "-quiet 2",
        "ipx::add_memory_map": "-quiet 2",
        "ipx::add_address_block": "-quiet 2",
        "ipx::check_integrity": "-kernel 1",
    },
    VADD_XO: {"package_xo": "-xo_path= -kernel_name= -ip_directory= -kernel_xml= 0"},
    IRQ: {
        "add_files": "-norecurse -fileset= 1",
        "get_bd_addr_spaces": "1",
        "assign_bd_address": "-offset= -range= -target_address_space= -force 1",
    },
    LOGICTOOLS: {"update_ip_catalog": "0", "get_bd_addr_spaces": "1"},
    BITSTREAM: {"current_fileset": "0", "file copy": "-force 2"},
    ENZIAN: {"open_run": "1", "report_utilization": "-hierarchical -file= 0"},
    FYSH: {"update_compile_order": "-fileset= 0"},
    TSFPGA: {"report_timing_summary": "-file= 0"},
    PLACED: {"add_cells_to_pblock": "-clear_locs 2", "get_cells": "-hierarchical 1"},
    COMPRESSED: {"current_design": "0"},
    COMMANDS_MANUAL: {
        "get_board_parts": "-quiet 1",
        "get_cells": "-quiet -hierarchical 1",
        "get_pblocks": "-quiet 1",
        "ipx::get_user_parameters": "-of_objects= 0",
    },
}

#: For each source, properties by what has them, and patterns of their values, empty where they are
#: only read; block design cells are below.
_PROPERTIES: dict[str, dict[str, dict[str, str]]] = {
    FINN: {
        "current_project": {"board_part": r"[\w.:-]+"},
        "get_runs": {"strategy": "Performance_ExtraTimingOpt"},
        "ipx::current_core": {"ipi_drc": "ignore_freq_hz true"},
    },
    LOGICTOOLS: {"current_project": {"ip_repo_paths": r"\./ip"}},
    BITSTREAM: {"current_fileset": {"top": r"\w+"}},
    VADD: {
        "ipx::current_core": {
            "core_revision": r"\d+",
            "sdx_kernel": "true",
            "sdx_kernel_type": "rtl",
            "supported_families": "",
            "auto_family_support_level": r"level_[12]",
        },
        "ipx::get_user_parameters": {"name": ""},
    },
    TOPSORT: {
        "ipx::get_bus_interfaces": {"slave_memory_map_ref": CONTROL},
        "ipx::add_bus_parameter": {"value": r"\d{8,9}", "value_resolve_type": "user"},
        "ipx::add_register": {"address_offset": r"0x[\dA-F]+", "size": "32|64"},
    },
    CBC: {"ipx::add_register_parameter": {"value": r"m\w*_axi\w*"}},
    FYSH: {"get_runs": {"progress": ""}},
    COMPRESSED: {"current_design": {"bitstream.general.compress": "TRUE"}},
    COMMANDS_MANUAL: {
        "ipx::current_core": {"name": r"\w+", "version": r"\d+\.\d+"},
        "ipx::add_address_block": {"range": "4096", "usage": "register"},
        "get_runs": {"stats.wns": ""},
    },
}

#: For each source, keys of ``-config`` by rules of automation.
_AUTOMATION: dict[str, dict[str, set[str]]] = {
    FINN: {
        "xilinx.com:bd_rule:processing_system7": {
            "make_external",
            "apply_board_preset",
            "Master",
            "Slave",
        },
        "xilinx.com:bd_rule:zynq_ultra_ps_e": {"apply_board_preset"},
        "xilinx.com:bd_rule:clkrst": {"Clk", "Freq", "Ref_Clk0", "Ref_Clk1", "Ref_Clk2"},
    },
}

#: For each source, sections of a configuration of v++ and patterns of their lines.
_LINK: dict[str, dict[str, set[str]]] = {
    CLOCK: {"": {r"kernel_frequency=0:\d{2,3}"}},
    BANKS: {
        "connectivity": {r"nk=\w+:\d+:[\w.]+", r"sp=\w+\.\w+:DDR\[\d+(:\d+)?\]"},
    },
    HBM: {"connectivity": {r"sp=\w+\.\w+:HBM\[\d+(:\d+)?\]"}},
    DIES: {"connectivity": {r"slr=\w+:SLR\d"}},
    HARNESS: {
        "vivado": {
            r"prop=run\.impl_1\.STEPS\.(OPT|PLACE|PHYS_OPT|ROUTE|POST_ROUTE_PHYS_OPT)_DESIGN\."
            r"ARGS\.DIRECTIVE=(Explore|AggressiveExplore)",
            r"prop=run\.impl_1\.STEPS\.POST_ROUTE_PHYS_OPT_DESIGN\.IS_ENABLED=true",
        },
    },
    OVERLAY: {"advanced": {r"param=compiler\.userPostSysLinkOverlayTcl=[\w.]+"}},
}


#: Options of v++ that link a card's overlay, and patterns of their values; files of kernels follow.
_VPP: dict[str, str] = {
    "--link": "", "--save-temps": "", "--target": "hw", "--platform": r"xilinx_u\d+\w*_\d{6}_\d",
    "--config": r"[\w.]+", "-o": r"\w+\.xclbin",
    "--vivado.prop": r"run\.impl_1\.STEPS\.PLACE_DESIGN\.TCL\.PRE=/[\w./-]+\.tcl",
}  # fmt: skip


class Refused(Exception):
    """The vendor's tools would not do it, or no source says that they would."""


# Commands


@dataclass(frozen=True)
class Call:
    """A command with its options and its other words."""

    name: str
    options: Mapping[str, str]
    words: Sequence[str]


def parse(name: str, arguments: Sequence[str]) -> Call:
    """A call of a command, in one of the forms that are known."""
    forms = [forms[name] for forms in _COMMANDS.values() if name in forms]
    if not forms:
        raise Refused(f"there is no command {name}")
    known = {option for form in forms for option in form.split()[:-1]}
    options: dict[str, str] = {}
    words: list[str] = []
    left = list(arguments)
    while left:
        word = left.pop(0)
        if not re.fullmatch(r"-[a-z_]+", word):
            words.append(word)
        elif word in options:
            raise Refused(f"{name} {word} is said twice")
        elif word in known:
            options[word] = ""
        elif f"{word}=" not in known:
            raise Refused(f"{name} has no option {word}")
        elif not left:
            raise Refused(f"{name} {word} lacks its value")
        else:
            options[word] = left.pop(0)
    if not any(_counts(form.split()[-1], len(words)) for form in forms):
        raise Refused(f"{name} does not take {len(words)} words: {' '.join(words)}")
    return Call(name, options, words)


def _counts(allowed: str, count: int) -> bool:
    first, many, last = re.fullmatch(r"(\d)(\+?)-?(\d?)", allowed).groups()  # pyright: ignore
    return int(first) <= count and (bool(many) or count <= int(last or first))


def sources() -> set[str]:
    """Where all of it is from."""
    cells = {source for kind in KINDS.values() for source in kind.source.split("; ")}
    return cells | {*_COMMANDS, *_PROPERTIES, *_AUTOMATION, *_LINK, VPP_MANUAL}


def commands() -> list[str]:
    """Names of all commands but those of Tcl itself."""
    return sorted({name for forms in _COMMANDS.values() for name in forms} - {"file copy"})


def check_link(text: str) -> None:
    """Refuse a configuration of v++ with a section or a line that is in no source."""
    section = ""
    for line in text.splitlines():
        if not line or line.startswith("#"):
            continue
        if heading := re.fullmatch(r"\[(\w+)\]", line):
            section = heading[1]
            continue
        patterns = {one for found in _LINK.values() for one in found.get(section, ())}
        if not any(re.fullmatch(pattern, line) for pattern in patterns):
            raise Refused(f"[{section}] has no {line}")


def check_vpp(arguments: Sequence[str]) -> None:
    """Refuse a call of v++ with an option, or a value of one, that is in no source."""
    left, given = list(arguments[1:]), set()
    while left and left[0].startswith("-"):
        option = left.pop(0)
        if option not in _VPP:
            raise Refused(f"v++ has no option {option}")
        given.add(option)
        if _VPP[option] and not re.fullmatch(_VPP[option], value := left.pop(0)):
            raise Refused(f"{option} of v++ cannot be {value!r}")
    if missing := {"--link", "--target", "--platform", "--config", "-o"} - given:
        raise Refused(f"v++ is not told {', '.join(sorted(missing))}")
    if not left or not all(re.fullmatch(r"\w+\.xo", file) for file in left):
        raise Refused(f"v++ links kernels (.xo), not {left}")


def check_kernel_xml(text: str) -> None:
    """Refuse arguments whose sizes on the host are not what XRT writes: UG1393, kernel.xml."""
    for argument in xml.fromstring(text).iter("arg"):
        name, kind = argument.get("name"), argument.get("type", "")
        size = int(argument.get("size", "0"), 0)
        wanted = 8 if kind in ("void*", "unsigned long long") else 4
        if size != wanted or int(argument.get("hostSize", "0"), 0) != wanted:
            raise Refused(f"{name} of type {kind} has {wanted} bytes, on the host too")
        if (argument.get("addressQualifier") == "1") != (kind == "void*"):
            raise Refused(f"{name} of type {kind} is in the wrong address space")


# Block designs


@dataclass(frozen=True)
class Kind:
    """A kind of cell.

    Parameters
    ----------
    source : str
        Where its properties and pins are from.
    properties : str
        Pattern of its properties, without ``CONFIG.``.
    outputs, inputs : mapping of str to str
        Pins; if properties must be 1 for the pin to be there, their names.
    optional : tuple of str
        Inputs that may stay open.
    managers, subordinates : mapping of str to str
        Interfaces, in the same way.
    """

    source: str
    properties: str
    outputs: Mapping[str, str] = field(default_factory=dict)
    inputs: Mapping[str, str] = field(default_factory=dict)
    optional: tuple[str, ...] = ()
    managers: Mapping[str, str] = field(default_factory=dict)
    subordinates: Mapping[str, str] = field(default_factory=dict)


KINDS = {
    "processing_system7": Kind(
        f"{LOGICTOOLS}; {FINN}",
        r"PCW_USE_M_AXI_GP[01]|PCW_USE_S_AXI_HP[0-3]|PCW_S_AXI_HP[0-3]_DATA_WIDTH|"
        r"PCW_FPGA[0-3]_PERIPHERAL_FREQMHZ|PCW_USE_FABRIC_INTERRUPT|PCW_IRQ_F2P_INTR",
        {"FCLK_CLK0": "", "FCLK_RESET0_N": ""},
        {
            "M_AXI_GP0_ACLK": "PCW_USE_M_AXI_GP0",
            "IRQ_F2P": "PCW_USE_FABRIC_INTERRUPT PCW_IRQ_F2P_INTR",
            **{f"S_AXI_HP{k}_ACLK": f"PCW_USE_S_AXI_HP{k}" for k in range(4)},
        },
        managers={"M_AXI_GP0": "PCW_USE_M_AXI_GP0"},
        subordinates={f"S_AXI_HP{k}": f"PCW_USE_S_AXI_HP{k}" for k in range(4)},
    ),
    "zynq_ultra_ps_e": Kind(
        f"{IRQ}; {FINN}; {CLOCKS}",
        r"PSU__USE__M_AXI_GP[012]|PSU__USE__S_AXI_GP[2-5]|PSU__SAXIGP[2-5]__DATA_WIDTH|"
        r"PSU__FPGA_PL0_ENABLE|PSU__OVERRIDE__BASIC_CLOCK|PSU__CRL_APB__PL0_REF_CTRL__FREQMHZ|PSU__USE__IRQ0",
        {"pl_clk0": "", "pl_resetn0": ""},
        {
            "maxihpm0_fpd_aclk": "PSU__USE__M_AXI_GP0",
            "pl_ps_irq0": "PSU__USE__IRQ0",
            **{f"saxihp{k}_fpd_aclk": f"PSU__USE__S_AXI_GP{2 + k}" for k in range(4)},
        },
        managers={"M_AXI_HPM0_FPD": "PSU__USE__M_AXI_GP0"},
        subordinates={f"S_AXI_HP{k}_FPD": f"PSU__USE__S_AXI_GP{2 + k}" for k in range(4)},
    ),
    "smartconnect": Kind(
        f"{FINN}; {IRQ}",
        "NUM_SI|NUM_MI",
        inputs={"aclk": "", "aresetn": ""},
    ),
    "proc_sys_reset": Kind(
        FINN,
        "(?!)",
        {"peripheral_aresetn": "", "interconnect_aresetn": ""},
        {"slowest_sync_clk": "", "ext_reset_in": "", "dcm_locked": ""},
        optional=("dcm_locked",),
    ),
    "xlconcat": Kind(IRQ, "NUM_PORTS", {"dout": ""}),
}
#: Interfaces of a SmartConnect on each side, and inputs of a concatenation, at most.
MOST_SIDES, MOST_INPUTS = 16, 32
#: Interrupts that a processing system takes.
INTERRUPTS = {"processing_system7": 16, "zynq_ultra_ps_e": 8}


@dataclass
class Cell:
    """A cell of a block design."""

    kind: str
    config: dict[str, str] = field(default_factory=dict)


class Design:
    """A project of Vivado, as far as calls change what later calls may do.

    Parameters
    ----------
    kernel : Description
        The packaged kernel.
    """

    def __init__(self, kernel: Description) -> None:
        self._kernel = kernel
        self.cells: dict[str, Cell] = {}
        #: The other end of each interface.
        self.joined: dict[str, str] = {}
        #: The driver of each pin.
        self.driven: dict[str, str] = {}
        #: Ranges of addresses by the space and the segment.
        self.ranges: dict[tuple[str, str], range] = {}
        self._automated: set[str] = set()
        self._all_assigned = False
        self._associated: set[str] = set()
        self._apertures: set[str] = set()

    def replay(self, calls: Iterable[Sequence[str]]) -> None:
        """Take calls, one after the other."""
        for name, *arguments in calls:
            call = parse(name, arguments)
            handler = getattr(self, f"_{name.replace('::', '_').replace(' ', '_')}", None)
            if handler is not None:
                handler(call)

    # -- what there is ----------------------------------------------------------------------------

    def _cell(self, name: str) -> Cell:
        if name not in self.cells:
            raise Refused(f"there is no cell {name}")
        return self.cells[name]

    def _present(self, cell: Cell, ends: Mapping[str, str]) -> set[str]:
        return {
            end
            for end, needs in ends.items()
            if all(cell.config.get(one) == "1" for one in needs.split())
        }

    def _numbered(self, cell: Cell, pattern: str, setting: str) -> set[str]:
        return {pattern.format(k) for k in range(int(cell.config.get(setting, "1")))}

    def managers(self, name: str) -> set[str]:
        cell = self._cell(name)
        if cell.kind == "kernel":
            return set(self._kernel.ports)
        if cell.kind == "smartconnect":
            return self._numbered(cell, "M{:02d}_AXI", "NUM_MI")
        return self._present(cell, KINDS[cell.kind].managers)

    def subordinates(self, name: str) -> set[str]:
        cell = self._cell(name)
        if cell.kind == "kernel":
            return {CONTROL}
        if cell.kind == "smartconnect":
            return self._numbered(cell, "S{:02d}_AXI", "NUM_SI")
        return self._present(cell, KINDS[cell.kind].subordinates)

    def outputs(self, name: str) -> set[str]:
        cell = self._cell(name)
        if cell.kind == "kernel":
            return {"interrupt"}
        return self._present(cell, KINDS[cell.kind].outputs)

    def inputs(self, name: str) -> set[str]:
        cell = self._cell(name)
        if cell.kind == "kernel":
            return {"ap_clk", "ap_rst_n"}
        if cell.kind == "xlconcat":
            return self._numbered(cell, "In{}", "NUM_PORTS")
        return self._present(cell, KINDS[cell.kind].inputs)

    def _get_bd_cells(self, call: Call) -> None:
        self._cell(call.words[0])

    def _get_bd_pins(self, call: Call) -> None:
        cell, _, pin = call.words[0].rpartition("/")
        if pin not in self.inputs(cell) | self.outputs(cell):
            raise Refused(f"there is no pin {call.words[0]}")

    def _get_bd_intf_pins(self, call: Call) -> None:
        cell, _, pin = call.words[0].rpartition("/")
        if pin not in self.managers(cell) | self.subordinates(cell):
            raise Refused(f"there is no interface {call.words[0]}")

    def _get_bd_addr_spaces(self, call: Call) -> None:
        cell, _, space = call.words[0].rpartition("/")
        kind = self._cell(cell).kind
        if not (kind in INTERRUPTS and space == "Data") and space not in self._kernel.ports:
            raise Refused(f"there is no address space {call.words[0]}")

    def _get_bd_addr_segs(self, call: Call) -> None:
        for word in call.words:
            cell, _, segment = word.partition("/")
            if self._cell(cell).kind != "kernel" or segment != f"{CONTROL}/reg0":
                raise Refused(f"there is no segment {word}")

    # -- what calls do ----------------------------------------------------------------------------

    def _create_bd_cell(self, call: Call) -> None:
        name, vlnv = call.words[0], call.options["-vlnv"]
        if name in self.cells:
            raise Refused(f"there is a cell {name} already")
        if vlnv == self._kernel.vlnv:
            kind = "kernel"
        elif vlnv.startswith("xilinx.com:ip:") and vlnv.split(":")[2] in KINDS:
            kind = vlnv.split(":")[2]
        else:
            raise Refused(f"there is no IP {vlnv}")
        self.cells[name] = Cell(kind)

    def _set_property(self, call: Call) -> None:
        *given, target = call.words
        command, _, name = target.partition("=")
        pairs = _pairs(given[0]) if "-dict" in call.options else {given[0]: given[1]}
        if command == "get_bd_cells":
            self._configure(name, pairs)
            return
        for key, value in pairs.items():
            _check_property(command, key, value)

    def _get_property(self, call: Call) -> None:
        _check_property(call.words[1].partition("=")[0], call.words[0])

    def _configure(self, name: str, pairs: Mapping[str, str]) -> None:
        cell = self._cell(name)
        for key, value in pairs.items():
            known = "(?!)" if cell.kind == "kernel" else KINDS[cell.kind].properties
            if not re.fullmatch(rf"CONFIG\.({known})", key):
                raise Refused(f"{cell.kind} has no property {key}")
            if key[7:] in ("NUM_SI", "NUM_MI", "NUM_PORTS"):
                most = MOST_INPUTS if cell.kind == "xlconcat" else MOST_SIDES
                if not 1 <= int(value) <= most:
                    raise Refused(f"{key} of {name} is 1 to {most}, not {value}")
            cell.config[key[7:]] = value

    def _apply_bd_automation(self, call: Call) -> None:
        rule, target = call.options["-rule"], call.words[0].partition("=")[2]
        keys = {key for rules in _AUTOMATION.values() for key in rules.get(rule, ())}
        if not keys:
            raise Refused(f"there is no rule {rule}")
        given = _pairs(call.options["-config"])
        if unknown := set(given) - keys:
            raise Refused(f"{rule} has no {', '.join(sorted(unknown))} in its -config")
        if target in self._automated or target in self.joined or target in self.driven:
            raise Refused(f"automation is applied to {target}, which is taken")
        self._automated.add(target)
        if rule.endswith("processing_system7") and given.get("make_external") != "FIXED_IO, DDR":
            raise Refused(f"{target} has no pins to its memory: FIXED_IO and DDR are not external")

    def _connect_bd_intf_net(self, call: Call) -> None:
        one, other = (word.partition("=")[2] for word in call.words)
        if self._is_manager(one) == self._is_manager(other):
            raise Refused(f"{one} and {other} are on the same side")
        for end in (one, other):
            if end in self.joined:
                raise Refused(f"{end} is connected to {self.joined[end]} already")
        self.joined |= {one: other, other: one}

    def _is_manager(self, end: str) -> bool:
        cell, _, pin = end.rpartition("/")
        return pin in self.managers(cell)

    def _connect_bd_net(self, call: Call) -> None:
        pins = [word.partition("=")[2] for word in call.words]
        nets = [pin for pin in pins if pin in self.driven or self._is_output(pin)]
        if len(nets) != 1:
            raise Refused(f"{', '.join(pins)}: {len(nets)} of them have a net, not one")
        driver = self.driven.get(nets[0], nets[0])
        self.driven |= {pin: driver for pin in pins if pin != nets[0]}

    def _is_output(self, pin: str) -> bool:
        cell, _, end = pin.rpartition("/")
        return end in self.outputs(cell)

    def _assign_bd_address(self, call: Call) -> None:
        if not call.words:
            self._all_assigned = True
            return
        missing = {"-offset", "-range", "-target_address_space"} - set(call.options)
        if missing:
            raise Refused(f"the address of {call.words[0]} lacks {', '.join(sorted(missing))}")
        space = call.options["-target_address_space"].partition("=")[2]
        segment = call.words[0].partition("=")[2]
        offset, size = (int(call.options[option], 0) for option in ("-offset", "-range"))
        if segment.endswith("/reg0") and size != RANGE_BYTES:
            raise Refused(f"{segment} is packaged with {RANGE_BYTES} bytes, not {size}")
        if size & (size - 1) or offset % size:
            raise Refused(f"{segment} of {size} bytes cannot lie at 0x{offset:X}")
        mapped = range(offset, offset + size)
        for (other_space, other), taken in self.ranges.items():
            if other_space == space and mapped.start < taken.stop and taken.start < mapped.stop:
                raise Refused(f"{segment} and {other} overlap at 0x{mapped.start:X}")
        self.ranges[space, segment] = mapped

    def _ipx_associate_bus_interfaces(self, call: Call) -> None:
        if call.options.get("-clock") != "ap_clk":
            raise Refused(f"the clock of {call.options} is ap_clk")
        self._associated.add(call.options.get("-busif") or call.options["-reset"])

    def _ipx_remove_segment(self, call: Call) -> None:
        self._apertures.add(call.words[0].partition(":")[0])

    def _ipx_check_integrity(self, call: Call) -> None:
        needed = {"ap_rst_n", CONTROL, *self._kernel.ports}
        if missing := needed - self._associated:
            raise Refused(f"{', '.join(sorted(missing))} has no clock")
        if missing := set(self._kernel.ports) - self._apertures:
            raise Refused(f"{', '.join(sorted(missing))} keeps the aperture that was inferred")

    def _validate_bd_design(self, call: Call) -> None:
        for complaint in self.complaints():
            raise Refused(complaint)

    def complaints(self) -> Iterator[str]:
        """What keeps the design from being whole."""
        for name, cell in self.cells.items():
            optional = () if cell.kind == "kernel" else KINDS[cell.kind].optional
            for pin in sorted(self.inputs(name) - set(optional)):
                if f"{name}/{pin}" not in self.driven:
                    yield f"{name}/{pin} is not connected"
            for end in sorted(self.managers(name) | self.subordinates(name)):
                if f"{name}/{end}" not in self.joined:
                    yield f"{name}/{end} is not connected"
            if cell.kind in INTERRUPTS:
                yield from self._interrupts(name, INTERRUPTS[cell.kind])
        placed = {segment for _, segment in self.ranges}
        for name, cell in self.cells.items():
            if cell.kind == "kernel" and f"{name}/{CONTROL}/reg0" not in placed:
                yield f"{name} has no address"
        if not self._all_assigned:
            yield "memory has no addresses"

    def _interrupts(self, system: str, most: int) -> Iterator[str]:
        for pin, driver in self.driven.items():
            if pin in (f"{system}/IRQ_F2P", f"{system}/pl_ps_irq0"):
                wired = len(self.inputs(driver.partition("/")[0]))
                if wired > most:
                    yield f"{pin} takes {most} interrupts, not {wired}"


def _check_property(command: str, key: str, value: str | None = None) -> None:
    known = {k: p for found in _PROPERTIES.values() for k, p in found.get(command, {}).items()}
    if key.lower() not in known:
        raise Refused(f"what {command} gives has no property {key}")
    if value is not None and not re.fullmatch(known[key.lower()], value):
        raise Refused(f"{key} of what {command} gives cannot be {value!r}")


def _pairs(text: str) -> dict[str, str]:
    """Keys and values of a Tcl list, whose words may be in braces or quotes."""
    words = re.findall(r"\{([^{}]*)\}|\"([^\"]*)\"|(\S+)", text)
    flat = [next((part for part in word if part), "") for word in words]
    if len(flat) % 2:
        raise Refused(f"a key without a value: {text}")
    return dict(zip(flat[::2], flat[1::2], strict=True))
