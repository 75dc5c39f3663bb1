#!/bin/sh
# Lints for everything that rustfmt and clippy do not check: see ci/lint.py, which first has to find
# planted faults; and the shell scripts.
set -eu
cd "$(dirname "$0")/.."

if ! command -v python3 > /dev/null; then
    echo "lint.sh: FAILED: no python3 (ci/setup.sh installs it)" >&2
    exit 1
fi
python3 ci/lint.py --planted
python3 ci/planted.py check
python3 ci/lint.py

if ! command -v shellcheck > /dev/null; then
    echo "lint.sh: SKIPPED: no shellcheck (ci/setup.sh installs it): shell scripts not checked" >&2
    exit 0
fi
# shellcheck disable=SC2016 # a sample with a fault, not an expansion
if echo 'rm $1' | shellcheck --shell=sh - > /dev/null; then
    echo "lint.sh: FAILED: shellcheck does not see a planted fault" >&2
    exit 1
fi
# SC3013: -ef is in POSIX since 2024, and in dash.
shellcheck --exclude=SC3013 .ci/run ci/*.sh capi/*.sh
