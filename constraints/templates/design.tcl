# Builds the bitstream: kernels beside the processing system. Generated, do not edit.
set here [file dirname [file normalize [info script]]]
cd $here
set system @{system}
# Each kernel with the address of its registers.
set kernels {
@{kernels}
}
# For each memory port of the processing system in use, the kernels' ports that share it.
set memories {
@{memories}
}

create_project -force -part @{part} penstock ./project
# The last number of a board part is the tools' choice.
set parts [get_board_parts -quiet @{board_part}]
if {[llength $parts] == 0} {
  error "Vivado has no board files for @{platform}; install them"
}
set_property board_part [lindex $parts end] [current_project]
set_property ip_repo_paths ./ip [current_project]
update_ip_catalog
add_files -fileset constrs_1 -norecurse ./@{constraints}
create_bd_design design_1

@{processing_system}
# One clock, and a reset that is synchronous to it.
create_bd_cell -type ip -vlnv xilinx.com:ip:proc_sys_reset reset_0
connect_bd_net [get_bd_pins $clock] [get_bd_pins reset_0/slowest_sync_clk] \
  [get_bd_pins $manager_clock]
connect_bd_net [get_bd_pins $reset] [get_bd_pins reset_0/ext_reset_in]
proc clocked {clock_pin reset_pin} {
  global clock
  connect_bd_net [get_bd_pins $clock] [get_bd_pins $clock_pin]
  connect_bd_net [get_bd_pins reset_0/peripheral_aresetn] [get_bd_pins $reset_pin]
}
proc smartconnect {name managers subordinates} {
  create_bd_cell -type ip -vlnv xilinx.com:ip:smartconnect $name
  set_property -dict [list CONFIG.NUM_SI $managers CONFIG.NUM_MI $subordinates] \
    [get_bd_cells $name]
  clocked $name/aclk $name/aresetn
}
proc join_interfaces {from to} {
  connect_bd_intf_net [get_bd_intf_pins $from] [get_bd_intf_pins $to]
}

# Kernels: registers behind the processing system's manager, interrupts in the same order.
set copies [expr {[llength $kernels] / 2}]
smartconnect registers_0 1 $copies
join_interfaces $manager registers_0/S00_AXI
create_bd_cell -type ip -vlnv xilinx.com:ip:xlconcat interrupts_0
set_property -dict [list CONFIG.NUM_PORTS $copies] [get_bd_cells interrupts_0]
connect_bd_net [get_bd_pins interrupts_0/dout] [get_bd_pins $interrupts]
set number 0
foreach {kernel address} $kernels {
  create_bd_cell -type ip -vlnv @{vlnv} $kernel
  clocked $kernel/ap_clk $kernel/ap_rst_n
  join_interfaces [format registers_0/M%02d_AXI $number] $kernel/@{control}
  connect_bd_net [get_bd_pins $kernel/interrupt] [get_bd_pins interrupts_0/In$number]
  assign_bd_address -offset $address -range @{range_bytes} \
    -target_address_space [get_bd_addr_spaces $system/Data] \
    [get_bd_addr_segs $kernel/@{control}/reg0] -force
  incr number
}

# Memory: one interconnect before each port of the processing system.
set number 0
foreach sharing $memories {
  smartconnect memory_$number [llength $sharing] 1
  connect_bd_net [get_bd_pins $clock] [get_bd_pins [format $memory_clock $number]]
  join_interfaces memory_$number/M00_AXI [format $memory_port $number]
  set place 0
  foreach port $sharing {
    join_interfaces $port [format memory_$number/S%02d_AXI $place]
    incr place
  }
  incr number
}
assign_bd_address

validate_bd_design
save_bd_design
make_wrapper -files [get_files design_1.bd] -top -import
set_property top design_1_wrapper [current_fileset]
set_property strategy Performance_ExtraTimingOpt [get_runs impl_1]
launch_runs impl_1 -to_step write_bitstream -jobs 4
wait_on_run impl_1
if {[get_property PROGRESS [get_runs impl_1]] ne "100%"} {
  error "implementation failed; see ./project/penstock.runs/impl_1/runme.log"
}
if {[get_property STATS.WNS [get_runs impl_1]] < 0} {
  error "timing is not met at @{clock_mhz} MHz; build fewer units or banks, or with a lower clock\
    (--clock-mhz)"
}
open_run impl_1
report_utilization -hierarchical -file ./utilization.rpt
report_timing_summary -file ./timing.rpt
file copy -force ./project/penstock.runs/impl_1/design_1_wrapper.bit ./penstock.bit
file copy -force ./project/penstock.gen/sources_1/bd/design_1/hw_handoff/design_1.hwh \
  ./penstock.hwh
close_project
