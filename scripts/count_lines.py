"""Count lines of code: ``python scripts/count_lines.py FOLDER ... [--git REVISION]``.

A line counts if it has code: not a blank one, not one of a comment, not one of a docstring (a
string that is the first statement of a module, class or function). Of a statement that is cut into
several lines each one counts. For each folder the total is printed, then what its packages have:
``FOLDER/*.py`` are its own files, and each folder in it counts with all that lies below. With
``--git`` the files are those of a revision, which need not be checked out.
"""

from __future__ import annotations

import argparse
import ast
import io
import subprocess
import sys
import tarfile
import tokenize
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path, PurePosixPath

_WITH_DOCSTRING = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
#: Tokens that are no code.
_LAYOUT = {
    tokenize.ENCODING,
    tokenize.COMMENT,
    tokenize.NL,
    tokenize.NEWLINE,
    tokenize.INDENT,
    tokenize.DEDENT,
    tokenize.ENDMARKER,
}


def code_lines(source: bytes) -> int:
    """Number of lines with code in a Python file.

    Raises
    ------
    SyntaxError
        It is not Python.
    """
    documented: set[int] = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, _WITH_DOCSTRING) and ast.get_docstring(node, clean=False) is not None:
            documented.update(range(node.body[0].lineno, (node.body[0].end_lineno or 0) + 1))
    lines: set[int] = set()
    for token in tokenize.tokenize(io.BytesIO(source).readline):
        is_docstring = token.type == tokenize.STRING and token.start[0] in documented
        if token.type not in _LAYOUT and not is_docstring:
            lines.update(range(token.start[0], token.end[0] + 1))
    return len(lines)


def files_of(folder: str, revision: str | None = None) -> Iterator[tuple[PurePosixPath, bytes]]:
    """Python files of a folder and their content, by their paths below the folder.

    Parameters
    ----------
    folder : str
        Relative to the current folder.
    revision : str, optional
        Of git; without one, what lies in the folder now.

    Raises
    ------
    OSError
        There is no such folder.
    CalledProcessError
        The revision has no such folder.
    """
    if revision is None:
        if not Path(folder).is_dir():
            raise NotADirectoryError(f"{folder} is no folder")
        for path in sorted(Path(folder).rglob("*.py")):
            yield PurePosixPath(path.relative_to(folder)), path.read_bytes()
        return
    archive = ["git", "archive", "--format=tar", revision, "--", folder]
    done = subprocess.run(archive, capture_output=True, check=True)
    with tarfile.open(fileobj=io.BytesIO(done.stdout)) as tar:
        for member in tar:
            content = tar.extractfile(member) if member.name.endswith(".py") else None
            if content is not None:
                yield PurePosixPath(member.name).relative_to(folder), content.read()


def count(folder: str, revision: str | None = None) -> Counter[str]:
    """Lines of code of each package of a folder; see :func:`files_of`."""
    found: Counter[str] = Counter()
    for path, source in files_of(folder, revision):
        package = path.parts[0] if len(path.parts) > 1 else "*.py"
        found[f"{folder.rstrip('/')}/{package}"] += code_lines(source)
    return found


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the counts; returns the exit code."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("folders", nargs="+", metavar="FOLDER")
    parser.add_argument("--git", metavar="REVISION", help="count at this revision")
    given = parser.parse_args(arguments)
    total = 0
    for folder in given.folders:
        try:
            found = count(folder, given.git)
        except subprocess.CalledProcessError as error:
            parser.exit(1, error.stderr.decode())
        except (OSError, SyntaxError) as error:
            parser.exit(1, f"{error}\n")
        total += found.total()
        _say(found.total(), folder.rstrip("/"))
        for package, lines in sorted(found.items()):
            _say(lines, f"  {package}")
    if len(given.folders) > 1:
        _say(total, "all")
    return 0


def _say(lines: int, name: str) -> None:
    sys.stdout.write(f"{lines:8,} {name}\n")


if __name__ == "__main__":
    sys.exit(main())
