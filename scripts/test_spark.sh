#!/usr/bin/env bash
# test_spark.sh FOLDER VERSION... [-- ARGUMENT...]: the tests of the Spark bridge on these versions of
# Spark, each in an environment of its own below FOLDER, and on no Java but that of the java extra.
set -euo pipefail
folder=$1
shift
versions=()
while [ $# -gt 0 ] && [ "$1" != -- ]; do
  versions+=("$1")
  shift
done
[ $# -eq 0 ] || shift

status=0
for version in "${versions[@]}"; do
  printf '== Spark %s\n' "$version"
  env=$folder/$version
  # What Spark Connect needs is in no extra that a user installs for it; DuckDB is an oracle.
  more=(grpcio grpcio-status googleapis-common-protos zstandard duckdb)
  scripts/pinned_env.sh "$env" spark,java "pyspark==$version" "${more[@]}"
  # A Java that JAVA_HOME names goes before the system's.
  JAVA_HOME=$("$env/bin/python" -c \
    'from penstock.spark_bridge.java import bundled_java; print(bundled_java() or "")')
  export JAVA_HOME
  "$env/bin/pytest" -q tests/spark_bridge "$@" || status=1
done
exit "$status"
