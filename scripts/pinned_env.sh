#!/usr/bin/env bash
# pinned_env.sh FOLDER EXTRAS NAME==VERSION [PACKAGE...]: an environment with Penstock, its EXTRAS, and
# this version of a package that other tests have in another, made once per content.
set -euo pipefail
folder=$1 extras=$2 pinned=$3
shift 3
mark=$folder/.penstock-setup
wanted=$(printf '%s\n' "$extras" "$pinned" "$@" | cat - pyproject.toml "$0" | sha256sum)
[ -f "$mark" ] && [ "$(cat "$mark")" = "$wanted" ] && exit 0

install() {
  "$folder/bin/pip" install --quiet --disable-pip-version-check "$@" && return
  cat >&2 <<END
$pinned could not be installed into $folder: see above for what pip says. It needs the package
index, or a mirror named by PIP_INDEX_URL; run this again when that answers. Only the tests of this
version need it; \`make test\` does not.
END
  exit 1
}

printf 'setup: installing %s into %s; the first time takes minutes\n' "$pinned" "$folder"
python3 -m venv "$folder"
# PYNQ 3.0 comes as a source package whose setup needs setuptools and wheel beside pip.
install --upgrade pip
install -e ".[$extras]" "$pinned" pytest pytest-timeout pytest-xdist hypothesis "$@"
# PYNQ 3.0 installs its own tests as a package of that name, which would hide ours.
rm -rf "$folder"/lib/python3*/site-packages/tests
printf '%s\n' "$wanted" > "$mark"
