# The processing system of a Zynq-7000 part.
create_bd_cell -type ip -vlnv xilinx.com:ip:processing_system7 $system
apply_bd_automation -rule xilinx.com:bd_rule:processing_system7 \
  -config {make_external "FIXED_IO, DDR" apply_board_preset "1" Master "Disable" Slave "Disable"} \
  [get_bd_cells $system]
set_property -dict [list \
  CONFIG.PCW_USE_M_AXI_GP0 1 \
  CONFIG.PCW_FPGA0_PERIPHERAL_FREQMHZ @{clock_mhz} \
  CONFIG.PCW_USE_FABRIC_INTERRUPT 1 \
  CONFIG.PCW_IRQ_F2P_INTR 1 \
] [get_bd_cells $system]
for {set number 0} {$number < [llength $memories]} {incr number} {
  set_property -dict [list \
    CONFIG.PCW_USE_S_AXI_HP$number 1 \
    CONFIG.PCW_S_AXI_HP${number}_DATA_WIDTH 64 \
  ] [get_bd_cells $system]
}
set clock $system/FCLK_CLK0
set reset $system/FCLK_RESET0_N
set interrupts $system/IRQ_F2P
set manager $system/M_AXI_GP0
set manager_clock $system/M_AXI_GP0_ACLK
set memory_port $system/S_AXI_HP%d
set memory_clock $system/S_AXI_HP%d_ACLK
