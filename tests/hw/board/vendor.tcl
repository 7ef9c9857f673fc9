# The vendor's commands, in a Tcl interpreter that has no others: each call is printed, a unit
# separator between its words, and gives a handle that names it. What a command may be asked is
# checked afterwards, in vendor.py, which also lists the commands: they are the other arguments.
namespace eval ipx {}
# Variables of the scripts are global: ours are not.
namespace eval vendor {
  variable flags {-clear_locs -delete -dict -force -hierarchical -import -import_files -kernel
    -norecurse -quiet -top}
}
proc record {name arguments} {
  puts [join [list $name {*}$arguments] \x1f]
}
# Handles are "command=name", where the name is the first word that is neither an option nor the
# value of one.
proc handle {name arguments} {
  set is_value 0
  foreach word $arguments {
    if {$is_value} {
      set is_value 0
    } elseif {$word in $vendor::flags} {
      continue
    } elseif {[regexp {^-[a-z_]+$} $word]} {
      set is_value 1
    } else {
      return "$name=$word"
    }
  }
  return "$name="
}
foreach vendor::command [lrange $argv 1 end] {
  proc $vendor::command args \
    "record $vendor::command \$args; return \[handle $vendor::command \$args\]"
}
proc ipx::get_user_parameters args {
  record ipx::get_user_parameters $args
  return [list ipx::get_user_parameters=G_ONE]
}
proc get_board_parts args {
  record get_board_parts $args
  return $::env(BOARD_PARTS)
}
proc get_cells args {
  record get_cells $args
  return $::env(CELLS)
}
proc get_property {name object} {
  record get_property [list $name $object]
  switch $name {
    NAME { return [lindex [split $object =] 1] }
    PROGRESS { return $::env(PROGRESS) }
    STATS.WNS { return $::env(WNS) }
    default { error "no property $name" }
  }
}
rename file real_file
proc file {what args} {
  if {$what eq "copy"} { record "file copy" $args; return }
  return [uplevel 1 [list real_file $what {*}$args]]
}
if {[catch {source [lindex $argv 0]} vendor::message]} {
  puts stderr $vendor::message
  exit 1
}
