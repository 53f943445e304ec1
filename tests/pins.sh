#!/usr/bin/env bash
# Runs a part of the tests with the lowest versions that setup.py allows, in an environment of its own.
#   tests/pins.sh PYTHON          such as python3.10; what has no wheel for that Python is passed over
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
environment=.venv-lowest/$(basename "${1:?say which Python: tests/pins.sh python3.10}")
"$1" -m venv --clear "$environment"
"$environment/bin/python" -m pip install --quiet --disable-pip-version-check uv setuptools
export VIRTUAL_ENV=$PWD/$environment
uv=$environment/bin/uv
"$environment/bin/python" - >"$environment/required.txt" <<'PYTHON'
import setuptools  # brings distutils
from distutils.core import run_setup

project = run_setup("setup.py", stop_after="init")
extras = [word for extra in ("tensorflow", "gcp", "aws", "test") for word in project.extras_require[extra]]
# Beam's own extra needs packages that have no wheels.
print(*project.install_requires, *(word for word in extras if word != "apache-beam[gcp]"), sep="\n")
PYTHON
"$uv" pip compile --quiet --resolution=lowest-direct --only-binary=:all: "$environment/required.txt" \
  --output-file="$environment/lowest.txt"
"$uv" pip install --quiet --requirements="$environment/lowest.txt"
"$uv" pip install --quiet --no-deps --editable .
"$environment/bin/python" -m pytest tests/beam_pipelines/test_convert_output.py tests/beam_pipelines/test_run_summary.py \
  tests/beam_tfrecords/test_reading.py tests/beam_tfrecords/test_tfrecord.py tests/transforms/test_sink.py \
  tests/transforms/images/test_exact_codec.py tests/transforms/images/test_fast_codec.py \
  tests/transforms/sources/tables/test_parquet_table.py tests/test_private_names.py \
  tests/integration/test_private_names.py "${@:2}"
