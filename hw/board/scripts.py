"""Scripts for the vendor's tools: they package the kernel and build the file that a board loads.

They follow the manuals (UG1393, UG1118, UG994); nobody has run them here. Tests parse them with a
Tcl interpreter that records the vendor's commands, and so check their names, options and order.
"""

from __future__ import annotations

from collections.abc import Sequence

from penstock.constraints.boards import Board, Flow

from ..kernel.description import CONTROL, Description
from ..kernel.registers import RANGE_BYTES
from .placement import STRIDE_BYTES, System, register_range, system_of

#: Names of the files.
PACKAGE, DESIGN, XDC = "package.tcl", "design.tcl", "board.xdc"

#: Makes a script stop at its first error, with an exit code.
_HEAD = """\
# {what} Generated, do not edit.
set here [file dirname [file normalize [info script]]]
cd $here
"""


def build_scripts(
    description: Description, board: Board, instances: Sequence[str]
) -> dict[str, str]:
    """Scripts that build an overlay of some copies of a kernel, by their names.

    Parameters
    ----------
    description : Description
        The kernel. Its Verilog lies beside the scripts, for an Alveo card with its ``kernel.xml``
        and ``link.cfg``.
    board : Board
    instances : sequence of str
        Names of the copies.
    """
    scripts = {PACKAGE: package_script(description, board)}
    if board.flow is Flow.VIVADO:
        scripts[DESIGN] = design_script(description, board, instances)
        scripts[XDC] = constraints(board)
    return scripts


def package_script(description: Description, board: Board) -> str:
    """Tcl for Vivado: the Verilog as an IP, for an Alveo card also as a kernel (``.xo``)."""
    kernel = description.kernel
    lines = [
        _HEAD.format(what=f"Packages {kernel} as an IP."),
        f"create_project -force -part {board.part} package_ip ./package_ip",
        f"add_files -norecurse ./{kernel}.v",
        f"set_property top {kernel} [current_fileset]",
        "update_compile_order -fileset sources_1",
        f"ipx::package_project -root_dir ./ip -vendor {description.vendor} "
        f"-library {description.library} -taxonomy /KernelIP -import_files -set_current false",
        "ipx::unload_core ./ip/component.xml",
        "ipx::edit_ip_in_project -upgrade true -name edit_ip -directory ./ip ./ip/component.xml",
        "set core [ipx::current_core]",
        f"set_property name {kernel} $core",
        f"set_property version {description.version} $core",
        "set_property core_revision 1 $core",
        "foreach parameter [ipx::get_user_parameters -of_objects $core] {",
        "  ipx::remove_user_parameter [get_property NAME $parameter] $core",
        "}",
    ]
    for port in (CONTROL, *description.ports, *description.streams):
        lines.append(f"ipx::associate_bus_interfaces -busif {port} -clock ap_clk $core")
    lines += _register_map(description)
    if board.flow is Flow.VITIS:
        lines += [
            "set_property sdx_kernel true $core",
            "set_property sdx_kernel_type rtl $core",
        ]
    lines += [
        "set_property supported_families {} $core",
        "set_property auto_family_support_level level_2 $core",
        "ipx::create_xgui_files $core",
        "ipx::update_checksums $core",
        f"ipx::check_integrity {'-kernel ' if board.flow is Flow.VITIS else ''}$core",
        "ipx::save_core $core",
        "close_project -delete",
    ]
    if board.flow is Flow.VITIS:
        lines.append(
            f"package_xo -force -xo_path ./{kernel}.xo -kernel_name {kernel} "
            "-ip_directory ./ip -kernel_xml ./kernel.xml"
        )
    return "\n".join(lines) + "\n"


def _register_map(description: Description) -> list[str]:
    lines = [
        f"set map [ipx::add_memory_map {CONTROL} $core]",
        f"set_property slave_memory_map_ref {CONTROL} "
        f"[ipx::get_bus_interfaces {CONTROL} -of_objects $core]",
        "set block [ipx::add_address_block reg0 $map]",
        f"set_property range {RANGE_BYTES} $block",
        "set_property usage register $block",
    ]
    for register in description.registers.registers:
        for name, offset in description.registers.instances(register):
            lines += [
                f"set register [ipx::add_register {name} $block]",
                f"set_property address_offset 0x{offset:X} $register",
                f"set_property size {register.bits} $register",
            ]
            if register.port:
                lines += [
                    "set parameter [ipx::add_register_parameter ASSOCIATED_BUSIF $register]",
                    f"set_property value {register.port} $parameter",
                ]
    return lines


