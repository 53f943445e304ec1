#!/usr/bin/env bash
# Builds Beam's job server for Spark 3, once, and prints the path of the jar, where beam-tfrecords finds it.
#
# Needed only if Beam's own job server cannot be downloaded from Maven Central.
set -euo pipefail

usage() {
  cat <<'USAGE'
usage: build.sh [--beam-version=2.70.0] [--spark-version=3.5.5]

Needs Java 11 or newer and Maven. The jar and its lib/ go to ~/.cache/beam-tfrecords/jars/spark-3-job-server (or
below $XDG_CACHE_HOME).
USAGE
}

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
beam=2.70.0
spark=3.5.5
for argument in "$@"; do
  case $argument in
    --beam-version=*) beam=${argument#*=} ;;
    --spark-version=*) spark=${argument#*=} ;;
    -h | --help) usage && exit ;;
    *) usage >&2 && exit 2 ;;
  esac
done

folder=${XDG_CACHE_HOME:-$HOME/.cache}/beam-tfrecords/jars/spark-3-job-server
jar=$folder/spark-3-job-server.jar
if [[ ! $jar -nt $here/pom.xml ]]; then
  command -v mvn >/dev/null || { echo "build.sh: Maven (mvn) is not installed" >&2 && exit 1; }
  mkdir -p "$(dirname "$folder")"
  work=$(mktemp -d "$folder.XXXXXX")
  trap 'rm -rf "$work"' EXIT
  cp "$here/pom.xml" "$work"
  mvn --batch-mode --quiet -f "$work/pom.xml" package "-Dbeam.version=$beam" "-Dspark.version=$spark" >&2
  rm -rf "$folder"
  mkdir "$folder"
  mv "$work/target/lib" "$work/target/spark-3-job-server.jar" "$folder"
fi
echo "$jar"
