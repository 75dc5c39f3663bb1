#!/usr/bin/env python3
"""Says in a few lines why a step of ci/test.sh failed, from all that it printed.

    ci/digest.py LOG

Prints the lines that name a failure, the output of each test that failed, the lines printed before
a test program died, and the end of the log. Frames of a backtrace are left out unless they are this
project's.
"""

import re
import sys

WIDTH = 240  # characters of a line
LEAST = 12  # lines of the end, always
BEFORE = 25  # lines before a program's end by a signal or a limit of time
EACH = 50  # lines of one test's output
MOST = 150  # lines in all

NAMES = re.compile(
    r"\bFAILED\b|^error(\[|:)|^warning: unused|panicked at|more than \d+ s|^fuzz: "
    r"|SIGSEGV|SIGABRT|ERROR: \w+Sanitizer"
)
DIED = re.compile(r"process didn't exit successfully|^error: test failed")
OUTPUT = re.compile(r"^---- .* stdout ----$")
ENDS = re.compile(r"^(---- .* stdout ----|failures:|test result: .*)$")
FRAME = re.compile(r"^\s+\d+: |^\s+at ")
FOREIGN = re.compile(
    r"^\s+at (/rustc/|/usr/)|^\s+\d+: (<?(core|std|alloc|test)::|__rust|_?_?start|main$|__libc)"
)


def wanted(lines):
    """The numbers of the lines to print."""
    numbers = set(range(max(0, len(lines) - LEAST), len(lines)))
    for first, line in enumerate(lines):
        if re.search(r"^error: \d+ targets? failed", line):
            numbers.update(range(first, min(first + 20, len(lines))))
    i = 0
    while i < len(lines):
        if OUTPUT.match(lines[i]):
            last = i + 1
            while last < len(lines) and not ENDS.match(lines[last]):
                last += 1
            numbers.update([n for n in range(i, last) if not FRAME.match(lines[n])][:EACH])
            numbers.update([n for n in range(i, last) if FRAME.match(lines[n])][:EACH])
            i = last
            continue
        if DIED.search(lines[i]):
            numbers.update(n for n in range(max(0, i - BEFORE), i + 1))
        elif lines[i].startswith("test ") and lines[i].rstrip().endswith("FAILED"):
            numbers.add(i)
        i += 1
    if len(numbers) <= LEAST + 5:
        numbers.update(i for i, line in enumerate(lines) if NAMES.search(line))
        numbers.update(range(max(0, len(lines) - 3 * LEAST), len(lines)))
    return sorted(numbers)


def main():
    """Prints the digest of the log that the command line names."""
    with open(sys.argv[1], encoding="utf-8", errors="replace") as log:
        lines = log.read().splitlines()
    numbers = [n for n in wanted(lines) if not FOREIGN.match(lines[n])]
    if len(numbers) > MOST:
        numbers = numbers[: MOST - LEAST] + numbers[-LEAST:]
    before = -1
    for number in numbers:
        if number != before + 1:
            print(f"... {number - before - 1} lines left out")
        print(lines[number][:WIDTH])
        before = number


main()
