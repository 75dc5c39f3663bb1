#!/usr/bin/env python3
"""Compiles tests of POSIX threads from their sources, and runs them natively and under `umcg run`.

    ci/posix/tests.py planted FOLDER            the comparison has to notice planted faults
    ci/posix/tests.py compile FOLDER COMPILER   FOLDER has `glibc` and `suite`, as ci/posix.sh left
    ci/posix/tests.py run FOLDER ROUNDS

A test passes with status 0. Only tests that pass natively count. A failure under `umcg run` is
looked at again: natively, where it must not fail in some more runs, and once more under `umcg run`,
alone, so that other tests and a busy machine are no reasons.

Sources that do not compile against the installed headers are counted and left out: they test the C
library's insides.
"""

import concurrent.futures
import fnmatch
import os
import re
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent
AGAIN = 4  # native runs after a failure under `umcg run`
TAIL = 6  # lines of a failed run's output

# Folders of the C library whose tests are all taken; and others, of which those are that use
# threads, signals, timers or processes.
WHOLE = ["nptl", "sysdeps/pthread", "sysdeps/nptl", "rt", "signal"]
PARTS = [
    "posix", "time", "malloc", "sysdeps/unix/sysv/linux", "stdlib", "misc", "stdio-common",
    "socket", "io", "setjmp", "dlfcn", "libio", "debug",
]  # fmt: skip
USES = re.compile(
    r"pthread|sem_|signal|sigaction|SIG[A-Z]|fork|popen|system *\(|timer_|alarm|sleep|thrd_|futex"
    r"|waitpid|spawn"
)
HEADERS = [
    ".", "support", "include", "sysdeps/pthread", "sysdeps/nptl", "sysdeps/unix/sysv/linux/x86",
    "sysdeps/unix/sysv/linux", "sysdeps/x86/nptl", "sysdeps/x86_64/nptl", "sysdeps/x86_64",
    "sysdeps/x86", "sysdeps/generic",
]  # fmt: skip
# Files of the folder that are no tests by themselves.
PARTS_OF_TESTS = re.compile(r"(mod[0-9]*[a-z]?|-static|skeleton|-common|aux|-helper)$")
# Tests with an ending like this are about unwinding through frames with handlers of exceptions.
UNWINDS = re.compile(r"x[0-9]+$|cancel2[0-9]|^tst-cleanup")
# The interfaces of the suite that are about threads, signals, time and waiting.
INTERFACES = re.compile(
    r"^(pthread|sem_|sig|kill|raise|mq_|timer|nanosl|clock|sched|aio|lio|fork|shm_|mmap|munmap"
    r"|mlock|time)"
)


def arguments_of(name, binary):
    """The arguments that the C library's Makefiles give these tests."""
    return {
        "tst-cancel7": ["--command", f"exec {binary}"],
        "tst-cancelx7": ["--command", f"exec {binary}"],
        "tst-exec4": [str(binary)],
        "tst-stackguard1": ["--command", f"{binary} --child"],
        "tst-umask1": ["./file"],
    }.get(name, [])


