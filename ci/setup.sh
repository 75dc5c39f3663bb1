#!/bin/sh
# Installs the programs that the tests need and this machine lacks. Quiet and quick when nothing is
# missing. It uses apt-get, as root or by sudo. It names on standard error what it cannot install;
# the job that needs it is skipped by that job's own script. (ci/cross.sh installs its own needs.)
set -eu

say() { echo "setup.sh: $*" >&2; }

as_root() {
    if [ "$(id -u)" = 0 ]; then
        "$@"
    else
        command -v sudo > /dev/null && sudo -n "$@"
    fi
}

# A file or command that tells whether it is there, and the Debian package it comes from.
missing=
while read -r proof package; do
    command -v "$proof" > /dev/null 2>&1 || [ -e "$proof" ] || missing="$missing $package"
done << 'LIST'
cc gcc
c++ g++
ld binutils
python3 python3
make make
xz xz-utils
pkg-config pkg-config
strace strace
pkill procps
valgrind valgrind
gdb gdb
groff groff-base
shellcheck shellcheck
/usr/include/boost/context/fiber.hpp libboost-context-dev
LIST

if [ -n "$missing" ]; then
    say "installing$missing"
    if ! command -v apt-get > /dev/null; then
        say "SKIPPED: no apt-get; install by other means:$missing"
    else
        as_root apt-get update > /dev/null 2>&1 ||
            say "apt-get update failed, going on with the lists that are there"
        # shellcheck disable=SC2086 # a list of packages
        as_root env DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends \
            $missing > /dev/null 2>&1 ||
            say "SKIPPED: could not install$missing (root or sudo is needed)"
    fi
fi

# A browser reads the page of `umcg bench all`. It is installed by itself, as not every
# distribution has the package.
if command -v apt-get > /dev/null && ! command -v chromium > /dev/null 2>&1; then
    say "installing chromium"
    as_root env DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends \
        chromium > /dev/null 2>&1 ||
        say "SKIPPED: could not install chromium: no browser reads the page of \`umcg bench all\`"
fi

if ! command -v cargo > /dev/null; then
    say "FAILED: no Rust. Install a current one with rustup: https://rustup.rs"
    exit 1
fi
for tool in rustfmt clippy; do
    if ! cargo "${tool#rust}" --version > /dev/null 2>&1; then
        say "installing $tool"
        rustup component add "$tool" > /dev/null 2>&1 ||
            say "FAILED: no $tool, and rustup could not add it"
    fi
done
# The oldest Rust that we promise.
if command -v rustup > /dev/null && ! rustup run 1.85 cargo --version > /dev/null 2>&1; then
    say "installing Rust 1.85"
    rustup toolchain install 1.85 --profile minimal > /dev/null 2>&1 ||
        say "SKIPPED: rustup could not install Rust 1.85"
fi
cargo fmt --version > /dev/null && cargo clippy --version > /dev/null
