#!/usr/bin/env bash
# board_env.sh FOLDER VERSION: an environment with this version of PYNQ, made once per content.
set -euo pipefail
folder=$1 version=$2
mark=$folder/.penstock-setup
wanted=$(cat pyproject.toml "$0" | sha256sum)
[ -f "$mark" ] && [ "$(cat "$mark")" = "$wanted" ] && exit 0
python3 -m venv "$folder"
"$folder/bin/pip" install --quiet --upgrade pip
"$folder/bin/pip" install --quiet -e '.[rtl,board]' "pynq==$version" pytest pytest-timeout hypothesis
# PYNQ 3.0 installs its own tests as a package of that name, which would hide ours.
rm -rf "$folder"/lib/python3*/site-packages/tests
printf '%s\n' "$wanted" > "$mark"
