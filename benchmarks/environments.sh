#!/bin/sh
# Makes the environments of the benchmarks below benchmarks/.venvs, from PyPI; those that are there with the versions of
# peers/*.txt stay.
#   benchmarks/environments.sh [tfds] [img2dataset] [ray] [litdata] [streaming] [daft] [datasets] [chart]     (all)
# litdata and streaming take 5.5 GB of disk each: PyPI's torch for Linux brings CUDA's libraries.
# PYTHON chooses the interpreter (python3).
set -eu
cd "$(dirname "$0")"
[ $# -gt 0 ] || set -- tfds img2dataset ray litdata streaming daft datasets chart
for name in "$@"; do
    cmp -s "peers/$name.txt" ".venvs/$name/ready" && continue
    echo "installing .venvs/$name" >&2
    "${PYTHON:-python3}" -m venv --clear ".venvs/$name"
    ".venvs/$name/bin/python" -m pip install --quiet --disable-pip-version-check -r "peers/$name.txt"
    cp "peers/$name.txt" ".venvs/$name/ready"
done