class Sources:
    """Compiles all sources, several at a time."""

    def __init__(self, folder, compiler):
        self.folder = folder
        self.compiler = compiler
        self.failed = 0

    def cc(self, result, *words):
        """Whether it compiles. A result that is there already is kept."""
        if result.exists():
            return True
        result.parent.mkdir(parents=True, exist_ok=True)
        command = [self.compiler, "-g", "-w", "-pthread", "-o", str(result), *map(str, words)]
        try:
            done = subprocess.run(command, capture_output=True, timeout=120)
            return done.returncode == 0
        except subprocess.TimeoutExpired:
            return False

    def each(self, function, sources):
        """Calls it for each source, and counts the failures."""
        with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
            self.failed += list(pool.map(function, sources)).count(False)

    def glibc(self):
        root = self.folder / "glibc"
        empty = self.folder / "empty"
        empty.mkdir(exist_ok=True)
        for name in ["config.h", "abi-versions.h"]:  # made by the library's own build
            (empty / name).touch()
        flags = ["-std=gnu11", "-O2", "-include", HERE / "glibc.h", f"-I{empty}"]
        for header in HEADERS:
            flags += ["-idirafter", root / header]
        objects = self.folder / "support"
        support = [
            path for path in sorted((root / "support").glob("*.c"))
            if not re.match(r"README|tst-|test-|echo-|links-|shell-|true-", path.name)
        ]  # fmt: skip

        def one_object(source):
            self.cc(objects / (source.stem + ".o"), *flags, "-c", source)
            return True

        self.each(one_object, support)
        archive = self.folder / "libsupport.a"
        archive.unlink(missing_ok=True)
        made = map(str, sorted(objects.glob("*.o")))
        subprocess.run(["ar", "rcs", str(archive), *made], check=True)
        to = self.folder / "tests" / "glibc"

        def one(source):
            words = [*flags, f"-I{source.parent}"]
            if UNWINDS.search(source.stem):
                words += ["-fexceptions", "-fasynchronous-unwind-tables"]
            words.append(source)
            common = source.with_name("tst-cancel4-common.c")
            if re.fullmatch(r"tst-cancelx?[45]", source.stem) and common.exists():
                words.append(common)
            return self.cc(to / source.stem, *words, archive, "-rdynamic", "-ldl", "-lrt", "-lm")

        self.each(one, self.glibc_tests(root))

        def one_module(source):
            self.cc(to / (source.stem + ".so"), *flags, "-shared", "-fPIC", source)
            return True

        for folder in WHOLE:
            self.each(one_module, (root / folder).glob("tst-*mod*.c"))

    @staticmethod
    def glibc_tests(root):
        tests = {}
        for folder in WHOLE + PARTS:
            for pattern in ["tst*.c", "test*.c", "bug*.c"]:
                for source in sorted((root / folder).glob(pattern)):
                    text = source.read_text(errors="replace")
                    if PARTS_OF_TESTS.search(source.stem):
                        continue
                    if folder in WHOLE or USES.search(text):
                        tests.setdefault(source.stem, source)
        return list(tests.values())

    def suite(self):
        root = self.folder / "suite"
        includes = ["fcntl.h", "signal.h", "pthread.h"]
        flags = ["-std=gnu99", "-O1", "-D_GNU_SOURCE", f"-I{root / 'include'}"]
        flags += [word for name in includes for word in ("-include", name)]
        to = self.folder / "tests" / "suite"

        def one(pair):
            name, source = pair
            return self.cc(to / name, *flags, f"-I{source.parent}", source, "-lrt", "-lm")

        tests = []
        for top in ["conformance/interfaces", "functional"]:
            for source in sorted((root / top).rglob("*.c")):
                name = str(source.relative_to(root / top).with_suffix(""))
                is_part = re.search(r"buildonly|testfrmw|helper|scenarii|coverage", name)
                if not is_part and (top == "functional" or INTERFACES.match(name)):
                    tests.append((name, source))
        self.each(one, tests)


class Exceptions:
    """ci/posix/exceptions."""

    def __init__(self):
        self.lines = []
        for line in (HERE / "exceptions").read_text().splitlines():
            if line and not line.startswith("#"):
                kind, pattern, reason = line.split(maxsplit=2)
                self.lines.append((kind, pattern, reason))

    def of(self, name):
        """The kind of exception and its reason; or None twice."""
        for kind, pattern, reason in self.lines:
            if fnmatch.fnmatchcase(name, pattern):
                return kind, reason
        return None, None


