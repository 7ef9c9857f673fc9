"""Packs a Python environment into one archive, which Spark unpacks beside each executor.

It has this Penstock, the packages that a task of it needs, and a link to a Python of the executors.
Packages are copied from where they are installed, so executors need a system and a Python like
this one.
"""

from __future__ import annotations

import io
import re
import sys
import tarfile
from collections.abc import Iterator, Mapping, Sequence
from importlib.metadata import Distribution, PackageNotFoundError, distribution
from importlib.util import find_spec
from pathlib import Path

from penstock.errors import FileError, MissingToolError, UsageError
from penstock.host.store.atomic import atomic

#: Penstock's packages that lie in folders of their own in a checkout.
_NAMES = ("constraints", "host", "hw", "sim", "spark_bridge")
ROOMS = ("penstock", *(f"penstock.{name}" for name in _NAMES))

#: Not packed: executors have Spark, which gives their Python its own packages.
_OF_SPARK = ("pyspark",)

#: Folders of a package that no task reads. Bytecode stays: without it, each executor would compile
#: the sources of all packages.
_LEFT_OUT = {"tests"}

#: Level of gzip; higher ones take several times as long for machine code, and save little.
_LEVEL = 4

_VERSION = "{}.{}".format(*sys.version_info)
_REQUIREMENT = re.compile(r"\s*([\w.-]+)\s*(?:\[([^]]*)\])?[^;]*(?:;(.*))?")
_EXTRA = re.compile(r"""extra\s*==\s*["']([^"']+)["']""")


def pack(output: Path, also: Sequence[str] = (), python: Path | None = None) -> list[str]:
    """Write an archive of the packages that Penstock's tasks need, for ``spark.archives``.

    Parameters
    ----------
    output : Path
        ``*.tar.gz``; replaced if it is there.
    also : sequence of str
        Packages that functions of the user need, as pip knows them: "scikit-learn".
    python : Path, optional
        On the executors, of this one's version; by default at this one's place.

    Returns
    -------
    list of str
        Names and versions of the packages.

    Raises
    ------
    UsageError
        The archive has a name by which Spark would not unpack it.
    MissingToolError
        A package is not installed here.
    FileError
        The archive cannot be written, or a package does not say which files it has.
    """
    if not output.name.endswith((".tar.gz", ".tgz")):
        raise UsageError(f"Spark unpacks an archive by its name: *.tar.gz, not {output.name!r}")
    packages = needed(["penstock[spark]", *also])
    write_archive(output, packages, python)
    return [f"{name} {packages[name].version}" for name in sorted(packages)]


def needed(requirements: Sequence[str]) -> dict[str, Distribution]:
    """Installed packages by name: those named, and all that they need, but for Spark.

    Raises
    ------
    MissingToolError
    """
    packages: dict[str, Distribution] = {}
    seen: set[tuple[str, str]] = set()
    waiting = [(text, "") for text in requirements]
    while waiting:
        text, needed_by = waiting.pop()
        name, extras, marker = _parsed(text)
        if name in _OF_SPARK:
            continue
        try:
            packages[name] = packages.get(name) or distribution(name)
        except PackageNotFoundError:
            # What else a marker says is about systems: where it holds, the package is installed.
            if _EXTRA.sub("", marker).strip(" ()and"):
                continue
            why = f", and {needed_by} needs it" if needed_by else ""
            raise MissingToolError(
                f"the package {name} is not installed here{why}; install what executors are to "
                f"have: pip install {name!r}"
            ) from None
        for extra in {"", *extras} - {one for package, one in seen if package == name}:
            seen.add((name, extra))
            waiting += [(line, name) for line in _required(packages[name], extra)]
    return packages


def _parsed(requirement: str) -> tuple[str, list[str], str]:
    """Name, extras and marker of a requirement."""
    match = _REQUIREMENT.match(requirement)
    assert match is not None, requirement
    extras = [_normal(one.strip()) for one in (match[2] or "").split(",") if one.strip()]
    return _normal(match[1]), extras, match[3] or ""


def _normal(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def _required(package: Distribution, extra: str) -> Iterator[str]:
    """Yield the requirements that a package has with an extra; with "", those without any."""
    for line in package.requires or ():
        extras = {_normal(one) for one in _EXTRA.findall(_parsed(line)[2])}
        if extra in (extras or {""}):
            yield line


def write_archive(
    output: Path, packages: Mapping[str, Distribution], python: Path | None = None
) -> None:
    """Write packages and a link to Python as an environment, laid out as ``venv`` does."""
    python = python or Path(sys.base_prefix, "bin", f"python{_VERSION}")
    site = f"lib/python{_VERSION}/site-packages"
    files = {f"{site}/{name}": path for name, path in _files(packages)}
    config = f"home = {python.parent}\ninclude-system-site-packages = false\n".encode()
    try:
        with (
            atomic(output) as part,
            tarfile.open(part, "w:gz", compresslevel=_LEVEL, dereference=True) as archive,
        ):
            link = tarfile.TarInfo("bin/python")
            link.type, link.linkname = tarfile.SYMTYPE, str(python)
            archive.addfile(link)
            entry = tarfile.TarInfo("pyvenv.cfg")
            entry.size = len(config)
            archive.addfile(entry, io.BytesIO(config))
            for name in sorted(files):
                archive.add(files[name], name, recursive=False, filter=_of_nobody)
    except OSError as error:
        raise FileError(f"cannot write {output}: {error}") from error


def _of_nobody(entry: tarfile.TarInfo) -> tarfile.TarInfo:
    """Remove the file's owner, who may not exist where it is unpacked."""
    entry.uid = entry.gid = 0
    entry.uname = entry.gname = ""
    return entry


def _files(packages: Mapping[str, Distribution]) -> Iterator[tuple[str, Path]]:
    """Files of packages: the place of each in ``site-packages``, and its path here."""
    for name, package in packages.items():
        if package.files is None:
            raise FileError(
                f"nothing says which files the package {name} has, since pip has not installed it; "
                "make a virtual environment, install with pip there, and pack that"
            )
        for file in package.files:
            # Beside its modules a package may have programs and manuals, which lie above.
            is_kept = ".." not in file.parts and not _LEFT_OUT & set(file.parts)
            # A checkout has other files in place of Penstock's own.
            is_own = name == "penstock" and not file.parts[0].endswith(".dist-info")
            if is_kept and not is_own and (path := Path(str(package.locate_file(file)))).is_file():
                yield file.as_posix(), path
    for room in ROOMS if "penstock" in packages else ():
        spec = find_spec(room)
        assert spec is not None
        assert spec.origin is not None
        folder = Path(spec.origin).parent
        for path in folder.rglob("*"):
            within = path.relative_to(folder)
            if path.is_file() and not _LEFT_OUT & set(within.parts):
                yield f"{room.replace('.', '/')}/{within.as_posix()}", path
