"""The discovery script ``penstock-spark-devices``, which tells Spark the devices of a host.

Spark calls the script as ``spark.executor.resource.fpga.discoveryScript``, and gives each address
that it prints to one task at a time. An address is written like ``spark.penstock.device``.
"""

from __future__ import annotations

import json
import os
import shutil
import sys
from pathlib import Path

from penstock.errors import MissingToolError, PenstockError

from .devices import DeviceSpec

#: Environment variable with the devices of a host, separated by spaces or commas.
VARIABLE = "PENSTOCK_SPARK_DEVICES"

#: Name of the resource that the script reports, unless its first argument is another.
RESOURCE = "fpga"

#: Default socket of a device server.
_SOCKET = Path("/run/penstock.sock")

#: The script, which installing the package puts beside Python.
SCRIPT = "penstock-spark-devices"


def discovery_script() -> Path:
    """Path of the script, for the settings of a session or a worker.

    Raises
    ------
    MissingToolError
    """
    beside = Path(sys.executable).with_name(SCRIPT)
    path = str(beside) if beside.exists() else shutil.which(SCRIPT)
    if path is None:
        raise MissingToolError(
            f"the script {SCRIPT} is neither beside {sys.executable} nor on PATH; install penstock "
            "with pip"
        )
    return Path(path)


def addresses() -> list[str]:
    """Devices of this host, from the variable; without it, the device server if one runs.

    Raises
    ------
    DeviceError
        The variable names a device that is not installed.
    """
    named = os.environ.get(VARIABLE, "").replace(",", " ").split()
    if not named and _SOCKET.is_socket():
        named = [f"remote?address=unix://{_SOCKET}"]
    return [str(DeviceSpec.parse(text, VARIABLE)) for text in named]


def main() -> int:
    """Print the devices as Spark reads them; return the exit code."""
    resource = sys.argv[1] if len(sys.argv) > 1 else RESOURCE
    try:
        devices = addresses()
    except PenstockError as error:
        sys.stderr.write(f"{SCRIPT}: {error}\n")
        return error.exit_code
    sys.stdout.write(json.dumps({"name": resource, "addresses": devices}) + "\n")
    return 0
