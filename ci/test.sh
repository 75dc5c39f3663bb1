#!/bin/sh
# Everything that has to pass before a change lands. Installs what it needs (ci/setup.sh).
#
#   ci/test.sh           all of it
#   ci/test.sh quick     without the checking jobs, each of which is a script in ci/ that runs alone
#                        too
#
# A line says which step runs, and one a minute how far it is. The full output of a step is in
# target/ci. The run ends with a digest of the steps that failed. A step before the tests ends the
# run if it fails. Tests and jobs are all run, so that one run names everything that fails.
#
# ci/stress.sh is no part of it, nor is ci/posix.sh, which it calls: the tests of stress run here
# for seconds, and there for any time.
set -eu
cd "$(dirname "$0")/.."
logs=${CARGO_TARGET_DIR:-target}/ci
rm -rf "$logs"
mkdir -p "$logs"
failed=$logs/failed
: > "$failed"

# On a full disk each step fails in a way of its own, and none names the cause. What earlier runs
# have left in the target folder is used again.
needed=20
[ "${1:-}" != quick ] || needed=8
there=$(($(du -sk "$logs/.." | cut -f 1) / 1048576))
free=$(($(df -Pk "$logs" | awk 'NR == 2 { print $4 }') / 1048576))
if [ "$((there + free))" -lt "$needed" ]; then
    echo "test.sh: FAILED: the target folder takes up to $needed GiB. It has $there GiB," \
        "and $free GiB are free" >&2
    exit 1
fi

# still LOG: prints once a minute the last line of the log.
still() {
    while sleep 60; do
        printf '   ... %s\n' "$(tail -n 1 "$1" | sed 's/^ *//' | cut -c 1-120)"
    done
}

# finish: says how the run ended, with a digest of each step that failed.
finish() {
    echo
    if [ ! -s "$failed" ]; then
        echo "== all passed in $(($(date +%s) - whole)) s"
        exit 0
    fi
    while IFS='	' read -r log line; do
        printf '\n== %s\n' "$line"
        ci/digest.py "$log"
    done < "$failed"
    echo
    sed 's/^[^	]*	/test.sh: FAILED: /' "$failed"
    exit 1
}

# step LIMIT TITLE COMMAND...: runs the command under a limit of time in seconds, and notes it if it
# fails.
step() {
    limit=$1
    title=$2
    shift 2
    log=$logs/$(echo "$title" | tr -c 'A-Za-z0-9.\n' -).log
    printf '== %s\n' "$title"
    began=$(date +%s)
    status=0
    # Shortly before the time is over: lists everything that runs, as it cannot be asked later.
    (sleep "$((limit - 5))" && ps -eo pid,ppid,etimes,stat,wchan:24,args) >> "$log" 2> /dev/null &
    watch=$!
    still "$log" 2> /dev/null &
    progress=$!
    timeout --kill-after=10 "$limit" "$@" < /dev/null >> "$log" 2>&1 || status=$?
    pkill -P "$watch,$progress" || true
    {
        kill "$watch" "$progress"
        wait "$watch" "$progress"
    } 2> /dev/null || true
    took=$(($(date +%s) - began))
    grep -h SKIPPED "$log" | sed 's/^/   /' || true
    case $status in
        0) echo "   passed in $took s" && return ;;
        124 | 137) why="took more than $limit s" ;;
        *) why="exit status $status after $took s" ;;
    esac
    echo "   FAILED: $why"
    printf '%s\t%s: %s\n' "$log" "$title" "$why" >> "$failed"
}

# first LIMIT TITLE COMMAND...: a step that ends the run if it fails.
first() {
    step "$@"
    [ ! -s "$failed" ] || finish
}

# Code that is compiled once needs no bookkeeping for the next time.
export CARGO_INCREMENTAL="${CARGO_INCREMENTAL:-0}"
whole=$(date +%s)
first 600 "set-up" ci/setup.sh
first 60 "format" cargo fmt --all --check
first 120 "lints of the project's own" ci/lint.sh
first 900 "clippy" cargo clippy --quiet --workspace --all-targets --all-features -- --deny warnings
first 300 "without default features" cargo clippy --quiet --package umcg --lib \
    --no-default-features -- --deny warnings
first 900 "documentation" env RUSTDOCFLAGS="--deny warnings" cargo doc --quiet --workspace \
    --exclude umcg-capi --no-deps --all-features --lib
if rustup run 1.85 cargo --version > /dev/null 2>&1; then
    # The dependencies of a program must build with the oldest Rust that we promise.
    first 600 "Rust 1.85" rustup run 1.85 cargo check --quiet --package umcg --package umcg-capi \
        --all-features
else
    echo "test.sh: SKIPPED: Rust 1.85, which is not installed (rustup toolchain install 1.85)" >&2
fi

# More tests at once than processors, as many wait.
step 2700 "tests" env RUST_TEST_THREADS=4 cargo test --workspace --all-features --no-fail-fast
if [ "${1:-}" != quick ]; then
    for job in ci/*.sh; do
        case $job in
            ci/setup.sh | ci/test.sh | ci/lint.sh | ci/stress.sh | ci/posix.sh) ;;
            # Some compile sources that they change again and again: they keep the compiler's
            # incremental data.
            *) step 2700 "$job" env -u CARGO_INCREMENTAL "$job" ;;
        esac
    done
fi
finish
