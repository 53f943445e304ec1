#!/usr/bin/env bash
# Makes .cache/arm64: Debian's Python for ARM, and the libraries that decide bytes, in the versions that the given
# environment has. `qemu-aarch64` runs it. Quick when all is there; the system's own packages stay as they are.
#   tests/integration/arm64.sh PYTHON          such as .venv-integration/bin/python
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
python=$(realpath --no-symlinks "${1:?say which Python: tests/integration/arm64.sh .venv-integration/bin/python}")
folder=$PWD/.cache/arm64
# What tests/core/images/make_golden_images.py imports.
libraries=(blake3 cykooz-resizer google-crc32c msgpack numpy opencv-python-headless pillow pillow-heif protobuf pyarrow simplejpeg)

pinned() {
  "$python" -c 'import sys
from importlib.metadata import version
for name in sys.argv[1:]: print(f"{name}=={version(name)}")' "$@"
}

# Where there is no Rust, that of its own servers, in .cache/rust.
ensure_rust() {
  command -v rustup >/dev/null && return
  "$python" -m pip install --quiet --upgrade --target=.cache/rust/installer puccinialin
  PYTHONPATH=.cache/rust/installer "$python" -m puccinialin --location=.cache/rust --info-json=.cache/rust/env.json
  eval "$("$python" -c 'import json, shlex
for name, value in json.load(open(".cache/rust/env.json"))["env"].items(): print(f"export {name}={shlex.quote(value)}")')"
}

# An own state and cache of apt for the other architecture.
unpack_python() {
  mkdir -p "$folder/apt/lists" "$folder/apt/archives/partial"
  touch "$folder/apt/status"
  local apt=(
    apt-get -qq -y -o APT::Architecture=arm64 -o APT::Architectures=arm64 -o APT::Sandbox::User=
    -o "Dir::State=$folder/apt" -o "Dir::State::status=$folder/apt/status"
    -o "Dir::Cache=$folder/apt" -o "Dir::Cache::archives=$folder/apt/archives"
  )
  "${apt[@]}" update
  "${apt[@]}" --no-install-recommends --download-only install python3 libstdc++6
  for package in "$folder"/apt/archives/*.deb; do dpkg -x "$package" "$folder/root"; done
  # A link that Debian 13 and later have in a package of their own.
  [[ -e $folder/root/lib ]] || ln -s usr/lib "$folder/root/lib"
  rm -r "$folder/apt"
}

wanted=$(pinned "${libraries[@]}")
[[ $wanted == "$(cat "$folder/.installed" 2>/dev/null)" ]] && exit
echo "installing Python and libraries for ARM; building cykooz-resizer takes some minutes"
rm -rf "$folder"
unpack_python
version=$(readlink "$folder/root/usr/bin/python3")
version=${version#python}

mapfile -t wheels < <(grep --invert-match '^cykooz-resizer==' <<<"$wanted")
"$python" -m pip install --quiet --no-deps --no-compile --target="$folder/site" --only-binary=:all: \
  --python-version="$version" --platform=manylinux_2_28_aarch64 --platform=manylinux_2_17_aarch64 \
  --platform=manylinux2014_aarch64 "${wheels[@]}"
# It has no wheel for Linux on ARM.
ensure_rust
rustup target add aarch64-unknown-linux-gnu
CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_LINKER=aarch64-linux-gnu-gcc \
  MATURIN_PEP517_ARGS="--target=aarch64-unknown-linux-gnu --skip-auditwheel -i python$version" \
  "$python" -m pip wheel --quiet --no-deps --no-binary=cykooz-resizer --wheel-dir="$folder/built" \
  "$(grep '^cykooz-resizer==' <<<"$wanted")"
"$python" -m zipfile --extract "$folder"/built/*.whl "$folder/site"
echo "$wanted" >"$folder/.installed"
