# The processing system of a Zynq UltraScale+ part.
create_bd_cell -type ip -vlnv xilinx.com:ip:zynq_ultra_ps_e $system
apply_bd_automation -rule xilinx.com:bd_rule:zynq_ultra_ps_e \
  -config {apply_board_preset "1"} [get_bd_cells $system]
set_property -dict [list \
  CONFIG.PSU__USE__M_AXI_GP0 1 \
  CONFIG.PSU__USE__M_AXI_GP1 0 \
  CONFIG.PSU__USE__M_AXI_GP2 0 \
  CONFIG.PSU__OVERRIDE__BASIC_CLOCK 0 \
  CONFIG.PSU__FPGA_PL0_ENABLE 1 \
  CONFIG.PSU__CRL_APB__PL0_REF_CTRL__FREQMHZ @{clock_mhz} \
  CONFIG.PSU__USE__IRQ0 1 \
] [get_bd_cells $system]
# S_AXI_HP0_FPD and those after it are the general-purpose slaves 2 and up.
for {set number 0} {$number < [llength $memories]} {incr number} {
  set slave [expr {2 + $number}]
  set_property -dict [list \
    CONFIG.PSU__USE__S_AXI_GP$slave 1 \
    CONFIG.PSU__SAXIGP${slave}__DATA_WIDTH 128 \
  ] [get_bd_cells $system]
}
set clock $system/pl_clk0
set reset $system/pl_resetn0
set interrupts $system/pl_ps_irq0
set manager $system/M_AXI_HPM0_FPD
set manager_clock $system/maxihpm0_fpd_aclk
set memory_port $system/S_AXI_HP%d_FPD
set memory_clock $system/saxihp%d_fpd_aclk
