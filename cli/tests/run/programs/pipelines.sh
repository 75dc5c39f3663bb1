#!/bin/sh
# SPDX-License-Identifier: MIT OR Apache-2.0
# A shell that runs pipelines, background jobs and traps, with ordinary programs of several threads.
# run: needs sort gzip xz seq
set -eu
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT

seq 1 20000 > "$scratch/numbers"
echo "pipeline: $(sort -R "$scratch/numbers" | sort -n | tail -n 1)"
sort --parallel=4 -S 1M -r "$scratch/numbers" | sort --parallel=4 -n > "$scratch/sorted"
cmp "$scratch/numbers" "$scratch/sorted"
echo "sorted"
xz -T 4 --block-size=16384 -1 -c "$scratch/numbers" | xz -d -T 4 | cmp - "$scratch/numbers"
echo "compressed by threads"
gzip -c "$scratch/numbers" | gzip -d | cmp - "$scratch/numbers"
echo "compressed"

for job in 1 2 3; do
    (
        sleep "0.0$job"
        exit "$job"
    ) &
    eval "job_$job=$!"
done
for job in 3 1 2; do
    status=0
    eval "wait \$job_$job" || status=$?
    echo "job $job: $status"
done

trap 'echo trapped' USR1
kill -USR1 $$
(kill -TERM "$(sh -c 'echo $PPID')") || echo "a child ended by signal $(($? - 128))"
yes | head -n 3
seq 1 100 | while read -r number; do
    [ "$number" != 100 ] || echo "read $number lines"
done
