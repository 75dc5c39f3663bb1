#!/bin/sh
# Runs the tests of umcg-context, umcg-core and umcg under AddressSanitizer and ThreadSanitizer, and
# those of umcg-context under Valgrind.
#
#   ci/sanitizers.sh [address] [thread] [valgrind]      all three when none is named
#
# Each job first runs programs with a planted bug (tests/planted.rs of umcg-context and umcg) and
# fails unless its tool finds that bug. A job whose tool is missing is skipped loudly: a reason on
# standard error, and the others go on.
set -eu
cd "$(dirname "$0")/.."

host=$(rustc -vV | sed -n 's/^host: //p')
log=$(mktemp)
trap 'rm -f "$log"' EXIT
base=${CARGO_TARGET_DIR:-target}

say() {
    echo "sanitizers.sh: $*" >&2
}

# must_find PACKAGE TEST WORDS COMMAND...: the command runs the planted bug TEST of the package; it
# has to fail and to say WORDS.
must_find() {
    package=$1
    test=$2
    words=$3
    shift 3
    if "$@" -p "$package" --test planted -- --ignored --exact "$test" > "$log" 2>&1; then
        say "$package, $test: the planted bug went through"
        return 1
    fi
    if ! grep -q "$words" "$log"; then
        cat "$log" >&2
        say "$package, $test: failed, but not with \"$words\""
        return 1
    fi
    say "$package, $test: the planted bug was found"
}

# runtime COMMAND...: the command tests the runtime and its I/O. Sanitizers keep state of their own
# for each thread, so full workers are threads. Tests of features that only other full workers have
# are left out (exact turns, counts of switches, dumps, preemption by rank), as in ci/test.sh.
runtime() {
    "$@" --test net --test fs --test process
    "$@" --test rt -- aborts:: fairness:: futures:: joins:: kernel:: lives:: locals:: parks:: \
        scopes:: sleeps:: timeouts:: \
        --skip destructors_of_locals_that_wait
    UMCG_STRESS_SECONDS=5 "$@" --test rt_stress --test sync_stress --test linear
}

# nightly [COMPONENT]: whether there is a nightly toolchain, with the component.
nightly() {
    rustup run nightly rustc --version > /dev/null 2>&1 || return 1
    [ $# = 0 ] || rustup component list --toolchain nightly --installed | grep -q "$1" ||
        rustup component add "$1" --toolchain nightly
}

job_address() {
    if ! nightly; then
        say "SKIPPED address: no nightly toolchain (rustup toolchain install nightly)"
        return 0
    fi
    # A target folder of its own: the flags go into every crate, and would throw away the results of
    # other builds.
    export CARGO_TARGET_DIR="$base/asan" RUSTFLAGS="-Zsanitizer=address --cfg umcg_asan"
    must_find umcg-context address stack-buffer-overflow timeout 900 cargo +nightly test --target \
        "$host"
    timeout 900 cargo +nightly test -p umcg-context --target "$host" --lib --tests --no-fail-fast
    # The home thread of a thread worker has the worker's thread-local storage. The copies of frames
    # that detect their use after return are found through it, so they are off here. Descriptors are
    # never freed.
    export ASAN_OPTIONS=detect_stack_use_after_return=0:detect_leaks=0
    timeout 900 cargo +nightly test -p umcg-core --target "$host" --lib --tests --no-fail-fast
    timeout 900 cargo +nightly test -p umcg --target "$host" --test umcg --test stress \
        --no-fail-fast
    must_find umcg address stack-buffer-overflow timeout 900 cargo +nightly test --target "$host"
    runtime timeout 900 cargo +nightly test -p umcg --target "$host" --no-fail-fast
    timeout 900 cargo +nightly test -p umcg --target "$host" --test callbacks
    # Where a full worker is a thread, it may not yet have begun to run at the time that the test
    # left out counts on.
    timeout 900 cargo +nightly test -p umcg --target "$host" --no-fail-fast --test nt \
        --test segment -- \
        --skip passed_deadlines_let_others_run
}

job_thread() {
    # The standard library has to be instrumented too: it holds the locks and channels that order
    # the threads.
    if ! nightly rust-src; then
        say "SKIPPED thread: no nightly toolchain with rust-src" \
            "(rustup component add rust-src --toolchain nightly)"
        return 0
    fi
    export CARGO_TARGET_DIR="$base/tsan" RUSTFLAGS="-Zsanitizer=thread --cfg umcg_tsan"
    must_find umcg-context thread "data race" timeout 900 cargo +nightly test -Zbuild-std --target \
        "$host"
    # Thread workers stay on their own kernel threads, since ThreadSanitizer would take home thread
    # and worker for one thread. It also holds a signal back until the next system call, so nothing
    # is preempted.
    export UMCG_NO_FSGSBASE=1
    timeout 900 cargo +nightly test -Zbuild-std -p umcg-context -p umcg-core --target "$host" \
        --lib --tests --no-fail-fast \
        -- --skip preempt
    timeout 900 cargo +nightly test -Zbuild-std -p umcg --target "$host" --test umcg --test stress \
        --no-fail-fast -- --skip preempt
    must_find umcg thread "data race" timeout 900 cargo +nightly test -Zbuild-std --target "$host"
    # It cannot see the order that the kernel provides: see the file. It sees that of the ring least
    # of all, so most tests run without it.
    export TSAN_OPTIONS="suppressions=$PWD/ci/tsan.supp" UMCG_DRIVER=epoll
    runtime timeout 900 cargo +nightly test -Zbuild-std -p umcg --target "$host" --no-fail-fast
    # A child by fork that goes on with several threads' memory cannot be checked by it. A large
    # message is copied under a lock for longer there than a segment's patience lasts.
    timeout 900 cargo +nightly test -Zbuild-std -p umcg --target "$host" --no-fail-fast --test nt \
        --test segment -- \
        --skip passed_deadlines_let_others_run --skip forked \
        --skip a_lock_that_is_given_back_is_in_order
}

job_valgrind() {
    if ! command -v valgrind > /dev/null; then
        say "SKIPPED valgrind: not installed (apt-get install valgrind)"
        return 0
    fi
    name=$(echo "$host" | tr 'a-z-' 'A-Z_')
    export "CARGO_TARGET_${name}_RUNNER=valgrind -q --error-exitcode=9"
    must_find umcg-context valgrind "Invalid read" timeout 900 cargo test --target "$host"
    status=0
    timeout 900 cargo test -p umcg-context --features portable --target "$host" --lib --tests \
        --no-fail-fast > "$log" 2>&1 || status=$?
    cat "$log"
    if grep -q "client switching stacks" "$log"; then
        say "valgrind does not know one of the stacks"
        status=1
    fi
    return $status
}

[ $# -gt 0 ] || set -- address thread valgrind
for job in "$@"; do
    # In a shell of its own, for its environment; `set -e` holds there, because nothing here looks
    # at its status.
    say "$job"
    ("job_$job")
done
say "done"
