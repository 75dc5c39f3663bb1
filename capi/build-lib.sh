#!/bin/sh
# Builds libumcg.a and libumcg.so.0, and with --prefix DIR installs them with headers, manual pages
# and umcg.pc.
#
#   capi/build-lib.sh [--debug] [--out DIR] [--prefix DIR]
#
# The shared library is linked from the static one: a version script is not honoured on a Rust
# cdylib. It stays loaded (nodelete): signals and the ends of threads have handlers in it, which
# are never removed.
set -eu

here=$(cd "$(dirname "$0")" && pwd)
root=$(dirname "$here")
target=${CARGO_TARGET_DIR:-$root/target}
profile=release
flag=--release
out=
prefix=
while [ $# -gt 0 ]; do
    case $1 in
        --debug) profile=debug flag= ;;
        --out) out=$2 && shift ;;
        --prefix) prefix=$2 && shift ;;
        *) sed -n '2,4s/^# *//p' "$0" >&2 && exit 2 ;;
    esac
    shift
done
out=${out:-$target/$profile}

(cd "$root" && cargo build $flag --package umcg-capi --quiet)
mkdir -p "$out"
[ "$target/$profile" -ef "$out" ] || cp "$target/$profile/libumcg.a" "$out/"
"${CC:-cc}" -shared -o "$out/libumcg.so.0" \
    -Wl,--whole-archive "$out/libumcg.a" -Wl,--no-whole-archive \
    -Wl,--defsym=pthread_getattr_np=umcg_pthread_getattr_np \
    -Wl,--defsym=pthread_getaffinity_np=umcg_pthread_getaffinity_np \
    -Wl,--version-script="$here/libumcg.map" -Wl,-soname,libumcg.so.0 -Wl,-z,defs -Wl,-z,nodelete \
        -Wl,--gc-sections \
    -lgcc_s -lpthread -ldl -lm -lc
ln -sf libumcg.so.0 "$out/libumcg.so"

if [ -n "$prefix" ]; then
    version=$(sed -n 's/^version = "\(.*\)"/\1/p' "$root/Cargo.toml" | head -n 1)
    install -d "$prefix/lib/pkgconfig" "$prefix/include/umcg" "$prefix/share/man/man3"
    install -m 644 "$out/libumcg.a" "$prefix/lib/"
    install -m 755 "$out/libumcg.so.0" "$prefix/lib/"
    ln -sf libumcg.so.0 "$prefix/lib/libumcg.so"
    install -m 644 "$here/include/umcg.h" "$here/include/uth.h" "$prefix/include/"
    install -m 644 "$here"/include/umcg/*.h "$prefix/include/umcg/"
    install -m 644 "$root"/man/*.3 "$prefix/share/man/man3/"
    sed -e "s|@prefix@|$prefix|" -e "s|@version@|$version|" "$here/umcg.pc.in" > \
        "$prefix/lib/pkgconfig/umcg.pc"
fi
