#!/bin/sh
# The tests of POSIX threads, semaphores, signals, timers and queues that a distribution has in
# source: those of the C library's own package, and the Open POSIX Test Suite. Each that passes
# natively has to pass under `umcg run`, with one and with two servers.
#
#   ci/posix.sh [ROUNDS]        how many times each test runs in each way; once where not given
#
# It needs apt-get and a network, so CI does not run it; ci/stress.sh does. An hour on two CPUs.
# Nothing is installed: sources are fetched to the target folder, and compiled against the C library
# that is installed.
#
# | variable | meaning |
# |---|---|
# | UMCG_POSIX_TESTS | parts of names, separated by commas: only tests with one of them |
# | UMCG_POSIX_SERVERS | numbers of servers, separated by commas; 1,2 where not given |
# | UMCG_POSIX_LIMIT | seconds that a run may take; 60 where not given |
# | UMCG_POSIX_JOBS | how many tests run at a time; the number of CPUs where not given |
# | UMCG_POSIX_COMMAND | a command `umcg` that is built already |
#
# ci/posix/exceptions lists what is left out or may differ, with the reasons.
set -eu
cd "$(dirname "$0")/.."
rounds=${1:-1}
base=${CARGO_TARGET_DIR:-$PWD/target}
mkdir -p "$base/posix"
folder=$(cd "$base/posix" && pwd)
compiler=${CC:-cc}

skip() {
    echo "posix.sh: SKIPPED: $*" >&2
    exit 0
}

# once NAME COMMAND...: the command, unless it has succeeded before.
once() {
    stamp=$folder/$1.done
    shift
    [ -e "$stamp" ] || {
        "$@" > "$folder/log" 2>&1 && : > "$stamp"
    }
}

# The C library's source is in a binary package of the installed version, or else of another one.
fetch_glibc() {
    version=$(dpkg-query --show --showformat='${Version}' libc6)
    rm -rf "$folder/package" "$folder/glibc"
    mkdir -p "$folder/package" "$folder/glibc"
    (
        cd "$folder/package"
        apt-get download "glibc-source=$version" || apt-get download glibc-source
        dpkg-deb --extract glibc-source_*.deb .
    )
    find "$folder/package" -name 'glibc-*.tar.xz' -exec \
        tar --extract --strip-components=1 --directory "$folder/glibc" --file {} \;
    [ -e "$folder/glibc/support/test-driver.c" ]
}

# The lists of source packages are fetched beside the system's own, which stay as they are.
fetch_suite() {
    lists=$folder/lists
    rm -rf "$lists" "$folder/package" "$folder/suite"
    mkdir -p "$lists/state/partial" "$lists/sources" "$folder/package" "$folder/suite"
    for from in /etc/apt/sources.list /etc/apt/sources.list.d/debian.list \
        /etc/apt/sources.list.d/debian.sources /etc/apt/sources.list.d/ubuntu.sources; do
        [ ! -e "$from" ] || sed -e 's/^Types: *deb$/Types: deb-src/' -e 's/^deb /deb-src /' \
            "$from" > "$lists/sources/$(basename "$from")"
    done
    set -- -o "Dir::Etc::sourcelist=/dev/null" -o "Dir::Etc::sourceparts=$lists/sources" \
        -o "Dir::State::lists=$lists/state" -o "APT::Sandbox::User=root"
    apt-get "$@" update
    (cd "$folder/package" && apt-get "$@" source --download-only posixtestsuite)
    tar --extract --strip-components=1 --directory "$folder/suite" \
        --file "$folder"/package/posixtestsuite_*.orig.tar.*
    [ -e "$folder/suite/include/posixtest.h" ]
}

for tool in "$compiler" python3 apt-get dpkg-deb tar xz; do
    command -v "$tool" > /dev/null || skip "no $tool"
done
[ "$(uname -m)" = x86_64 ] || skip "umcg run is for x86-64"
once glibc fetch_glibc || skip "the C library's source cannot be had ($folder/log)"
once suite fetch_suite || skip "the Open POSIX Test Suite cannot be had ($folder/log)"

if [ -z "${UMCG_POSIX_COMMAND:-}" ]; then
    export CARGO_PROFILE_RELEASE_LTO=thin CARGO_PROFILE_RELEASE_CODEGEN_UNITS=16
    cargo build --quiet --release --package umcg-cli --package umcg-preload
    UMCG_POSIX_COMMAND=$base/release/umcg
fi
export UMCG_POSIX_COMMAND
ci/posix/tests.py planted "$folder"
ci/posix/tests.py compile "$folder" "$compiler"
ci/posix/tests.py run "$folder" "$rounds"
