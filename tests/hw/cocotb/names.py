"""How pytest and the cases in the simulator speak to each other: environment variables."""

#: Name of the build.
BUILD_VARIABLE = "PENSTOCK_BENCH_BUILD"

#: File that gets what the monitor reports, one violation a line.
REPORT_VARIABLE = "PENSTOCK_BENCH_REPORT"
