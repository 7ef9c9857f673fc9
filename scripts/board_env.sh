#!/usr/bin/env bash
# board_env.sh FOLDER VERSION: an environment with this version of PYNQ, made once per content.
set -euo pipefail
folder=$1 version=$2
mark=$folder/.penstock-setup
wanted=$(cat pyproject.toml "$0" | sha256sum)
[ -f "$mark" ] && [ "$(cat "$mark")" = "$wanted" ] && exit 0

install() {
  "$folder/bin/pip" install --quiet --disable-pip-version-check "$@" && return
  cat >&2 <<END
PYNQ $version could not be installed into $folder: see above for what pip says. It needs the package
index, or a mirror named by PIP_INDEX_URL; run this again when that answers. Only the tests of boards
need it; \`make test\` does not.
END
  exit 1
}

python3 -m venv "$folder"
# PYNQ 3.0 comes as a source package whose setup needs setuptools and wheel beside pip.
install --upgrade pip
install -e '.[rtl,board]' "pynq==$version" pytest pytest-timeout pytest-xdist hypothesis
# PYNQ 3.0 installs its own tests as a package of that name, which would hide ours.
rm -rf "$folder"/lib/python3*/site-packages/tests
printf '%s\n' "$wanted" > "$mark"
