#!/bin/sh
# Everything that has to pass before a change lands. Installs what it needs (ci/setup.sh). It ends with the first step that
# fails; of the checking jobs, which come last, all are run, so that one run names all that fail.
#
#   ci/test.sh           all of it
#   ci/test.sh quick     without the checking jobs, each of which is a script in ci/ that runs alone too
#
# ci/stress.sh is no part of it: the tests of stress run here for seconds, and there for as long as one likes.
set -eu
cd "$(dirname "$0")/.."

# step LIMIT TITLE COMMAND...: runs the command under a limit of time in seconds, and ends the run if it fails.
step() {
    limit=$1
    title=$2
    shift 2
    printf '\n== %s\n' "$title"
    began=$(date +%s)
    status=0
    # Shortly before the time is over: all that runs, as nobody could ask later.
    (sleep "$((limit - 5))" && ps -eo pid,ppid,etimes,stat,wchan:24,args) 2> /dev/null &
    watch=$!
    timeout --kill-after=10 "$limit" "$@" < /dev/null || status=$?
    pkill -P "$watch" || true
    took=$(($(date +%s) - began))
    case $status in
        0) echo "== $title: passed in $took s" ;;
        124 | 137)
            echo "test.sh: FAILED: $title: took more than $limit s"
            exit 1
            ;;
        *)
            echo "test.sh: FAILED: $title: exit status $status after $took s"
            exit 1
            ;;
    esac
}

# What is compiled once needs no bookkeeping for the next time.
export CARGO_INCREMENTAL="${CARGO_INCREMENTAL:-0}"
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
step 2700 "tests" env RUST_TEST_THREADS=4 cargo test --workspace --all-features --no-fail-fast
if [ "${1:-}" != quick ]; then
    failed=
    for job in ci/*.sh; do
        case $job in
            ci/setup.sh | ci/test.sh | ci/lint.sh | ci/stress.sh) ;;
            # Some compile what they change again and again: with what the compiler keeps for that.
            *) (step 2700 "$job" env -u CARGO_INCREMENTAL "$job") || failed="$failed $job" ;;
        esac
    done
    if [ -n "$failed" ]; then
        echo "test.sh: FAILED:$failed"
        exit 1
    fi
fi
echo
echo "== all passed in $(($(date +%s) - whole)) s"
