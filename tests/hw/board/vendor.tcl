# Vivado's commands as far as the scripts use them: each call is printed, a unit separator between
# its words, and gives a handle that names it. Anything else is an unknown command, and so an error.
set commands {
  add_files apply_bd_automation close_project create_bd_cell create_bd_design create_project
  current_fileset current_project get_bd_addr_segs get_bd_cells get_bd_intf_pins get_files get_runs
  ipx::add_address_block ipx::add_memory_map ipx::add_register ipx::add_register_parameter
  ipx::associate_bus_interfaces ipx::check_integrity ipx::create_xgui_files ipx::current_core
  ipx::edit_ip_in_project ipx::get_bus_interfaces ipx::package_project ipx::remove_user_parameter
  ipx::save_core ipx::unload_core ipx::update_checksums launch_runs make_wrapper open_run package_xo
  report_timing_summary report_utilization save_bd_design set_property update_compile_order
  update_ip_catalog validate_bd_design wait_on_run
}
namespace eval ipx {}
proc record {name arguments} {
  puts [join [list $name {*}$arguments] \x1f]
  return "<$name>"
}
foreach command $commands {
  proc $command args "return \[record $command \$args\]"
}
proc ipx::get_user_parameters args {
  record ipx::get_user_parameters $args
  return [list <parameter>]
}
proc get_board_parts args {
  global env
  record get_board_parts $args
  return $env(BOARD_PARTS)
}
proc get_property {name object} {
  global env
  record get_property [list $name $object]
  switch $name {
    NAME { return G_ONE }
    PROGRESS { return $env(PROGRESS) }
    STATS.WNS { return $env(WNS) }
    default { error "no property $name" }
  }
}
rename file real_file
proc file {what args} {
  if {$what eq "copy"} { return [record "file copy" $args] }
  return [uplevel 1 [list real_file $what {*}$args]]
}
if {[catch {source [lindex $argv 0]} message]} {
  puts stderr $message
  exit 1
}
