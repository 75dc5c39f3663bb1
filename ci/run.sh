#!/bin/sh
# Unmodified programs under `umcg run` (cli/tests/run), with the release build: each of them runs
# natively and with one, two and four servers. First the runner has to notice planted faults, and
# threads have to be switched in user mode. Then all of them run again, natively and with two
# servers, without system calls that a kernel may lack, or a filter may forbid; and some of them
# without each of these calls in turn, as one that is missing may hide the loss of another one.
#
#   ci/run.sh [ROUNDS]      how many times each program runs in each way; once where not given
#
# With UMCG_RUN_REFUSED set the programs run without the calls that it names, and that is all.
# UMCG_RUN_PROGRAMS chooses programs by parts of their names; cli/tests/run/main.rs lists the other
# variables. A program that fails is named with the command that repeats it.
set -eu
cd "$(dirname "$0")/.."
rounds=${1:-${UMCG_RUN_ROUNDS:-1}}

if ! command -v "${CC:-cc}" > /dev/null; then
    echo "run.sh: SKIPPED: no C compiler" >&2
    exit 0
fi
# What is built here is used by no other job: across crates too, but in a third of the time that the
# profile's own takes.
export CARGO_PROFILE_RELEASE_LTO=thin CARGO_PROFILE_RELEASE_CODEGEN_UNITS=16
cargo test --quiet --release --package umcg-cli --test run --no-run

# tests LIMIT [NAME]: the tests, or those whose names have this part, with a limit in seconds.
tests() {
    limit=$1
    shift
    timeout --kill-after=10 "$limit" \
        cargo test --quiet --release --package umcg-cli --test run -- --include-ignored \
        --nocapture --test-threads=1 "$@"
}

export UMCG_RUN_ROUNDS="$rounds"
if [ -n "${UMCG_RUN_REFUSED:-}" ]; then
    export UMCG_RUN_SERVERS="${UMCG_RUN_SERVERS:-2}"
    tests "$((3600 * rounds))" programs_run
    exit
fi
tests "$((180 * rounds + 60))"
export UMCG_RUN_SERVERS="${UMCG_RUN_SERVERS:-2}" UMCG_RUN_REFUSED=all
tests "$((90 * rounds + 60))" programs_run
some=errors_once,files.c,short_lives,signals_last,tcp
export UMCG_RUN_PROGRAMS="${UMCG_RUN_PROGRAMS:-$some}" UMCG_RUN_REFUSED=each
tests "$((180 * rounds + 60))" programs_run
