#!/bin/sh
# SPDX-License-Identifier: MIT OR Apache-2.0
# make with several jobs at a time, which share their tokens by a pipe.
# run: needs make
set -eu
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
cat > "$scratch/Makefile" <<'MAKE'
parts := 1 2 3 4 5 6 7 8
whole: $(parts:%=part-%)
	@cat $(parts:%=part-%) > whole
part-%:
	@$(MAKE) --no-print-directory sub-$*
	@echo part $* > part-$*
sub-%:
	@sleep 0.005
	@test ! -e failed
fails:
	@exit 3
MAKE
cd "$scratch"
make -s -j 4 whole
cat whole
make -s -j 4 whole
status=0
make -s -j 2 fails 2> /dev/null || status=$?
echo "make: $status"
