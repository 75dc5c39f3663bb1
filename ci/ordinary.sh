#!/bin/sh
# Ordinary crates (a regex, a tree of JSON, TLS) in workers with the default stack, without
# optimisation. See ci/ordinary.
set -eu
cd "$(dirname "$0")/ordinary"

target=${CARGO_TARGET_DIR:-$PWD/../../target}
export CARGO_TARGET_DIR="$target/ordinary"
if ! why=$(cargo fetch --locked --quiet 2>&1); then
    case $why in *--locked*)
        printf '%s\n' "$why" >&2
        echo "ordinary.sh: FAILED: ci/ordinary/Cargo.lock is not that of today's crates" >&2
        exit 1
    esac
    echo "ordinary.sh: SKIPPED: what ci/ordinary/Cargo.lock names cannot be had" >&2
    exit 0
fi
cargo fmt --check
cargo build --quiet --locked --offline
if timeout 60 "$CARGO_TARGET_DIR/debug/ordinary" 32 2> /dev/null; then
    echo "ordinary.sh: FAILED: what does not fit is not noticed" >&2
    exit 1
fi
timeout 60 "$CARGO_TARGET_DIR/debug/ordinary"
