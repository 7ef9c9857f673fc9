# Generated, do not edit. The clock comes from the processing system, @{clock_mhz} MHz at most, and
# kernels only meet the processing system: there are no pins.
set_property BITSTREAM.GENERAL.COMPRESS TRUE [current_design]
