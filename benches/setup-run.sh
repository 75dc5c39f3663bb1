#!/bin/sh
# Installs the programs that `umcg bench run` sets natively beside `umcg run`, and the compilers and
# libraries for its own ones, as far as apt has them; and the database of `umcg bench block`.
#
#   benches/setup-run.sh
#
# Each package is tried by itself. One that cannot be had is named, and the bench has no rows of it;
# the exit status is 0 all the same. On other systems install the programs of the same names.
set -eu

packages="gcc g++ libc6-dev libgomp1 libopenblas-dev python3 sysbench rt-tests memcached \
redis-server nginx-light xz-utils pigz stress-ng rocksdb-tools"

if ! command -v apt-get > /dev/null; then
    echo "setup-run.sh: no apt-get here: install by hand: $packages" >&2
    exit 0
fi
root=
[ "$(id -u)" = 0 ] || root=sudo

# Installing a server usually starts it as well: this forbids it for the time of the script, unless
# there is such a policy already.
policy=/usr/sbin/policy-rc.d
if [ ! -e "$policy" ]; then
    printf '#!/bin/sh\nexit 101\n' | $root tee "$policy" > /dev/null
    $root chmod 755 "$policy"
    trap '$root rm -f "$policy"' EXIT
fi

$root apt-get -qq update ||
    echo "setup-run.sh: the lists of packages could not be brought up to date" >&2
for package in $packages; do
    if ! dpkg-query -W -f='${Status}' "$package" 2> /dev/null | grep -q 'ok installed'; then
        $root env DEBIAN_FRONTEND=noninteractive \
            apt-get -qq -y --no-install-recommends install "$package" > /dev/null ||
            echo "setup-run.sh: $package cannot be installed" >&2
    fi
done
command -v rustc > /dev/null || echo "setup-run.sh: no rustc: no rows of rust-threads" >&2
