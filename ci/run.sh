#!/bin/sh
# Unmodified programs under `umcg run` (cli/tests/run), with the release build: each of them runs
# natively and with one, two and four servers. First the runner has to notice planted faults, and
# threads have to be switched in user mode.
#
#   ci/run.sh [ROUNDS]      how many times each program runs in each way; once where not given
#
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
UMCG_RUN_ROUNDS=$rounds timeout --kill-after=10 "$((180 * rounds + 60))" \
    cargo test --quiet --release --package umcg-cli --test run -- --include-ignored --nocapture \
        --test-threads=1
