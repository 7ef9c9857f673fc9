# Packages a kernel as an IP, for an Alveo card also as an .xo. Generated, do not edit.
set here [file dirname [file normalize [info script]]]
cd $here
set kernel @{kernel}
set is_card @{is_card}

create_project -force -part @{part} package_ip ./package_ip
add_files -norecurse ./$kernel.v
set_property top $kernel [current_fileset]
update_compile_order -fileset sources_1
ipx::package_project -root_dir ./ip -vendor @{vendor} -library @{library} -taxonomy /KernelIP \
  -import_files -set_current false
ipx::unload_core ./ip/component.xml
ipx::edit_ip_in_project -upgrade true -name edit_ip -directory ./ip ./ip/component.xml
set core [ipx::current_core]
set_property name $kernel $core
set_property version @{version} $core
set_property core_revision 1 $core
foreach parameter [ipx::get_user_parameters -of_objects $core] {
  ipx::remove_user_parameter [get_property NAME $parameter] $core
}

# All interfaces have one clock and one reset. A design may give the clock another frequency.
foreach interface {@{interfaces}} {
  ipx::associate_bus_interfaces -busif $interface -clock ap_clk $core
}
ipx::associate_bus_interfaces -clock ap_clk -reset ap_rst_n $core
set frequency [ipx::add_bus_parameter -quiet FREQ_HZ \
  [ipx::get_bus_interfaces ap_clk -of_objects $core]]
set_property value @{clock_hz} $frequency
set_property value_resolve_type user $frequency

# Registers. The packager may have made the memory map and its block by itself.
set map [ipx::add_memory_map -quiet @{control} $core]
set_property slave_memory_map_ref @{control} \
  [ipx::get_bus_interfaces @{control} -of_objects $core]
set block [ipx::add_address_block -quiet reg0 $map]
set_property range @{range_bytes} $block
set_property usage register $block
foreach {name offset bits port} {
@{registers}
} {
  set register [ipx::add_register $name $block]
  set_property address_offset $offset $register
  set_property size $bits $register
  if {$port ne ""} {
    set pointer [ipx::add_register_parameter ASSOCIATED_BUSIF $register]
    set_property value $port $pointer
  }
}

# Whoever takes the kernel into a design says its clock and where its memory is: an aperture that
# the packager infers from the width of the addresses would keep memory above it unmapped.
set_property ipi_drc {ignore_freq_hz true} $core
foreach port {@{ports}} {
  ipx::remove_segment -quiet $port:APERTURE_0 \
    [ipx::get_address_spaces $port -of_objects $core]
}

if {$is_card} {
  set_property sdx_kernel true $core
  set_property sdx_kernel_type rtl $core
}
set_property supported_families {} $core
set_property auto_family_support_level level_2 $core
ipx::create_xgui_files $core
ipx::update_checksums $core
if {$is_card} {
  ipx::check_integrity -kernel $core
} else {
  ipx::check_integrity $core
}
ipx::save_core $core
close_project -delete
if {$is_card} {
  package_xo -force -xo_path ./$kernel.xo -kernel_name $kernel -ip_directory ./ip \
    -kernel_xml ./kernel.xml
}
