#!/bin/sh
# Everything that has to pass before a change lands. Installs what it needs (ci/setup.sh), stops at the first failure.
#
#   ci/test.sh           all of it
#   ci/test.sh quick     without the checking jobs at the end, each of which is a script in ci/ that runs alone too
set -eu
cd "$(dirname "$0")/.."
# What is compiled once needs no bookkeeping for the next time.
export CARGO_INCREMENTAL="${CARGO_INCREMENTAL:-0}"

# step LIMIT TITLE COMMAND...: runs the command under a time limit in seconds, and ends the run if it fails.
step() {
    limit=$1
    title=$2
    shift 2
    printf '\n== %s\n' "$title"
    began=$(date +%s)
    status=0
    timeout --kill-after=10 "$limit" "$@" < /dev/null || status=$?
    took=$(($(date +%s) - began))
    case $status in
        0) echo "== $title: passed in $took s" ;;
        124 | 137)
            echo "test.sh: FAILED: $title: took more than $limit s" >&2
            exit 1
            ;;
        *)
            echo "test.sh: FAILED: $title: exit status $status after $took s" >&2
            exit 1
            ;;
    esac
}

whole=$(date +%s)
step 600 "set-up" ci/setup.sh
step 60 "format" cargo fmt --all --check
step 120 "lints of the project's own" ci/lint.sh
step 900 "clippy" cargo clippy --quiet --workspace --all-targets --all-features -- --deny warnings
step 900 "documentation" env RUSTDOCFLAGS="--deny warnings" cargo doc --quiet --workspace --exclude umcg-capi --no-deps --all-features --lib
if rustup run 1.85 cargo --version > /dev/null 2>&1; then
    # What a program depends on must build with the oldest Rust that we promise.
    step 600 "Rust 1.85" rustup run 1.85 cargo check --quiet --package umcg --package umcg-capi --all-features
else
    echo "test.sh: SKIPPED: Rust 1.85, which is not installed (rustup toolchain install 1.85)" >&2
fi

# More tests at once than processors, as many wait.
step 1800 "tests" env RUST_TEST_THREADS=4 cargo test --workspace --all-features --no-fail-fast
if [ "${1:-}" != quick ]; then
    for job in ci/*.sh; do
        case $job in
            ci/setup.sh | ci/test.sh | ci/lint.sh) ;;
            # Some compile what they change again and again.
            *) step 1800 "$job" env -u CARGO_INCREMENTAL "$job" ;;
        esac
    done
fi
echo
echo "== all passed in $(($(date +%s) - whole)) s"
