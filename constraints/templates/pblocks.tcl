# Keeps each kernel within its die, in the regions that the platform has for kernels. Vivado runs
# this before placement. Generated, do not edit.
foreach {kernel die} {
@{dies}
} {
  set cells [get_cells -quiet -hierarchical $kernel]
  set region [get_pblocks -quiet pblock_dynamic_SLR$die]
  if {[llength $cells] == 0 || [llength $region] == 0} {
    puts "WARNING: $kernel is not kept within SLR$die: cells '$cells', region '$region'"
  } else {
    add_cells_to_pblock $region $cells -clear_locs
  }
}
