"""What pyproject.toml cannot say: the packages, of which some folders at the root are parts."""

import tomllib
from pathlib import Path

from setuptools import find_packages, setup

FOLDERS = tomllib.loads(Path("pyproject.toml").read_text(encoding="utf-8"))
FOLDERS = FOLDERS["tool"]["setuptools"]["package-dir"]

setup(
    packages=[
        f"{name}.{package}" if package else name
        for name, folder in FOLDERS.items()
        for package in ("", *find_packages(folder))
    ]
)
