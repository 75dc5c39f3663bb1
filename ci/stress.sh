#!/bin/sh
# Stress (umcg/tests/stress, umcg/tests/rt_stress, umcg/tests/sync_stress, umcg/tests/preempted),
# with thread workers that move and that stay, optimised and not, two processes at a time so that
# the kernel preempts at odd moments; and the memory of a million idle workers. First the stress
# tests have to find planted bugs.
#
#   ci/stress.sh [SECONDS]      how long each of the tests goes on in each process; 6 where not
#                               given
#
# Tests that depend on luck show when the machine is busy: `stress-ng --cpu 4 --io 2 --timeout 600
# &` beside `cargo test`, several times. All tests must pass then, since they wait for conditions
# with generous limits.
#
# A failure prints UMCG_STRESS_SEED and the known state of the workers.
set -eu
cd "$(dirname "$0")/.."
seconds=${1:-6}
base=${CARGO_TARGET_DIR:-$PWD/target}
root=$PWD
copy=$base/stress-mutants
# The planted bugs, and the tests that have to find them.
bugs=$root/ci/planted/stress.toml
list=$base/stress-mutants.list
tab=$(printf '\t')
# Across crates too, but in a third of the time that the profile's own takes.
export CARGO_PROFILE_RELEASE_LTO=thin CARGO_PROFILE_RELEASE_CODEGEN_UNITS=16
log=$base/stress.log

say() {
    echo "stress.sh: $*" >&2
}

# The test to run: the stress of servers, that of the runtime, or that of synchronisation.
target=stress

# stress SETTING SECONDS OPTIONS...: the target's tests with a variable set, in the current folder.
stress() {
    setting=$1
    length=$2
    shift 2
    env "$setting" "UMCG_STRESS_SECONDS=$length" timeout --kill-after=5 $((2 * length + 400)) \
        cargo test --quiet "$@" --package umcg --test "$target" -- --nocapture
}

# try_bug NUMBER WHAT: the target's tests fail in a copy of the sources that has this bug.
try_bug() {
    (cd "$copy" && "$root/ci/planted.py" plant "$bugs" "$1") || {
        say "FAILED: $2"
        return 1
    }
    # Cargo takes a copy of the sources for the sources: a target folder of its own.
    if (
        cd "$copy"
        export CARGO_PROFILE_DEV_DEBUG=0 CARGO_TARGET_DIR="$base/stress-mutants-target"
        stress UMCG_STRESS_PATIENCE=5 20
    ) > "$log" 2>&1; then
        say "FAILED: $2: went through"
        return 1
    fi
    # A bug that lets two servers run one worker may end in a fault as well.
    if ! grep -Eq "UMCG_STRESS_SEED=|SIGSEGV|does not get on" "$log"; then
        cat "$log" >&2
        say "FAILED: $2: not found by the tests, but something else went wrong"
        return 1
    fi
    (cd "$copy" && "$root/ci/planted.py" restore "$bugs" "$1" "$root")
    say "found: $2"
}

# planted: tries each bug that the target is to find.
planted() {
    number=0
    while IFS="$tab" read -r _ _ _ tests what; do
        [ "$tests" != "$target" ] || try_bug $number "$what" < /dev/null
        number=$((number + 1))
    done < "$list"
}

# pair WHAT SETTING OPTIONS...: two processes at once, one of them with a variable set.
pair() {
    say "$1"
    special=$2
    shift 2
    cargo test --quiet "$@" --package umcg --test "$target" --no-run
    stress UMCG_STRESS_PATIENCE=120 "$seconds" "$@" > "$log" 2>&1 &
    other=$!
    status=0
    stress "$special" "$seconds" "$@" || status=1
    wait "$other" || status=1
    cat "$log"
    return $status
}

rm -rf "$copy"
mkdir -p "$copy"
ci/planted.py list "$bugs" > "$list"
# As new files: what an earlier run has built may have a bug in it.
tar -c --exclude=./target --exclude=./.git --exclude="$base" . | tar -x -m -C "$copy"
planted

pair "optimised" UMCG_NO_FSGSBASE=1 --release
pair "not optimised" UMCG_NO_GUARD_INSTALL=1

target=rt_stress
planted
pair "the runtime, optimised" UMCG_NO_MEMBARRIER=1 --release
pair "the runtime, not optimised" UMCG_NO_GUARD_INSTALL=1

target=sync_stress
planted
pair "synchronisation, optimised" UMCG_NO_MEMBARRIER=1 --release
pair "synchronisation, not optimised" UMCG_NO_GUARD_INSTALL=1

target=preempted
planted
pair "preemption at every moment, optimised" UMCG_NO_MEMBARRIER=1 --release

say "all bugs that are planted for the models"
ci/models.sh 1500 all
ci/intercept.sh all

say "a million idle workers"
UMCG_MEMORY_WORKERS=1000000 timeout 600 cargo test --quiet --release --package umcg --test memory \
    -- --nocapture
UMCG_MEMORY_WORKERS=1000000 timeout 600 cargo test --quiet --release --package umcg --test \
    rt_memory -- --nocapture

say "unmodified programs under umcg run"
ci/run.sh 100
UMCG_RUN_REFUSED=each ci/run.sh 3

say "the C library's tests of threads, and the Open POSIX Test Suite"
ci/posix.sh
