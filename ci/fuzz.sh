#!/bin/sh
# Fuzzing (capi/tests/fuzz): calls of all headers with any arguments, umcg_ctl from any roles, uths on two virtual processors, segments of any contents. First
# targets have to find planted bugs.
#
#   ci/fuzz.sh [SECONDS]      how long each target goes on with random inputs; 25 where not given, hours by hand
#
# A failure prints the input, made smaller, and what it does; it is a line for capi/tests/fuzz/corpus, whose inputs come first.
# UMCG_FUZZ_SEED repeats the random ones.
set -eu
cd "$(dirname "$0")/.."
seconds=${1:-${UMCG_FUZZ_SECONDS:-25}}
base=${CARGO_TARGET_DIR:-$PWD/target}
out=$base/fuzz
copy=$base/fuzz-mutants
log=$out/fuzz.log
mkdir -p "$out"
# The library's panics say enough in a line.
export RUST_BACKTRACE=0

say() {
    echo "fuzz.sh: $*" >&2
}

if ! command -v cc > /dev/null || ! command -v python3 > /dev/null; then
    say "SKIPPED: no C compiler, or no Python"
    exit 0
fi

# library TARGET_DIR: builds libumcg.a of the current folder, with debug assertions.
library() {
    CARGO_TARGET_DIR=$1 cargo build --quiet --package umcg-capi
}

# target NAME LIBRARY: builds a target from here with this library.
target() {
    python3 capi/tests/fuzz/generate.py capi/include > "$out/calls.inc"
    cc -std=gnu11 -g -O1 -Wall -Wextra -Werror -Wno-unused-function -Icapi/include -I"$out" "capi/tests/fuzz/$1.c" \
        -o "$out/$1" "$2" -lpthread -ldl -lm -lgcc_s
}

# fuzz NAME SECONDS OPTIONS...: runs a target, with its corpus if it has one.
fuzz() {
    name=$1
    length=$2
    shift 2
    set -- "$@" ${UMCG_FUZZ_SEED:+-r "$UMCG_FUZZ_SEED"}
    [ ! -e "capi/tests/fuzz/corpus/$name.hex" ] || set -- "$@" "capi/tests/fuzz/corpus/$name.hex"
    "$out/$name" -s "$length" "$@"
}

# planted WHAT FILE SCRIPT NAME: the target finds what this sed script has changed in a copy of the sources.
planted() {
    sed "$3" "$2" > "$copy/$2"
    if cmp -s "$2" "$copy/$2"; then
        say "FAILED: $1: the sources have changed, so this bug was not planted"
        return 1
    fi
    (cd "$copy" && library "$base/fuzz-mutants-target")
    target "$4" "$base/fuzz-mutants-target/debug/libumcg.a"
    if fuzz "$4" 60 > "$log" 2>&1; then
        say "FAILED: $1: not found"
        return 1
    fi
    if ! grep -q "fuzz: FAILED" "$log"; then
        cat "$log" >&2
        say "FAILED: $1: something else went wrong"
        return 1
    fi
    cp "$2" "$copy/$2"
    say "found: $1"
}

rm -rf "$copy"
mkdir -p "$copy"
tar -c --exclude=./target --exclude=./.git --exclude="$base" . | tar -x -C "$copy"
planted "a word that is read without care" capi/src/futex.rs \
    's/let value = guarded::load(word.expose_provenance()).ok_or(EFAULT)?;/let value = unsafe { word.read() }.into_inner();/' calls

planted "a uth that runs, and is deleted" capi/src/uth.rs \
    's/or_misused(NAME, unsafe { uth::delete(uth) });/let _ = unsafe { uth::delete(uth) };/' uth

library "$base"
for name in calls ctl segment uth; do
    target "$name" "$base/debug/libumcg.a"
done
status=0
fuzz calls "$((2 * seconds))" -o "$out/found-calls.hex" > "$out/calls.log" 2>&1 &
calls=$!
fuzz ctl "$seconds" -o "$out/found-ctl.hex" > "$out/ctl.log" 2>&1 || status=1
fuzz segment "$seconds" -o "$out/found-segment.hex" > "$out/segment.log" 2>&1 || status=1
fuzz uth "$(((seconds + 1) / 2))" -o "$out/found-uth.hex" > "$out/uth.log" 2>&1 || status=1
wait "$calls" || status=1
for name in calls ctl segment uth; do
    if [ "$status" = 0 ]; then
        sed "s/^fuzz:/$name:/" "$out/$name.log" | grep -a "^$name: [0-9]" >&2
    else
        say "$name:"
        cat "$out/$name.log" >&2
    fi
done
exit $status
