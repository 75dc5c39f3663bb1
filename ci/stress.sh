#!/bin/sh
# Stress (umcg/tests/stress, umcg/tests/rt_stress, umcg/tests/sync_stress, umcg/tests/preempted), with thread workers that move and that stay, optimised and not, two processes at a time so that the kernel
# preempts at odd moments; and the memory of a million idle workers. First the stress tests have to find planted bugs.
#
#   ci/stress.sh [SECONDS]      how long each of the tests goes on in each process; 6 where not given
#
# Tests that depend on luck show when the machine is busy: `stress-ng --cpu 4 --io 2 --timeout 600 &` beside `cargo test`, several times. All tests are to
# pass then, since they wait for conditions with generous limits.
#
# A failure prints UMCG_STRESS_SEED and what is known of the workers.
set -eu
cd "$(dirname "$0")/.."
seconds=${1:-6}
base=${CARGO_TARGET_DIR:-$PWD/target}
copy=$base/stress-mutants
# Across crates too, but in a third of the time that the profile's own takes.
export CARGO_PROFILE_RELEASE_LTO=thin CARGO_PROFILE_RELEASE_CODEGEN_UNITS=16
log=$base/stress.log

say() {
    echo "stress.sh: $*" >&2
}

# What is run: the stress of servers, that of the runtime, or that of synchronisation.
target=stress

# stress SETTING SECONDS OPTIONS...: the target's tests with a variable set, in the current folder.
stress() {
    setting=$1
    length=$2
    shift 2
    env "$setting" "UMCG_STRESS_SECONDS=$length" timeout --kill-after=5 $((2 * length + 400)) \
        cargo test --quiet "$@" --package umcg --test "$target" -- --nocapture
}

# planted WHAT FILE SCRIPT: the tests fail when this sed script has changed a copy of the file.
planted() {
    sed "$3" "$2" > "$copy/$2"
    if cmp -s "$2" "$copy/$2"; then
        say "FAILED: $1: the sources have changed, so this bug was not planted"
        return 1
    fi
    # Cargo takes a copy of the sources for the sources: a target folder of its own.
    if (cd "$copy" && CARGO_PROFILE_DEV_DEBUG=0 CARGO_TARGET_DIR=$base/stress-mutants-target stress UMCG_STRESS_PATIENCE=5 20) > "$log" 2>&1; then
        say "FAILED: $1: went through"
        return 1
    fi
    # A bug that lets two servers run one worker may end in a fault as well.
    if ! grep -Eq "UMCG_STRESS_SEED=|SIGSEGV|does not get on" "$log"; then
        cat "$log" >&2
        say "FAILED: $1: not found by the tests, but something else went wrong"
        return 1
    fi
    cp "$2" "$copy/$2"
    say "found: $1"
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
tar -c --exclude=./target --exclude=./.git --exclude="$base" . | tar -x -C "$copy"
planted "an event that nobody is called for" umcg-core/src/umcg/idle.rs \
    '/pub(crate) fn post(/,/^    }/ s/self.call_one(&inner, CALLED)/None/'
planted "a TIMEOUT that is told twice" umcg-core/src/umcg/idle.rs \
    '/fn hand_over_queued/,/^    }/ s/left &= !kind.bit();/if kind != Kind::Timeout || node.armed.load(Relaxed) { left \&= !kind.bit(); }/'

pair "optimised" UMCG_NO_FSGSBASE=1 --release
pair "not optimised" UMCG_NO_GUARD_INSTALL=1

target=rt_stress
planted "a deadline that fires when its scope is closed" umcg/src/rt/time.rs \
    '/cancel::mark(/d; s/_ => cancel::interrupt(task_of(word))/scope => cancel::ask(task_of(word), scope as u32)/'
planted "an unpark that is not remembered" umcg/src/rt/park.rs \
    's/else { state | SIGNAL }/else { state }/'
pair "the runtime, optimised" UMCG_NO_MEMBARRIER=1 --release
pair "the runtime, not optimised" UMCG_NO_GUARD_INSTALL=1

target=sync_stress
planted "a wakeup that is lost as its time is over" umcg/src/sync/semaphore.rs \
    's/Some(_) => return Ok(()),/Some(_) if time::now() < deadline => return Ok(()),\n                Some(_) => return Err(AcquireError::TimedOut),/'
planted "one that goes from the front, and leaves the others waiting" umcg/src/sync/semaphore.rs \
    '/    fn leave(&self/,/^    }/ s/if left {/if false {/'
planted "a message that is sent, and given back as its time is over" umcg/src/tube/ends.rs \
    '/fn send_until/,/^    }/ s/        mem::forget(message);/        if time::now() >= deadline { return Err(SendTimeoutError::new(super::waiting::Refused::Late, message)); }\n&/'
pair "synchronisation, optimised" UMCG_NO_MEMBARRIER=1 --release
pair "synchronisation, not optimised" UMCG_NO_GUARD_INSTALL=1

target=preempted
planted "a function that the loader has called, with its lock" umcg-core/src/os/signal/callers.rs \
    's/^        !(is_whole && self.is_clear)$/        false/'
pair "preemption at every moment, optimised" UMCG_NO_MEMBARRIER=1 --release

say "all bugs that are planted for the models"
ci/models.sh 1500 all

say "a million idle workers"
UMCG_MEMORY_WORKERS=1000000 timeout 600 cargo test --quiet --release --package umcg --test memory -- --nocapture
UMCG_MEMORY_WORKERS=1000000 timeout 600 cargo test --quiet --release --package umcg --test rt_memory -- --nocapture
