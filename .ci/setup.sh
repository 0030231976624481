#!/usr/bin/env bash
# Makes a checkout ready: a virtual environment, the Python packages, the system libraries Qt needs.
#   .ci/setup.sh base|test
# A stamp (the dependencies in pyproject.toml, Python's version, the folder) makes a second run take no time and no network.
# NEWEST=1 brings all packages to the newest release that pyproject.toml allows.
# PYTHON names the interpreter; TORCH_INDEX the index that has PyTorch's CPU builds ("" to ask none).
set -eu
cd "$(dirname "$0")/.."
level=${1:-base}
py=.venv/bin/python
log=.venv/setup.log

say() { printf 'espalier: %s\n' "$*"; }
die() { printf 'espalier: %s\n' "$@" >&2; exit 1; }

# ---- system packages -------------------------------------------------------------------------------

# soname and Debian package: what Qt loads offscreen, and what a visible window needs besides.
offscreen='libEGL.so.1 libegl1
libGL.so.1 libgl1
libxkbcommon.so.0 libxkbcommon0
libdbus-1.so.3 libdbus-1-3
libfontconfig.so.1 libfontconfig1
libfreetype.so.6 libfreetype6
libglib-2.0.so.0 libglib2.0-0
libX11.so.6 libx11-6'
xcb='libX11-xcb.so.1 libx11-xcb1
libxcb-cursor.so.0 libxcb-cursor0
libxcb-icccm.so.4 libxcb-icccm4
libxcb-image.so.0 libxcb-image0
libxcb-keysyms.so.1 libxcb-keysyms1
libxcb-randr.so.0 libxcb-randr0
libxcb-render-util.so.0 libxcb-render-util0
libxcb-render.so.0 libxcb-render0
libxcb-shape.so.0 libxcb-shape0
libxcb-shm.so.0 libxcb-shm0
libxcb-sync.so.1 libxcb-sync1
libxcb-util.so.1 libxcb-util1
libxcb-xfixes.so.0 libxcb-xfixes0
libxcb-xkb.so.1 libxcb-xkb1
libxkbcommon-x11.so.0 libxkbcommon-x11-0'
wayland='libwayland-client.so.0 libwayland-client0
libwayland-cursor.so.0 libwayland-cursor0
libwayland-egl.so.1 libwayland-egl1'

missing_packages() {
    local known soname package folder x11=${DISPLAY:-}
    [ "$level" != test ] || x11=yes  # tests start an X server of their own
    known=$(PATH="$PATH:/sbin:/usr/sbin" ldconfig -p 2>/dev/null) || return 0
    while read -r soname package; do
        case "$known" in *"$soname "*) ;; *) printf '%s ' "$package" ;; esac
    done <<<"$offscreen${x11:+
$xcb}${WAYLAND_DISPLAY:+
$wayland}"
    for folder in /usr/share/fonts /usr/local/share/fonts "${HOME:-/nonexistent}/.fonts" \
                  "${HOME:-/nonexistent}/.local/share/fonts"; do
        [ -d "$folder" ] || continue
        [ -z "$(find "$folder" -name '*.[to]tf' -print -quit 2>/dev/null)" ] || return 0
    done
    printf 'fonts-dejavu-core '  # without any font all text is blank
}

# Installs Debian packages if that is allowed without asking; otherwise says what to type.
apt_install() {
    local sudo=()
    if ! command -v apt-get >/dev/null; then
        say "missing on this system (Debian's names): $*"; return 1
    fi
    if [ "$(id -u)" -ne 0 ]; then
        if ! sudo -n true 2>/dev/null; then
            say "missing on this system; please run: sudo apt-get install $*"; return 1
        fi
        sudo=(sudo -n)
    fi
    say "installing with apt: $*"
    # The lists may be old or absent: refresh them, then install; needrestart and debconf must not ask.
    ${sudo[@]+"${sudo[@]}"} apt-get -qq update </dev/null >/dev/null || say "apt-get update failed; going on with the lists at hand"
    ${sudo[@]+"${sudo[@]}"} env DEBIAN_FRONTEND=noninteractive NEEDRESTART_MODE=l \
        apt-get -qq -y --no-install-recommends install "$@" </dev/null >/dev/null \
        || { say "apt-get could not install: $*"; return 1; }
}

system_libraries() {
    local packages
    [ "$(uname -s)" = Linux ] || return 0
    packages=$(missing_packages)
    # shellcheck disable=SC2086  # a list of package names
    [ -z "$packages" ] || apt_install $packages || true
}

# command and Debian package: what simulates and synthesises hardware, and a real window for tests. Tests that need one
# skip without it.
test_tools() {
    local wanted='' command package
    [ "$level" = test ] && [ "$(uname -s)" = Linux ] || return 0
    while read -r command package; do
        command -v "$command" >/dev/null || wanted="$wanted $package"
    done <<<'iverilog iverilog
g++ g++
make make
perl perl
yosys yosys
Xvfb xvfb
openbox openbox
xdotool xdotool'
    # shellcheck disable=SC2086  # a list of package names
    [ -z "$wanted" ] || apt_install $wanted || say "tests that need them are skipped"
}

