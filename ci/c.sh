#!/bin/sh
# Checks the C interface: the symbols that the shared library exports, an installed copy used
# through pkg-config, the C tests and examples, the manual pages, and the C tests under Valgrind. A
# check whose tool is not installed is skipped with a line that says so.
set -eu

cd "$(dirname "$0")/.."
target=${CARGO_TARGET_DIR:-$PWD/target}
work=$target/c-check
cc=${CC:-cc}

skip() { echo "SKIPPED: $*" >&2; }
die() { echo "FAILED: $*" >&2 && exit 1; }
have() { command -v "$1" > /dev/null 2>&1; }

if ! have "$cc" || ! have "${CXX:-c++}"; then
    skip "no C and C++ compiler, so nothing of the C interface was checked"
    exit 0
fi
rm -rf "$work" && mkdir -p "$work"

echo "== the shared library exports what the headers declare"
capi/build-lib.sh --out "$work/lib" --prefix "$work/usr"
# The names that the papers gave.
papers="initsem|downsem|upsem|altsems|newtube|freetube|tsend|trecv|nbtsend|nbtrecv|talt"

declared() { # function names in the headers, by the compiler's own reading of them
    (cd capi/include && printf '#include "%s"\n' ./*.h umcg/*.h) |
        "$cc" -Icapi/include -E -P -x c - |
        grep -oE "\\<((umcg|uth)_[a-z0-9_]*|$papers)\\(" | tr -d '('
    printf '%s\n' gettid pthread_getattr_np pthread_getaffinity_np
}
exported() { nm -D --defined-only "$1" | sed -n 's/.* T \([a-z0-9_]*\).*/\1/p'; }
declared | sort -u > "$work/declared"
exported "$work/lib/libumcg.so.0" | sort -u > "$work/exported"
diff "$work/declared" "$work/exported" || die "the headers (<) and libumcg.so.0 (>) differ"
sed 1d "$work/declared" > "$work/planted"
if diff "$work/planted" "$work/exported" > /dev/null; then
    die "the comparison does not see a missing function"
fi

echo "== an installed copy"
if have pkg-config; then
    for program in figure1 round_robin echo_server tcp_proxy prime_sieve fork_join urgent; do
        # The flags are several words.
        # shellcheck disable=SC2046
        "$cc" -std=c11 -D_GNU_SOURCE -pthread -o "$work/$program" "examples/c/$program.c" \
            $(PKG_CONFIG_PATH=$work/usr/lib/pkgconfig pkg-config --cflags --libs umcg)
        LD_LIBRARY_PATH=$work/usr/lib timeout 60 "$work/$program" > "$work/$program.out" ||
            die "$program, shared"
    done
    # The lines of docs/c.md.
    (
        export PKG_CONFIG_PATH="$work/usr/lib/pkgconfig"
        # shellcheck disable=SC2046
        "$cc" -D_GNU_SOURCE examples/c/fork_join.c -o "$work/by_path" \
            $(pkg-config --cflags --libs umcg) -Wl,-rpath,"$work/usr/lib"
        # The linker warns of functions that want the shared C library at run time.
        # shellcheck disable=SC2046
        "$cc" -D_GNU_SOURCE examples/c/fork_join.c -o "$work/static" -static-pie \
            $(pkg-config --static --cflags --libs umcg) 2> "$work/static.log" ||
                { cat "$work/static.log" && die "a static program"; }
    )
    for program in by_path static; do
        timeout 60 "$work/$program" > "$work/$program.out" || die "$program"
    done
    for flag in stack-clash-protection asynchronous-unwind-tables; do
        PKG_CONFIG_PATH=$work/usr/lib/pkgconfig pkg-config --cflags umcg |
            grep -q -- "-f$flag" || die "umcg.pc does not ask for -f$flag"
    done
    "$cc" -std=c11 -D_GNU_SOURCE -pthread -Icapi/include -o "$work/gettid" \
        capi/tests/c/ctl_gettid.c \
        -L"$work/usr/lib" -lumcg
    LD_LIBRARY_PATH=$work/usr/lib timeout 60 "$work/gettid" || die "gettid, shared"
    "$cc" -std=c11 -D_GNU_SOURCE -pthread -Icapi/include -Icapi/tests/c -o "$work/dlclose" \
        capi/tests/installed/dlclose.c -ldl
    timeout 60 "$work/dlclose" "$work/usr/lib/libumcg.so.0" || die "dlclose"
else
    skip "no pkg-config"
fi

echo "== manual pages"
if have groff; then
    for page in man/*.3; do
        complaints=$(groff -mandoc -ww -z -Tutf8 "$page" 2>&1) || true
        [ -z "$complaints" ] || die "$page: $complaints"
    done
    while read -r name; do
        case $name in gettid | pthread_*) continue ;; esac
        grep -q "^\.Nm $name" man/*.3 || die "no manual page names $name"
    done < "$work/declared"
else
    skip "no groff"
fi

echo "== C tests"
cargo test --release --quiet --package umcg-capi -- --include-ignored

echo "== Valgrind"
if ! have valgrind; then
    skip "no valgrind"
    exit 0
fi
# Valgrind knows no wrfsbase: the library finds that out, and thread workers stay on their own
# kernel threads. It does not look for leaks, as each word of each stack's guard that it comes to
# then costs a fault.
under_valgrind() {
    UMCG_TEST_SLOW=10 UMCG_TEST_UTHS=500 UMCG_TEST_WORKERS=20 timeout 300 \
        valgrind --quiet --leak-check=no --suppressions=ci/valgrind.supp --error-exitcode=9 \
            --trace-children=no --child-silent-after-fork=yes --fair-sched=yes "$@"
}
build() { # a program from a source file
    "$cc" -std=c11 -D_GNU_SOURCE -g -O1 -pthread -Icapi/include -Icapi/tests/c -o "$1" "$2" \
        "$work/lib/libumcg.a" -lgcc_s -ldl -lm
}
cat > "$work/planted.c" <<'PLANTED'
# include <stdlib.h>
# include "uth.h"
static void body(void *arg) { volatile char *at = arg; at[8] = 1; }
int main(void)
{
    char *block = malloc(8);
    uth_vp_init(0);
    uth_switchto(uth_self(), uth_create(body, block));
    free(block);
    return 0;
}
PLANTED
build "$work/planted" "$work/planted.c"
if under_valgrind "$work/planted" 2> /dev/null; then
    die "Valgrind does not see a planted overflow in a uth"
fi
for program in uth_figure1 uth_vps uth_many ctl_args ctl_server ctl_worker ctl_timeout ctl_block \
    ctl_exit ctl_light ctl_gettid ctl_signal ctl_fork \
    rt_spawn rt_wait rt_cancel rt_futex rt_io rt_nt rt_places rt_segment rt_segment_deaths rt_sem \
    rt_select rt_sync rt_talt rt_tube rt_tube_ends; do
    build "$work/$program" "capi/tests/c/$program.c"
    under_valgrind "$work/$program" < /dev/null > "$work/$program.log" 2>&1 ||
        { cat "$work/$program.log" && die "$program under Valgrind"; }
done
