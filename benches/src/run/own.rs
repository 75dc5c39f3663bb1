//! The programs of our own, in `programs/`: small, unmodified, and in the languages that their
//! users write threads in.

use super::client::Protocol;
use super::compile::{Language, Source};
use super::entry::{Ask, Entry, File, Measure};

macro_rules! source {
    ($name:ident, $file:literal, $language:ident $(, $option:literal)*) => {
        static $name: Source = Source {
            name: $file,
            text: include_str!(concat!("programs/", $file)),
            language: Language::$language,
            options: &[$($option),*],
        };
    };
}

source!(FUTEX, "futex.c", C);
source!(CONDVAR, "condvar.c", C);
source!(SEM_T, "sem_t.c", C);
source!(BARRIER, "barrier.c", C);
source!(MUTEX, "mutex.c", C);
source!(INTERPRETER_LOCK, "interpreter_lock.c", C);
source!(SHARES, "shares.c", C);
source!(CREATE_JOIN, "create_join.c", C);
source!(ECHO, "echo.c", C);
source!(PIPELINE, "pipeline.c", C);
source!(MAPPED_FILE, "mapped_file.c", C);
source!(LIBGOMP, "libgomp.c", C, "-fopenmp");
source!(OPENBLAS, "openblas.c", C, "-fopenmp", "-lopenblas");
source!(TASKS, "tasks.c", C);
source!(TWO_PROCESSES, "two_processes.c", C);
source!(CPP_THREADS, "cpp_threads.cpp", Cpp);
source!(RUST_THREADS, "rust_threads.rs", Rust);
source!(PYTHON_QUEUE, "python_queue.py", Python);
source!(SINGLE, "single.c", C);
source!(START_THREADS, "start_threads.c", C);

/// GNU's OpenMP waits in the kernel at once, on both sides: its default is to spin, which is no use
/// with more threads than CPUs.
const NO_SPINNING: &[(&str, &str)] = &[("GOMP_SPINCOUNT", "0")];

const fn timed(
    program: &'static str,
    source: &'static Source,
    arguments: fn(&Ask<'_>) -> Vec<String>,
) -> Entry {
    Entry {
        program,
        file: File::Own(source),
        arguments,
        variables: &[],
        needs: |_| Vec::new(),
        measure: Measure::Timed,
    }
}

const fn openmp(
    program: &'static str,
    source: &'static Source,
    arguments: fn(&Ask<'_>) -> Vec<String>,
) -> Entry {
    Entry {
        variables: NO_SPINNING,
        ..timed(program, source, arguments)
    }
}

pub(super) static ENTRIES: &[Entry] = &[
    timed("futex", &FUTEX, |ask| ask.timed(&[])),
    timed("condvar", &CONDVAR, |ask| ask.timed(&[])),
    timed("sem_t", &SEM_T, |ask| ask.timed(&[])),
    timed("barrier", &BARRIER, |ask| ask.timed(&[ask.pick("64", "8")])),
    timed("mutex", &MUTEX, |ask| ask.timed(&["4"])),
    timed("mutex-yield", &MUTEX, |ask| ask.timed(&["4", "yield"])),
    timed("interpreter-lock", &INTERPRETER_LOCK, |ask| {
        ask.timed_longer(4, &["6"])
    }),
    timed("pair-beside-computing", &SHARES, |ask| {
        ask.timed(&["pair", "others"])
    }),
    timed("computing-beside-pair", &SHARES, |ask| {
        ask.timed(&["pair", "computing"])
    }),
    timed("yields-beside-computing", &SHARES, |ask| {
        ask.timed(&["yields", "others"])
    }),
    timed("computing-beside-yields", &SHARES, |ask| {
        ask.timed(&["yields", "computing"])
    }),
    timed("bursts-beside-computing", &SHARES, |ask| {
        ask.timed_longer(4, &["bursts", "others"])
    }),
    timed("computing-beside-bursts", &SHARES, |ask| {
        ask.timed_longer(4, &["bursts", "computing"])
    }),
    timed("create-join", &CREATE_JOIN, |ask| ask.timed(&[])),
    Entry {
        measure: Measure::Served {
            protocol: Protocol::Echo,
            connections: [&[1, 16, 64, 1000], &[1, 20]],
        },
        ..timed("echo", &ECHO, |ask| vec![ask.port.to_string()])
    },
    timed("pipeline", &PIPELINE, |ask| ask.timed(&[])),
    timed("mapped-file", &MAPPED_FILE, |ask| ask.timed(&[])),
    openmp("libgomp", &LIBGOMP, |ask| ask.timed(&["16"])),
    openmp("libgomp-nested", &LIBGOMP, |ask| ask.timed(&["4", "4"])),
    openmp("openblas-nested", &OPENBLAS, |ask| {
        ask.timed(&[ask.pick("96", "64")])
    }),
    timed("tasks", &TASKS, |ask| ask.timed(&[ask.pick("16", "4")])),
    timed("two-processes", &TWO_PROCESSES, |ask| {
        ask.timed(&[ask.pick("16", "4")])
    }),
    timed("cpp-threads", &CPP_THREADS, |ask| ask.timed(&[])),
    timed("rust-threads", &RUST_THREADS, |ask| ask.timed(&[])),
    timed("python-queue", &PYTHON_QUEUE, |ask| ask.timed(&[])),
    Entry {
        measure: Measure::Whole,
        ..timed("single", &SINGLE, |ask| {
            vec![ask.pick("100", "1").to_owned()]
        })
    },
    Entry {
        measure: Measure::Whole,
        ..timed("start-threads", &START_THREADS, |_| Vec::new())
    },
];
