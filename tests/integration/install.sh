#!/usr/bin/env bash
# Installs what the tests of one tier need, from package registries alone; quick when all is there.
#   tests/integration/install.sh integration|nightly PYTHON          PYTHON: that of the tier's environment
#
# Debian's packages go to the system (root is needed where some are missing), the rest below .cache/ in the
# project. Goes on after a failure, so that the tests that can run do; ends with status 1 and says what is missing.
set -uo pipefail

BEAM_VERSION=2.77.0
FAKE_GCS_SERVER_VERSION=1.56.1
VERSITYGW_VERSION=1.8.0
# Its releases are no versions of the Go module; this is the newest that Go's proxy has.
MINIO_VERSION=0.0.0-20260212201848-7aac2a2c5b7c
AZURITE_VERSION=3.35.0
AXE_VERSION=4.14.1
ACTIONLINT_VERSION=1.7.12
# The newest that Maven Central has here.
FLINK_OPERATOR_VERSION=1.10.0

tier=${1:?say which tier: integration or nightly}
python=$(realpath --no-symlinks "${2:?say which Python, such as .venv-integration/bin/python}")
project=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
missing=()

# A program, and the Debian packages that have it.
debian() {
  command -v "$1" >/dev/null || packages+=("${@:2}")
}

go_program() {
  local name=$1 module=$2 package=$3 version=$4
  local program=$project/.cache/bin/$name
  # The compiler writes the module's version into the program.
  if go version -m "$program" 2>/dev/null | grep -qF "$module"$'\t'"$version"$'\t'; then return; fi
  echo "building $name $version"
  GOBIN=$project/.cache/bin go install "$package@$version" || missing+=("$name $version")
}

nightly() { [[ $tier == nightly ]]; }

packages=()
debian javac default-jdk-headless
debian go golang-go
debian curl curl
debian unzip unzip
debian mvn maven
debian npm npm
debian chromium chromium
debian cc gcc libc6-dev
if nightly; then
  debian fusermount3 fuse3
  debian systemd-analyze systemd
  debian qemu-aarch64 qemu-user
  debian zsh zsh
  debian fish fish
  debian aarch64-linux-gnu-gcc gcc-aarch64-linux-gnu libc6-dev-arm64-cross
fi
if ((${#packages[@]})); then
  apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -qq -y "${packages[@]}" ||
    missing+=("Debian packages ${packages[*]}")
fi

# The library of the Flink Kubernetes operator, which holds the schema of its resources, and
# Airflow, in an environment of its own with the versions that were tested.
operator_library() {
  local artifact=flink-kubernetes-operator-api
  [[ -f $project/.cache/jars/$artifact-$FLINK_OPERATOR_VERSION.jar ]] ||
    mvn --batch-mode --quiet dependency:copy "-DoutputDirectory=$project/.cache/jars" \
      "-Dartifact=org.apache.flink:$artifact:$FLINK_OPERATOR_VERSION"
}

# An environment of packages with fixed versions, beside that of the tests.
environment() {
  local environment=$project/.venv-$1 versions=$project/tests/integration/$2.txt
  cmp --silent "$versions" "$environment/.installed" && return
  echo "installing $3"
  rm -rf "$environment"
  "$python" -m venv "$environment" &&
    "$environment/bin/python" -m pip install --quiet --no-compile --no-deps --requirement="$versions" &&
    cp "$versions" "$environment/.installed"
}

# A program or a library for a browser, in a folder of its own.
npm_package() {
  local name=$1 version=$2
  local folder=$project/.cache/$name
  grep -qF "\"version\": \"$version\"" "$folder/node_modules/$name/package.json" 2>/dev/null ||
    npm install --silent --no-fund --no-audit --prefix="$folder" "$name@$version" || missing+=("$name $version")
}

# They wait for servers a good part of their time, and one compiles: beside the rest.
if nightly; then
  "$project/tests/integration/arm64.sh" "$python" &
  arm64=$!
  environment airflow airflow "Airflow (1.6 GB)" &
  airflow=$!
  environment annotations annotation_tools "tools of annotation (1.2 GB)" &
  annotations=$!
fi

beam_module=github.com/apache/beam/sdks/v2
gcs_module=github.com/fsouza/fake-gcs-server
versitygw_module=github.com/versity/versitygw
actionlint_module=github.com/rhysd/actionlint
minio_module=github.com/minio/minio
go_program prism "$beam_module" "$beam_module/go/cmd/prism" "v$BEAM_VERSION"
go_program fake-gcs-server "$gcs_module" "$gcs_module" "v$FAKE_GCS_SERVER_VERSION"
go_program versitygw "$versitygw_module" "$versitygw_module/cmd/versitygw" "v$VERSITYGW_VERSION"
# The newest Flink that Beam's libraries in Maven Central are for.
"$project/deploy/flink/local-cluster.sh" install --flink-version=1.19.3 || missing+=("Flink")
"$project/deploy/flink/job-server/build.sh" || missing+=("Beam for Flink")
npm_package axe-core "$AXE_VERSION"
if nightly; then
  go_program actionlint "$actionlint_module" "$actionlint_module/cmd/actionlint" "v$ACTIONLINT_VERSION"
  # A second S3 for the tests of storage.
  go_program minio "$minio_module" "$minio_module" "v$MINIO_VERSION"
  "$project/deploy/spark/job-server/build.sh" || missing+=("Beam for Spark")
  npm_package azurite "$AZURITE_VERSION"
  operator_library || missing+=("the Flink operator's library")
  wait "$airflow" || missing+=("Airflow")
  wait "$annotations" || missing+=("tools of annotation")
  wait "$arm64" || missing+=("Python for ARM")
fi

if ((${#missing[@]})); then
  printf 'not installed: %s\n' "${missing[@]}" >&2
  exit 1
fi
