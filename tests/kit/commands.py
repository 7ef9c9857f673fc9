"""Whether commands of pages exist, with the options that they are given; none is run."""

from __future__ import annotations

import argparse
import functools
import importlib.util
import os
import re
import runpy
import shlex
import subprocess
import sys
import tomllib
import warnings
from collections.abc import Collection, Sequence
from pathlib import Path
from typing import Any

import pytest
import typer

from tests.kit.documents import ROOT

#: Programs of others that pages call.
OTHERS = {"cat", "cp", "duckdb", "grep", "hdfs", "ping", "spark-submit", "venv-pack", "xbutil"}
#: What stands for something that the reader puts there: ``N``, ``PORT``, ``...``.
_PLACEHOLDER = re.compile(r"\.\.\.|[A-Z]+")

#: Has what the make that runs the tests was given.
_OF_MAKE = ("ARGS", "MAKEFLAGS", "MFLAGS", "MAKEOVERRIDES", "MAKELEVEL")


def check(call: Sequence[str], written: Collection[str] = ()) -> None:
    """Fail if a command does not exist, or does not know its options.

    Parameters
    ----------
    written : collection of str
        Files that were written before it.
    """
    name, *arguments = call
    program = re.sub(r"^(board|spark|\.venv|/databricks/python)/bin/|\d$", "", name)
    if program == "penstock":
        from penstock.cli.main import app

        _click(typer.main.get_command(app), arguments)
    elif program == "python":
        _python(arguments, written)
    elif program == "make":
        _make(tuple(arguments))
    elif program == "pytest":
        _pytest(arguments)
    elif program == "pip":
        _pip(arguments)
    else:
        assert program in OTHERS, f"nothing is known of {name}"


def _click(command: Any, arguments: Sequence[str], parent: Any = None) -> None:
    context = command.context_class(command, info_name=command.name, parent=parent)
    if arguments and arguments[-1].startswith("--"):  # sentences name options without a value
        arguments = [*arguments, "..."]
    given, rest, _ = command.make_parser(context).parse_args(list(arguments))
    for param in command.params:
        value = given.get(param.name)
        if isinstance(value, str) and value and not _PLACEHOLDER.fullmatch(value):
            param.process_value(context, value)
    if hasattr(command, "resolve_command") and set(rest) - {"..."}:
        _, inner, rest = command.resolve_command(context, rest)
        _click(inner, rest, context)
    else:
        assert set(rest) <= {"..."}, f"{command.name} does not take {rest}"


def _python(arguments: Sequence[str], written: Collection[str]) -> None:
    match arguments:
        case ["-m", "pip", *rest]:
            _pip(rest)
        case ["-m", "pytest", *rest]:
            _pytest(rest)
        case ["-m", module, *rest]:
            _module(module, tuple(rest))
        case ["-c"]:
            pass
        case ["-c", code, *_]:
            compile(code, "-c", "exec")
        case [file, *_]:
            assert file in written or (ROOT / file).is_file(), f"there is no {file}"
        case _:
            raise AssertionError("python without arguments")


class _Parsed(BaseException):
    """Ends a program where it has read its arguments."""


@functools.cache
def _module(module: str, arguments: tuple[str, ...]) -> None:
    if module.startswith("pynq."):  # of an environment of its own
        return
    found = importlib.util.find_spec(module)
    assert found is not None, f"there is no module {module}"
    if found.submodule_search_locations and module != "venv":
        assert importlib.util.find_spec(f"{module}.__main__"), f"{module} is no program"
    if module == "venv" or not arguments or any(map(_PLACEHOLDER.fullmatch, arguments)):
        return

    def parsed(self: argparse.ArgumentParser, *_: Any, **__: Any) -> None:
        original(self, arguments)
        raise _Parsed

    def clicked(self: Any, *_: Any, **__: Any) -> None:
        _click(typer.main.get_command(self), arguments)
        raise _Parsed

    original = argparse.ArgumentParser.parse_args
    with pytest.MonkeyPatch.context() as patch, warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # it has been imported before
        patch.setattr(argparse.ArgumentParser, "parse_args", parsed)
        patch.setattr(typer.Typer, "__call__", clicked)
        patch.setattr(sys, "argv", [module, *arguments])
        try:
            runpy.run_module(module, run_name="__main__")
        except _Parsed:
            return
        except SystemExit as error:
            raise AssertionError(f"{module} does not take {arguments}") from error
    raise AssertionError(f"{module} reads no arguments, but is given {arguments}")


@functools.cache
def _make(arguments: tuple[str, ...]) -> None:
    done = subprocess.run(
        ["make", "--no-print-directory", "--dry-run", "VENV=.venv", *arguments],
        cwd=ROOT,
        env={name: value for name, value in os.environ.items() if name not in _OF_MAKE},
        timeout=60,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    for line in done.stdout.replace("\\\n", " ").splitlines():
        if line.startswith((".venv/bin/python ", ".venv/bin/penstock ", ".venv/bin/pytest ")):
            check(shlex.split(line))
        for script in re.findall(r"\bscripts/\w+\.sh", line):
            assert (ROOT / script).is_file(), f"there is no {script}"


def _pytest(arguments: Sequence[str]) -> None:
    parser = argparse.ArgumentParser(exit_on_error=False)
    for option in ("-k", "-m", "-n", "--dist"):
        parser.add_argument(option)
    parser.add_argument("paths", nargs="*")
    given = parser.parse_args(arguments)
    found: list[Path] = []
    for path in given.paths:
        file = ROOT / path.partition("::")[0]
        assert file.exists(), f"there is no {path}"
        found += [file] if file.is_file() else file.rglob("*.py")
    assert any(file.name.startswith("test_") for file in found) or not given.paths
    for word in re.findall(r"\w+", given.k or ""):
        if word not in ("and", "or", "not"):
            named = any(word in str(file) or word in file.read_text("utf-8") for file in found)
            assert named, f"-k {word} finds no test in {given.paths}"


def _pip(arguments: Sequence[str]) -> None:
    assert arguments[0] in ("install", "wheel")
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    for name in arguments[1:]:
        assert not name.startswith("penstock"), "on PyPI this is another project's name"
        for extras in re.findall(r"^\.\[(.*)\]$", name):
            unknown = set(extras.split(",")) - project["optional-dependencies"].keys()
            assert not unknown, f"penstock has no extras {unknown}"