def design_script(description: Description, board: Board, instances: Sequence[str]) -> str:
    """Tcl for Vivado: kernels beside the processing system, as a bitstream with its handoff."""
    system = system_of(board)
    lines = [
        _HEAD.format(what="Builds the bitstream."),
        f"create_project -force -part {board.part} penstock ./project",
        # The last number of a board part is the tools' choice.
        f"set parts [get_board_parts -quiet {_pattern(board.platform)}]",
        "if {[llength $parts] == 0} {",
        f'  error "Vivado has no board files for {board.platform}; install them"',
        "}",
        "set_property board_part [lindex $parts end] [current_project]",
        "set_property ip_repo_paths ./ip [current_project]",
        "update_ip_catalog",
        f"add_files -fileset constrs_1 -norecurse ./{XDC}",
        "create_bd_design design_1",
        f"create_bd_cell -type ip -vlnv xilinx.com:ip:{system.name} {system.instance}",
        f"apply_bd_automation -rule xilinx.com:bd_rule:{system.name} "
        f'-config {{apply_board_preset "1"}} [get_bd_cells {system.instance}]',
        f"set_property -dict [list {_system_properties(system, board, description)}] "
        f"[get_bd_cells {system.instance}]",
    ]
    for number, name in enumerate(instances):
        lines += _kernel_cell(description, board, system, number, name)
    lines += [
        "validate_bd_design",
        "save_bd_design",
        "make_wrapper -files [get_files design_1.bd] -top -import",
        "set_property top design_1_wrapper [current_fileset]",
        "launch_runs impl_1 -to_step write_bitstream -jobs 4",
        "wait_on_run impl_1",
        'if {[get_property PROGRESS [get_runs impl_1]] ne "100%"} {',
        '  error "implementation failed; see ./project/penstock.runs/impl_1/runme.log"',
        "}",
        "if {[get_property STATS.WNS [get_runs impl_1]] < 0} {",
        f'  error "timing is not met at {board.clock_mhz} MHz; build fewer units or banks"',
        "}",
        "open_run impl_1",
        "report_utilization -hierarchical -file ./utilization.rpt",
        "report_timing_summary -file ./timing.rpt",
        "file copy -force ./project/penstock.runs/impl_1/design_1_wrapper.bit ./penstock.bit",
        "file copy -force ./project/penstock.gen/sources_1/bd/design_1/hw_handoff/design_1.hwh "
        "./penstock.hwh",
        "close_project",
    ]
    return "\n".join(lines) + "\n"


def _pattern(platform: str) -> str:
    """A pattern that matches a board part of any version."""
    return f"{{{platform.rpartition('.')[0]}.*}}" if platform.endswith("x") else platform


def _system_properties(system: System, board: Board, description: Description) -> str:
    memories = system.memory[: len(description.ports)]
    if system.name == "processing_system7":
        found = {
            "CONFIG.PCW_USE_M_AXI_GP0": "1",
            "CONFIG.PCW_FPGA0_PERIPHERAL_FREQMHZ": str(board.clock_mhz),
        }
        found |= {f"CONFIG.PCW_USE_S_AXI_HP{k}": "1" for k in range(len(memories))}
    else:
        found = {
            "CONFIG.PSU__USE__M_AXI_GP0": "1",
            "CONFIG.PSU__USE__M_AXI_GP1": "0",
            "CONFIG.PSU__FPGA_PL0_ENABLE": "1",
            "CONFIG.PSU__CRL_APB__PL0_REF_CTRL__FREQMHZ": str(board.clock_mhz),
        }
        # S_AXI_HP0_FPD and those after it are the general-purpose slaves 2 and up.
        found |= {f"CONFIG.PSU__USE__S_AXI_GP{2 + k}": "1" for k in range(len(memories))}
    return " ".join(f"{name} {value}" for name, value in found.items())


def _kernel_cell(
    description: Description, board: Board, system: System, number: int, name: str
) -> list[str]:
    """A copy of the kernel: registers behind the general-purpose port, masters to the memory."""
    lines = [f"create_bd_cell -type ip -vlnv {description.vlnv} {name}"]
    lines.append(_joined(f"/{system.instance}/{system.manager}", f"/{name}/{CONTROL}"))
    for place, port in enumerate(description.ports):
        memory = system.memory[place % len(system.memory)]
        lines.append(_joined(f"/{name}/{port}", f"/{system.instance}/{memory}"))
    base = register_range(board, number).start
    lines += [
        f"set segment [get_bd_addr_segs {system.instance}/Data/SEG_{name}_reg0]",
        f"set_property offset 0x{base:08X} $segment",
        f"set_property range {STRIDE_BYTES >> 10}K $segment",
    ]
    return lines


def _joined(manager: str, subordinate: str) -> str:
    clocks = "Clk_master {Auto} Clk_slave {Auto} Clk_xbar {Auto}"
    ends = f"Master {{{manager}}} Slave {{{subordinate}}}"
    config = f"{clocks} {ends} ddr_seg {{Auto}} intc_ip {{Auto}} master_apm {{0}}"
    return (
        f"apply_bd_automation -rule xilinx.com:bd_rule:axi4 -config {{{config}}} "
        f"[get_bd_intf_pins {subordinate.removeprefix('/')}]"
    )


def constraints(board: Board) -> str:
    """Constraints of a Zynq board: no pins, since kernels only meet the processing system."""
    return (
        "# Generated, do not edit. The clock comes from the processing system, "
        f"{board.clock_mhz} MHz at most.\n"
        "set_property BITSTREAM.GENERAL.COMPRESS TRUE [current_design]\n"
    )
