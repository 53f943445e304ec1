#!/usr/bin/env bash
# Builds the jar with which Flink runs Beam pipelines, once, and prints its path, where beam-tfrecords finds it.
#
# Needed only if Beam's own job server cannot be downloaded from Maven Central, or for smaller uploads: Beam's jar also
# contains Flink, Kafka and more.
set -euo pipefail

usage() {
  cat <<'USAGE'
usage: build.sh [--flink-version=1.19] [--beam-version=2.70.0]

Needs Java 11 or newer and Maven. The jar goes to ~/.cache/beam-tfrecords/jars (or below $XDG_CACHE_HOME).
USAGE
}

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
flink=1.19
beam=2.70.0
for argument in "$@"; do
  case $argument in
    --flink-version=*) flink=$(cut -d. -f1,2 <<<"${argument#*=}") ;;
    --beam-version=*) beam=${argument#*=} ;;
    -h | --help) usage && exit ;;
    *) usage >&2 && exit 2 ;;
  esac
done

jar=${XDG_CACHE_HOME:-$HOME/.cache}/beam-tfrecords/jars/flink-$flink-job-server.jar
if [[ ! $jar -nt $here/pom.xml ]]; then
  command -v mvn >/dev/null || { echo "build.sh: Maven (mvn) is not installed" >&2 && exit 1; }
  work=$(mktemp -d)
  trap 'rm -rf "$work"' EXIT
  cp "$here/pom.xml" "$work"
  mvn --batch-mode --quiet -f "$work/pom.xml" package "-Dflink.minor=$flink" "-Dbeam.version=$beam" >&2
  mkdir -p "$(dirname "$jar")"
  # The rename is atomic, because another build may run at the same time.
  cp "$work/target/flink-$flink-job-server.jar" "$jar.$$"
  mv "$jar.$$" "$jar"
fi
echo "$jar"