# ---- Python ----------------------------------------------------------------------------------------

new_enough() { "$1" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; }

find_python() {
    local candidate
    for candidate in "${PYTHON:-python3}" python3.14 python3.13 python3.12 python3.11; do
        if new_enough "$candidate"; then printf '%s' "$candidate"; return; fi
    done
    return 1
}

make_venv() {
    local python version
    if ! python=$(find_python); then
        apt_install python3 python3-venv || true
        python=$(find_python) || die "Python 3.11 or newer is needed (PYTHON=/path/to/python3 make ... names one)."
    fi
    if ! "$python" -c 'import ensurepip, venv' 2>/dev/null; then
        version=$("$python" -c 'import sys; print("%d.%d" % sys.version_info[:2])')
        apt_install "python$version-venv" || die "$python lacks the venv module (Debian: python$version-venv)."
    fi
    say "creating .venv with $("$python" --version)"
    "$python" -m venv --clear .venv
}

# What an installation depends on; the settings of linters and tests in the same file are not in it.
key() {
    "$py" -c 'import hashlib, os, sys, tomllib
file = tomllib.load(open("pyproject.toml", "rb"))
parts = file["build-system"], file["project"], file["tool"]["setuptools"], sys.version, os.path.realpath(".")
print(hashlib.sha256(repr(parts).encode()).hexdigest())'
}

# Done already? The test level contains the base.
stamped() {
    local name
    [ -z "${NEWEST:-}" ] || return 1
    for name in "$level" test; do
        [ "$(cat ".venv/.stamp-$name" 2>/dev/null)" = "$1" ] && return 0
    done
    return 1
}

pip_install() {
    "$py" -m pip install --disable-pip-version-check --no-input "$@" </dev/null 2>&1 | tee -a "$log" \
        | { grep --line-buffered -E '^ *Downloading .*[MG]B\)|^Installing collected|^ERROR' | cut -c1-110 || true; }
}

# On Linux without an NVIDIA driver, PyTorch's CPU build (0.2 GB) instead of the CUDA one (several GB).
cpu_torch() {
    local index=${TORCH_INDEX-https://download.pytorch.org/whl/cpu} pin
    pin=$(sed -n 's/^ *"\(torch==[0-9.]*\)",.*/\1/p' pyproject.toml)
    [ "$(uname -s)" = Linux ] && [ -n "$index" ] && [ ! -e /proc/driver/nvidia/version ] || return 0
    "$py" -c 'import torch' 2>/dev/null && return 0
    "$py" -c 'import sys, urllib.request as u; u.urlopen(sys.argv[1] + "/torch/", timeout=3)' "$index" 2>/dev/null \
        || return 0
    pip_install --extra-index-url "$index" "$pin"
}

# Triton for its interpreter, apart: torch must not take it for a compiler of this machine. Tests skip without it.
interpreter() {
    [ "$level" = test ] && [ "$(uname -s)" = Linux ] || return 0
    if "$py" -c 'import triton' 2>/dev/null || [ -d .venv/triton/triton ]; then return 0; fi
    pip_install --no-deps --target .venv/triton 'triton>=3.9' || say "tests of Triton kernels are skipped: it cannot be fetched"
}

packages() {
    local wanted=. offline='NewConnectionError|ConnectionError|name resolution|Network is unreachable|Max retries|No matching distribution|timed out'
    [ "$level" = test ] && wanted='.[test]'
    : >"$log"
    # pip fetches everything before it touches anything: only a stop after that voids older stamps.
    trap 'grep -q "^Installing collected" "$log" && rm -f .venv/.stamp-*' EXIT
    say "installing the Python packages (the first time some hundred megabytes)"
    set -o pipefail
    if ! { cpu_torch && pip_install ${NEWEST:+--upgrade --upgrade-strategy eager} -e "$wanted"; }; then
        grep -qE "$offline" "$log" \
            && die "the packages cannot be fetched: the package index cannot be reached (details in $log)." \
                   "Connect to the network and run the same again; once installed, no network is needed."
        tail -n 15 "$log" >&2
        die "pip failed; all of its output is in $log."
    fi
    "$py" -c 'import PySide6.QtWidgets' || die "Qt does not load: see the line above for the library it misses."
    trap - EXIT
    interpreter
    key >".venv/.stamp-$level"
    say "ready"
}

[ "$level" = base ] || [ "$level" = test ] || die "usage: .ci/setup.sh base|test"
new_enough "$py" || make_venv
system_libraries
stamped "$(key)" && exit 0
test_tools
if command -v flock >/dev/null; then  # two `make` at once: the second waits, then finds the stamp
    exec 9>.venv/.lock
    flock 9
    stamped "$(key)" && exit 0
fi
packages
