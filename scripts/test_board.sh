#!/usr/bin/env bash
# test_board.sh full|short FOLDER [ARGUMENT...]: the tests of boards through PYNQ's own clients, each
# version in an environment of its own below FOLDER. The short form has all of the conformance suite
# through the newest version, and of the others what differs between them.
set -euo pipefail
form=$1 folder=$2
shift 2

boards=(tests/host/board tests/host/test_board.py)
suite=(tests/host/test_conformance.py tests/host/test_window_join.py)
few="band_programs_of_each_size or tiny_room or tasks_in_flight or counters or freed"
few="$few or sides_with_different_tests"

through() {
  local version=$1 selected=$2
  shift 2
  printf '== PYNQ %s\n' "$version"
  scripts/pinned_env.sh "$folder/$version" rtl,board "pynq==$version"
  # PYNQ and what it needs warn of their own age.
  "$folder/$version/bin/pytest" -q -n auto --dist worksteal -W default --disable-warnings \
    -m slow -k "$selected" "$@"
}

case $form in
  full)
    through 3.0.1 "card or board" "${boards[@]}" "${suite[@]}" "$@"
    through 3.1.2 "board" "${boards[@]}" "${suite[@]}" "$@"
    through 4.0.0 "board" "${boards[@]}" "${suite[@]}" "$@"
    printf '== a worker of a Spark cluster\n'
    # No one environment has both, see sim/local_spark/board.py.
    PENSTOCK_BOARD_PYTHON=$folder/4.0.0/bin/python "${VENV:-.venv}/bin/pytest" -q -m slow \
      tests/spark_bridge/cluster/test_board.py "$@"
    ;;
  short)
    # Kernels that are compiled sooner, see tests/host/kit/virtual_board.py.
    export PENSTOCK_TEST_QUICK=1
    through 4.0.0 "(board and not stalls) or (stalls and ($few))" "${boards[@]}" "${suite[@]}" "$@"
    through 3.1.2 "(board and test_conformance and ($few)) or selftest" \
      "${boards[@]}" "${suite[@]}" "$@"
    through 3.0.1 "card and ($few)" "${suite[@]}" "$@"
    ;;
  *)
    printf 'usage: %s full|short FOLDER [ARGUMENT...]\n' "$0" >&2
    exit 2
    ;;
esac
