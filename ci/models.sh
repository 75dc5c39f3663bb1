#!/bin/sh
# Runs the models of the protocols under shuttle (umcg-core/tests/model, umcg/tests/model): first
# with bugs planted in a copy of the sources, each of which has to be found, then the sources as
# they are, under many more schedules. A failure prints UMCG_MODEL_SEED, which repeats it. Likewise
# those under loom (umcg/tests/loom), for which the bugs are memory orderings that are too weak.
# Scenarios that both run are in umcg/tests/checked.
#
#   ci/models.sh [RUNS [all]]      RUNS: schedules a test and a scheduler; 1500 where not given
#
# A quarter of the bugs is tried, which one depends on the sources; all of them with `all`.
set -eu
cd "$(dirname "$0")/.."
runs=${1:-1500}
if [ "${2:-}" = all ]; then
    parts=1
else
    parts=4
fi
part=$(($(git rev-parse "HEAD^{tree}" 2> /dev/null | cksum | cut -d ' ' -f 1) % parts))
base=${CARGO_TARGET_DIR:-$PWD/target}
jobs=$base/planted
# The planted bugs, and the models that have to find them.
bugs=$PWD/ci/planted/models.toml
tab=$(printf '\t')
# This many bugs are tried at once, each in a copy of the sources of its own.
lanes=$(nproc)

say() {
    echo "models.sh: $*" >&2
}

# with_shuttle COMMAND...: cargo, for the models under shuttle. A target folder of its own, as the
# flag goes into every crate.
with_shuttle() {
    CARGO_TARGET_DIR="$base/shuttle" RUSTFLAGS="--cfg shuttle" CARGO_PROFILE_DEV_DEBUG=0 \
        CARGO_PROFILE_RELEASE_LTO=off CARGO_PROFILE_RELEASE_DEBUG=0 \
            CARGO_PROFILE_RELEASE_CODEGEN_UNITS=16 "$@"
}

# with_loom COMMAND...: cargo, for the models under loom.
with_loom() {
    CARGO_TARGET_DIR="$base/loom" RUSTFLAGS="--cfg loom" CARGO_PROFILE_DEV_OPT_LEVEL=1 \
        CARGO_PROFILE_DEV_DEBUG=0 \
        timeout --kill-after=5 600 "$@"
}

# newest FILES...: the newest of them.
newest() {
    # shellcheck disable=SC2012 # names without blanks
    ls -t "$@" | head -n 1
}

# compiled CHECKER SOURCE OPTIONS...: compiles the models of a checker, into $lane/models. By the
# compiler alone, as cargo would make the library anew for each bug, though they do not use it.
compiled() {
    checker=$1
    deps=$base/$1/debug/deps
    source=$2
    shift 2
    for crate in "$checker" lock_api libc rustix; do
        for file in "$deps/lib$crate"-*.rlib; do
            [ ! -e "$file" ] || set -- "$@" --extern "$crate=$(newest "$deps/lib$crate"-*.rlib)"
            break
        done
    done
    rustc --edition 2024 --test --crate-name models --cfg "$checker" -A warnings \
        -L "dependency=$deps" \
        -C "incremental=$lane/incremental" -o "$lane/models" "$@" "$source"
}

# go_through RUNS CHECKER PACKAGE MODELS...: whether the models, in the current folder, pass. It
# stops at the first failure. The model that always has to fail is left out, as its failure would be
# one.
go_through() {
    times=$1
    checker=$2
    package=$3
    shift 3
    status=0
    if [ "$checker" = loom ]; then
        compiled loom "$package/tests/loom/main.rs" -C opt-level=1 || return
        timeout --kill-after=5 900 "$lane/models" "$@" || status=$?
    else
        compiled shuttle "$package/tests/model/main.rs" || return
        UMCG_MODEL_STOP=1 UMCG_MODEL_RUNS=$times timeout --kill-after=5 900 "$lane/models" \
            --skip posting_before_saving "$@" || status=$?
    fi
    [ $status != 139 ] || echo "SIGSEGV"
    return $status
}

# try_bug NUMBER CHECKER PACKAGE MODELS WHAT: whether the models find it; "-" for all models.
try_bug() {
    number=$1
    checker=$2
    package=$3
    models=$4
    what=$5
    [ "$models" != - ] || models=
    "$root/ci/planted.py" plant "$bugs" "$number" || {
        say "FAILED: $what"
        return 1
    }
    # A few schedules of each model find most bugs; more are tried only if they do not. They are
    # random: a bug that takes 1,000 on average would survive 3,000 in one of twenty runs.
    for runs in 150 3000 30000; do
        # shellcheck disable=SC2086 # names without blanks
        if ! go_through $runs "$checker" "$package" $models > "$lane/log" 2>&1; then
            break
        elif [ $runs = 30000 ] || [ "$checker" = loom ]; then
            say "FAILED: $what: went through"
            return 1
        fi
    done
    # If a frame that is gone is looked at, the checker may crash before it can report it.
    if ! grep -Eq "panicked at|SIGSEGV" "$lane/log"; then
        cat "$lane/log" >&2
        say "FAILED: $what: no model found it, but something else went wrong"
        return 1
    fi
    say "found: $what"
}

# try_some NUMBER: tries each bug that is this lane's, in a copy of the sources of its own.
try_some() {
    lane=$jobs/lane-$1
    mkdir -p "$lane/sources"
    tar -c --exclude=./target --exclude=./.git --exclude="$base" . | tar -x -m -C "$lane/sources"
    root=$PWD
    cd "$lane/sources"
    job=0
    wrong=0
    while IFS="$tab" read -r checker package _ models what; do
        if [ $((job % lanes)) = "$1" ] && [ $((job / lanes % parts)) = "$part" ]; then
            (try_bug $job "$checker" "$package" "$models" "$what" < /dev/null) || wrong=1
            "$root/ci/planted.py" restore "$bugs" $job "$root"
        fi
        job=$((job + 1))
    done < "$jobs/list"
    return $wrong
}

# try_all: tries all bugs.
try_all() {
    running=
    number=0
    while [ $number -lt "$lanes" ]; do
        (try_some $number) &
        running="$running $!"
        number=$((number + 1))
    done
    status=0
    for process in $running; do
        wait "$process" || status=1
    done
    return $status
}

rm -rf "$jobs"
mkdir -p "$jobs"
"$PWD/ci/planted.py" list "$bugs" > "$jobs/list"
with_loom cargo test --quiet --package umcg --test loom --no-run
with_shuttle cargo test --quiet --package umcg --package umcg-core --test model --no-run
try_all

say "the sources as they are"
with_loom cargo test --quiet --package umcg --test loom
for package in umcg-core umcg; do
    UMCG_MODEL_RUNS=$runs with_shuttle timeout --kill-after=5 900 \
        cargo test --quiet --package $package --test model --release
done