class Runner:
    """Runs tests in several ways."""

    def __init__(self, folder, command):
        self.folder = folder
        self.command = command
        self.limit = int(os.environ.get("UMCG_POSIX_LIMIT", "60"))
        self.tests = folder / "tests"

    def once(self, name, servers):
        """How a run ended, None for status 0; and the end of its output."""
        place = self.folder / "runs" / name.replace("/", "_") / servers
        place.mkdir(parents=True, exist_ok=True)
        (place / "Makefile").write_text("all:\n" * 100)  # some tests read one
        binary = self.tests / name
        words = [] if servers == "native" else [self.command, "run", "--servers", servers, "--"]
        environment = dict(os.environ, TMPDIR=str(place), TIMEOUTFACTOR="3")
        environment["LD_LIBRARY_PATH"] = str(binary.parent)
        with open(place / "output", "wb") as output:
            process = subprocess.Popen(
                [*words, str(binary), *arguments_of(binary.name, binary)],
                stdin=subprocess.DEVNULL, stdout=output, stderr=output,
                cwd=place, env=environment, start_new_session=True,
            )  # fmt: skip
            try:
                status = process.wait(self.limit)
                end = f"status {status}" if status >= 0 else f"signal {-status}"
            except subprocess.TimeoutExpired:
                status, end = -1, f"more than {self.limit} s"
        # What it has left behind, or all of it.
        try:
            os.killpg(process.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
        process.wait()
        lines = (place / "output").read_bytes()[-4000:].decode(errors="replace").splitlines()
        return (end if status != 0 else None), lines[-TAIL:]

    def test(self, name, ways, rounds):
        """None if it does not pass natively, or else a list of failures."""
        if self.once(name, "native")[0]:
            return None
        failures = []
        for way in ways:
            for _ in range(rounds):
                end, lines = self.once(name, way)
                if end:
                    failures.append((way, end, lines))
                    break
        return failures

    def again(self, name, ways):
        """The failures that are left when the test runs alone: none if it fails natively, too."""
        if any(self.once(name, "native")[0] for _ in range(AGAIN)):
            return None
        return self.test(name, ways, 2)


def describe(name, failures):
    for way, end, lines in failures:
        where = "natively" if way == "native" else f"with {way} servers"
        print(f"FAILED: {name}, {where}: {end}")
        for line in lines:
            print(f"    {line}")


def run(folder, rounds):
    runner = Runner(folder, os.environ["UMCG_POSIX_COMMAND"])
    exceptions = Exceptions()
    ways = os.environ.get("UMCG_POSIX_SERVERS", "1,2").split(",")
    parts = os.environ.get("UMCG_POSIX_TESTS", "").split(",")
    jobs = int(os.environ.get("UMCG_POSIX_JOBS", os.cpu_count() or 1))
    names = [
        str(path.relative_to(runner.tests)) for path in sorted(runner.tests.rglob("*"))
        if path.is_file() and path.suffix != ".so"
    ]  # fmt: skip
    names = [name for name in names if any(part in name for part in parts)]
    names = [name for name in names if exceptions.of(name)[0] not in ("never", "racy")]
    lock = threading.Lock()
    passed, skipped, doubtful = 0, 0, []
    begun = last = time.monotonic()

    def one(name):
        nonlocal passed, skipped, last
        failures = runner.test(name, ways, rounds)
        with lock:
            skipped += failures is None
            passed += failures == []
            if failures:
                doubtful.append(name)
            now = time.monotonic()
            if now - last > 20:
                last = now
                done = passed + skipped + len(doubtful)
                print(f"{done} of {len(names)} tests, {now - begun:.0f} s", flush=True)

    with concurrent.futures.ThreadPoolExecutor(jobs) as pool:
        list(pool.map(one, names))
    failed = []
    for name in sorted(doubtful):
        failures = runner.again(name, ways)
        kind, reason = exceptions.of(name)
        if failures is None:
            print(f"SKIPPED: {name}: does not always pass natively")
            skipped += 1
        elif not failures:
            print(f"{name}: failed once, and passes alone")
            passed += 1
        elif kind == "differs":
            print(f"DIFFERS: {name}: {reason}")
            skipped += 1
        else:
            describe(name, failures)
            failed.append(name)
    print(f"{passed} passed, {len(failed)} failed, {skipped} skipped")
    return not failed


def planted(folder):
    """Tests that pass natively, and fail in place of `umcg run` in each way."""
    place = folder / "planted"
    test = place / "tests" / "test"
    test.parent.mkdir(parents=True, exist_ok=True)
    stand_in = place / "umcg"
    test.write_text("#!/bin/sh\nexit 0\n")
    for fault in ["exit 1", "kill -s SEGV $$", "sleep 100"]:
        stand_in.write_text(f"#!/bin/sh\n{fault}\n")
        for script in [test, stand_in]:
            script.chmod(0o755)
        runner = Runner(place, str(stand_in))
        runner.limit = 2
        if not runner.test("test", ["1"], 1):
            sys.exit(f"posix.sh: FAILED: does not notice a test that ends by `{fault}`")
    stand_in.write_text('#!/bin/sh\nshift 4\nexec "$@"\n')
    if runner.test("test", ["1"], 1) != []:
        sys.exit("posix.sh: FAILED: a sound test fails")


def main():
    task, folder = sys.argv[1], Path(sys.argv[2]).resolve()
    if task == "planted":
        planted(folder)
    elif task == "compile":
        sources = Sources(folder, sys.argv[3])
        sources.glibc()
        sources.suite()
        print(f"{sources.failed} sources do not compile by themselves")
    elif not run(folder, int(sys.argv[3])):
        sys.exit(1)


if __name__ == "__main__":
    main()
