#!/bin/sh
# The tests of the engine of interception (umcg-intercept), and bugs that they have to find: each is
# planted in a copy of the sources.
#
#   ci/intercept.sh [all]
#
# A third of the bugs is tried, which one depends on the sources; all of them with `all`.
set -eu
cd "$(dirname "$0")/.."
base=${CARGO_TARGET_DIR:-$PWD/target}
root=$PWD
copy=$base/intercept-mutants
bugs=$root/ci/planted/intercept.toml
list=$base/intercept-mutants.list
log=$base/intercept.log
if [ "${1:-}" = all ]; then
    parts=1
else
    parts=3
fi
part=$(($(git rev-parse "HEAD^{tree}" 2> /dev/null | cksum | cut -d ' ' -f 1) % parts))
tab=$(printf '\t')

say() {
    echo "intercept.sh: $*" >&2
}

if [ "$(uname -m)" != x86_64 ] || ! command -v python3 > /dev/null; then
    say "SKIPPED: no x86-64, or no Python"
    exit 0
fi

# tests TARGET OPTIONS...: a target's tests in the copy.
tests() {
    case $1 in
        lib) target=--lib ;;
        *) target="--test $1" ;;
    esac
    shift
    # Cargo takes a copy of the sources for the sources: a target folder of its own.
    # shellcheck disable=SC2086 # an option and its value
    (cd "$copy" && CARGO_PROFILE_DEV_DEBUG=0 CARGO_TARGET_DIR="$base/intercept-mutants-target" \
        timeout --kill-after=5 240 cargo test --quiet --package umcg-intercept $target "$@") \
        > "$log" 2>&1
}

# try_bug NUMBER TARGET WHAT: the target's tests are built with the bug, and fail.
try_bug() {
    (cd "$copy" && "$root/ci/planted.py" plant "$bugs" "$1")
    if ! tests "$2" --no-run; then
        cat "$log" >&2
        say "FAILED: $3: does not compile"
        return 1
    fi
    if tests "$2"; then
        say "FAILED: $3: went through"
        return 1
    fi
    (cd "$copy" && "$root/ci/planted.py" restore "$bugs" "$1" "$root")
    say "found: $3"
}

rm -rf "$copy"
mkdir -p "$copy"
ci/planted.py list "$bugs" > "$list"
# As new files: what an earlier run has built may have a bug in it.
tar -c --exclude=./target --exclude=./.git --exclude="$base" . | tar -x -m -C "$copy"

# Without a bug they pass.
cut -f 4 "$list" | sort -u | while read -r target; do
    tests "$target" < /dev/null || {
        cat "$log" >&2
        say "FAILED: the tests of $target, without a bug"
        exit 1
    }
done
number=0
while IFS="$tab" read -r _ _ _ target what; do
    if [ $((number % parts)) -eq "$part" ]; then
        try_bug $number "$target" "$what" < /dev/null
    fi
    number=$((number + 1))
done < "$list"
say "all of these bugs were found"
