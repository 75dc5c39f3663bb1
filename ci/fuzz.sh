#!/bin/sh
# Fuzzing (capi/tests/fuzz): calls of all headers with any arguments, umcg_ctl from any roles, uths
# on two virtual processors, segments of any contents. First targets have to find planted bugs.
#
#   ci/fuzz.sh [SECONDS]      how long each target goes on with random inputs; 25 where not given,
#                             hours by hand
#
# A failure prints the input, made smaller, and its steps; it is a line for capi/tests/fuzz/corpus,
# whose inputs come first. UMCG_FUZZ_SEED repeats the random ones. With UMCG_FUZZ_KEEP, inputs that
# reach new edges are added to the corpus.
set -eu
cd "$(dirname "$0")/.."
seconds=${1:-${UMCG_FUZZ_SECONDS:-25}}
base=${CARGO_TARGET_DIR:-$PWD/target}
out=$base/fuzz
root=$PWD
copy=$base/fuzz-mutants
bugs=$root/ci/planted/fuzz.toml
tab=$(printf '\t')
log=$out/fuzz.log
keep=
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

# The library counts which edges it goes over, by a pass of the compiler's that sanitizers use.
# Programs that run during the compilation are not counted.
host=$(rustc -vV | sed -n 's/^host: //p')
counts="-Cpasses=sancov-module -Cllvm-args=-sanitizer-coverage-level=3 \
-Cllvm-args=-sanitizer-coverage-inline-8bit-counters"
# shellcheck disable=SC2086 # a list of options
if ! echo 'pub fn f() {}' |
    rustc $counts --crate-type rlib -o "$out/empty.rlib" - 2> /dev/null; then
    say "SKIPPED: this compiler has no such pass, so inputs are random only"
    counts=
fi

# library TARGET_DIR: builds libumcg.a of the current folder, with debug assertions.
library() {
    RUSTFLAGS="${RUSTFLAGS:-} -Awarnings $counts" CARGO_TARGET_DIR=$1 cargo build --quiet \
        --package umcg-capi --target "$host"
}

# target NAME LIBRARY: builds a target from here with this library.
target() {
    python3 capi/tests/fuzz/generate.py capi/include > "$out/calls.inc"
    cc -std=gnu11 -g -O1 -Wall -Wextra -Werror -Wno-unused-function -Icapi/include -I"$out" \
        "capi/tests/fuzz/$1.c" \
        -o "$out/$1" "$2" -lpthread -ldl -lm -lgcc_s
}

# fuzz NAME SECONDS OPTIONS...: runs a target, with its corpus if it has one.
fuzz() {
    name=$1
    length=$2
    shift 2
    corpus=capi/tests/fuzz/corpus/$name.hex
    set -- "$@" ${UMCG_FUZZ_SEED:+-r "$UMCG_FUZZ_SEED"} ${keep:+-k "$corpus"}
    [ ! -e "$corpus" ] || set -- "$@" "$corpus"
    "$out/$name" -s "$length" "$@"
}

# found NAME WHAT: the target finds the planted bug.
found() {
    target "$1" "$base/fuzz-mutants-target/$host/debug/libumcg.a"
    if fuzz "$1" 60 -f > "$log" 2>&1; then
        say "FAILED: $2: not found"
        return 1
    fi
    if ! grep -q "fuzz: FAILED: [0-9]" "$log"; then
        cat "$log" >&2
        say "FAILED: $2: something else went wrong"
        return 1
    fi
    say "found: $2"
}

# try_bugs NUMBERS...: plants these bugs in a copy of the sources, no two for the same target, and
# checks that the target of each finds it.
try_bugs() {
    for number; do
        (cd "$copy" && "$root/ci/planted.py" plant "$bugs" "$number")
    done
    (cd "$copy" && library "$base/fuzz-mutants-target")
    for number; do
        IFS="$tab" read -r _ _ _ name what <<LINE
$(sed -n "$((number + 1))p" "$base/fuzz-mutants.list")
LINE
        found "$name" "$what"
        (cd "$copy" && "$root/ci/planted.py" restore "$bugs" "$number" "$root")
    done
}

rm -rf "$copy"
mkdir -p "$copy"
tar -c --exclude=./target --exclude=./.git --exclude="$base" . | tar -x -m -C "$copy"
ci/planted.py list "$bugs" > "$base/fuzz-mutants.list"
try_bugs 0 1 2 3
try_bugs 4

library "$base/fuzz-target"
for name in calls ctl segment uth; do
    target "$name" "$base/fuzz-target/$host/debug/libumcg.a"
done
status=0
keep=${UMCG_FUZZ_KEEP:-}
fuzz calls "$((2 * seconds))" -o "$out/found-calls.hex" > "$out/calls.log" 2>&1 &
calls=$!
fuzz ctl "$seconds" -o "$out/found-ctl.hex" > "$out/ctl.log" 2>&1 || status=1
fuzz segment "$seconds" -o "$out/found-segment.hex" > "$out/segment.log" 2>&1 || status=1
fuzz uth "$(((seconds + 1) / 2))" -o "$out/found-uth.hex" > "$out/uth.log" 2>&1 || status=1
wait "$calls" || status=1
for name in calls ctl segment uth; do
    if [ "$status" = 0 ] && [ -n "$counts" ] && ! grep -q "went over [1-9]" "$out/$name.log"; then
        say "FAILED: $name: the library does not tell where it goes"
        status=1
    fi
    if [ "$status" = 0 ]; then
        sed "s/^fuzz:/$name:/" "$out/$name.log" | grep -a "^$name: [0-9]" >&2
    else
        say "$name:"
        cat "$out/$name.log" >&2
    fi
done
exit $status
