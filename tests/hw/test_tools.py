import subprocess
import sys

import pytest

from penstock.errors import DeviceError
from penstock.hw.tools import finish, run_tool


def python(script: str) -> list[str]:
    return [sys.executable, "-c", script]


def test_output_and_environment(tmp_path):
    script = "import os, sys; print(os.environ['WHERE'], os.getcwd()); print('!', file=sys.stderr)"
    done = run_tool("python", python(script), tmp_path, environment={"WHERE": "here"})
    assert (done.stdout, done.stderr) == (f"here {tmp_path}\n", "!\n")


def test_an_error_ends_with_what_the_tool_printed(tmp_path):
    script = "import sys; print('x' * 3000); sys.exit('no such module')"
    with pytest.raises(DeviceError, match=r"^python failed: x+\nno such module$") as caught:
        run_tool("python", python(script), tmp_path)
    assert len(str(caught.value)) == len("python failed: ") + 2000


def test_a_tool_that_hangs_is_ended(tmp_path):
    script = python("import threading; threading.Event().wait()")
    with pytest.raises(DeviceError, match=r"^python did not finish within 0\.2 s; build fewer"):
        run_tool("python", script, tmp_path, timeout_s=0.2)


def test_an_exit_code_is_left_to_the_caller(tmp_path):
    assert finish(python("raise SystemExit(3)"), tmp_path).returncode == 3
    with pytest.raises(subprocess.TimeoutExpired):
        finish(python("import threading; threading.Event().wait()"), tmp_path, timeout_s=0.2)
