#!/bin/sh
# The tests once more where the processor, the C library or the kernel lacks something, and with
# each system call refused by any error.
set -eu
cd "$(dirname "$0")/.."

say() {
    echo "fallbacks.sh: $*" >&2
}

# tests NAMES... [-- OPTIONS...]: runs these test targets. Of the workspace, so that nothing is
# compiled for another set of features.
tests() {
    timeout --kill-after=10 600 cargo test --quiet --workspace --all-features --no-fail-fast "$@"
}

say "thread workers that stay on their own kernel threads"
UMCG_NO_FSGSBASE=1 tests --lib --test raw --test storage --test uth --test umcg --test stress \
    --test memory --test net --test fs

# Full workers are threads then. Tests that count switches, system calls or exact turns are left
# out.
say "workers cannot have storage of their own"
UMCG_NO_OWN_STORAGE=1 tests --test rt -- joins:: lives:: parks:: scopes:: sleeps:: timeouts:: \
    futures::
UMCG_NO_OWN_STORAGE=1 tests --test callbacks

say "guards made by mprotect"
UMCG_NO_GUARD_INSTALL=1 tests --lib --test raw --test storage --test uth --test local \
    --test not_saved --test portable \
    --test registers --test stack --test switch --test threads --test unwind --test way

say "each system call refused by any error"
tests --test refusals -- --ignored by_any_error
