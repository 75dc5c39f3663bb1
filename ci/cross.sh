#!/bin/sh
# Builds umcg for aarch64 and riscv64 and runs the tests of umcg-context, umcg-core and umcg, and
# two programs in C, under qemu-user. If a target, a cross compiler or qemu cannot be had, it is
# skipped loudly: a reason on standard error, exit 0.
set -eu
cd "$(dirname "$0")/.."

skip() {
    echo "cross.sh: SKIPPED: $*" >&2
    exit 0
}

as_root() {
    if [ "$(id -u)" = 0 ]; then
        "$@"
    else
        command -v sudo > /dev/null && sudo -n "$@"
    fi
}

missing=
for tool in qemu-aarch64:qemu-user qemu-riscv64:qemu-user \
    aarch64-linux-gnu-gcc:gcc-aarch64-linux-gnu riscv64-linux-gnu-gcc:gcc-riscv64-linux-gnu; do
    command -v "${tool%:*}" > /dev/null || missing="$missing ${tool#*:}"
done
[ -e /usr/aarch64-linux-gnu/lib/libc.so.6 ] || missing="$missing libc6-dev-arm64-cross"
[ -e /usr/riscv64-linux-gnu/lib/libc.so.6 ] || missing="$missing libc6-dev-riscv64-cross"
if [ -n "$missing" ]; then
    command -v apt-get > /dev/null || skip "not installed, and no apt-get to install them:$missing"
    as_root apt-get update > /dev/null ||
        echo "cross.sh: apt-get update failed, going on with old lists" >&2
    # shellcheck disable=SC2086 # a list of packages
    as_root env DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends $missing \
        > /dev/null ||
        skip "could not install$missing"
fi

scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT

for arch in aarch64 riscv64; do
    case $arch in
        riscv64) target=riscv64gc-unknown-linux-gnu ;;
        *) target=$arch-unknown-linux-gnu ;;
    esac
    if ! rustc --print target-libdir --target $target |
        xargs ls > "$scratch/libdir" 2> /dev/null; then
        rustup target add $target || skip "no Rust standard library for $target"
    fi
    name=$(echo $target | tr 'a-z-' 'A-Z_')
    export "CARGO_TARGET_${name}_LINKER=$arch-linux-gnu-gcc"
    export "CARGO_TARGET_${name}_RUNNER=timeout 600 qemu-$arch -L /usr/$arch-linux-gnu"

    # The planted bug: if the exit status were lost on the way, every test below would pass.
    echo 'fn main() { std::process::exit(3) }' > "$scratch/planted.rs"
    rustc --target $target -C linker=$arch-linux-gnu-gcc -o "$scratch/planted" "$scratch/planted.rs"
    status=0
    timeout 120 qemu-$arch -L /usr/$arch-linux-gnu "$scratch/planted" || status=$?
    if [ $status != 3 ]; then
        echo "cross.sh: a program that exits with 3 came back with $status" >&2
        exit 1
    fi

    echo "cross.sh: $target" >&2
    if cargo clippy --version > /dev/null 2>&1; then
        cargo clippy -q -p umcg-context --features portable --all-targets --target $target
    fi
    for profile in dev release; do
        timeout 1800 cargo test -q -p umcg-context --features portable --tests --profile $profile \
            --target $target
    done
    # One at a time: these have time limits, and qemu is slow.
    timeout 1800 cargo test -q -p umcg-core --features portable --lib --tests --target $target -- \
        --test-threads=1
    timeout 1800 cargo test -q -p umcg --test umcg --test owning --target $target -- \
        --test-threads=1
    # Ticks at random moments. These tests run themselves again, so they must be told how.
    UMCG_TEST_RUNNER="qemu-$arch -L /usr/$arch-linux-gnu" timeout 1800 cargo test -q -p umcg \
        --test preempted --target $target -- \
        --test-threads=1 in_a_handler inside_malloc beneath
    # Handlers of a C program's own: of signals, with all flags (some end a process by SIGSEGV, of
    # which qemu tells), and cleanup handlers.
    timeout 1800 cargo build -q -p umcg-capi --target $target
    for program in ctl_handlers ctl_cleanup; do
        $arch-linux-gnu-gcc -std=c11 -D_GNU_SOURCE -O2 -g -pthread -fasynchronous-unwind-tables \
            -Wall -Wextra -Wpedantic -Werror \
            -I capi/include -I capi/tests/c -o "$scratch/$program-$arch" capi/tests/c/$program.c \
            "${CARGO_TARGET_DIR:-target}/$target/debug/libumcg.a" -lgcc_s -ldl -lm
        UMCG_TEST_SLOW=4 timeout 600 qemu-$arch -L /usr/$arch-linux-gnu "$scratch/$program-$arch"
    done
done
echo "cross.sh: passed" >&2
