//! Unmodified programs under `umcg run`: each ends, and prints, as it does natively.
//!
//! `programs/` holds ordinary programs in C, C++, Rust, Python and shell. Each checks itself,
//! prints the same in every run, and takes less than half a second natively. The runner compiles
//! each of them once, runs it natively and with one, two and four servers, and compares standard
//! output and the way in which it ended. A run that takes too long is ended together with all
//! processes that it started, and the state of their threads is part of the failure.
//!
//! | variable | meaning |
//! |---|---|
//! | `UMCG_RUN_PROGRAMS` | parts of names, separated by commas: only programs with one of them |
//! | `UMCG_RUN_ROUNDS` | how many times each program runs in each way; 1 where not given |
//! | `UMCG_RUN_SERVERS` | numbers of servers, separated by commas; `1,2,4` where not given |
//! | `UMCG_RUN_OPTIONS` | more options for `umcg run`, separated by spaces |
//! | `UMCG_RUN_JOBS` | how many programs run at a time; the number of CPUs where not given |
//! | `UMCG_RUN_LIMIT` | seconds that a run may take; 20 where not given |
//! | `UMCG_RUN_REFUSED` | `all`, `each`, or names: the programs run without optional system calls (`refuse.rs`) |
//! | `UMCG_RUN_NATIVE` | run each program natively only: shows that the programs are sound |
//! | `UMCG_RUN_GDB` | the state of a hung process has its backtraces, from gdb |
//!
//! `seeing.rs` looks inside programs of `seeing/` from outside, and `adapting.rs` confines one of
//! them to fewer processors. `frames.rs` looks at the library that is loaded.
//!
//! Invariants:
//!
//! - A program that is not right natively is a failure of its own, never a reason to skip; but for
//!   one that needs a system call which is refused to it.
//! - Nothing of a run is alive after it: a process that is left behind is a failure.
//!
//! Rejected: output through pipes. A process that is left behind would hold them open, and reading
//! them would hang. Output goes to files.

mod adapting;
mod compare;
mod compile;
mod corpus;
mod frames;
mod group;
mod preempt;
mod process;
mod processors;
mod program;
mod refuse;
mod seeing;
mod settings;

use compare::{Compared, Way};
use processors::Processors;
use refuse::Refusal;
use settings::Settings;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::Duration;

/// Where sources are.
fn sources(folder: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests/run")
        .join(folder)
}

/// Where compiled programs and the output of runs go.
fn scratch(folder: &str) -> PathBuf {
    let path = Path::new(env!("CARGO_TARGET_TMPDIR"))
        .join("run")
        .join(folder);
    std::fs::create_dir_all(&path).unwrap();
    path
}

#[test]
#[ignore = "ci/run.sh runs it, with the release build"]
fn programs_run_as_they_do_natively() {
    let settings = Settings::from_environment();
    let ways = match settings.ways() {
        Ok(ways) => ways,
        Err(reason) => {
            println!("SKIPPED: {reason}");
            return;
        }
    };
    let folder = scratch("programs");
    let programs = program::all(&sources("programs"), |name| settings.chooses(name));
    assert!(!programs.is_empty(), "no program has such a name");
    let (programs, skipped) = compile::all(programs, &folder, settings.jobs);
    for reason in skipped {
        println!("SKIPPED: {reason}");
    }
    let passes = corpus::passes(ways);
    let failures: Vec<String> = passes
        .iter()
        .flat_map(|pass| pass.run(&programs, &folder, &settings))
        .collect();
    assert!(failures.is_empty(), "failed: {}", failures.join("; "));
}

/// Otherwise all comparisons would be of native runs.
#[test]
#[ignore = "ci/run.sh runs it, with the release build"]
fn threads_are_switched_in_user_mode() {
    let settings = Settings::from_environment();
    let under = match settings.ways() {
        Ok(mut ways) if ways.len() > 1 => ways.remove(1),
        Ok(_) => return,
        Err(reason) => {
            println!("SKIPPED: {reason}");
            return;
        }
    };
    let folder = scratch("probes");
    let (programs, skipped) = compile::all(program::all(&sources("probes"), |_| true), &folder, 1);
    if !skipped.is_empty() {
        println!("SKIPPED: {}", skipped.join(", "));
    }
    for probe in &programs {
        let count = |way: &Way| {
            let outcome = process::run(
                &way.command(probe),
                &[],
                None,
                &folder.join("probe"),
                settings.limit,
            );
            assert!(outcome.end.is_ok(), "{:?}", outcome.end);
            let text = String::from_utf8(outcome.output).unwrap();
            text.trim().parse::<u32>().expect("a number")
        };
        let both = || {
            // On one processor: on two, a thread may find its word set before it sleeps.
            Processors::allowed().first().give(0).unwrap();
            // Other processes' load adds to some runs.
            let least = (0..3).map(|_| count(&under)).min().unwrap();
            (count(&Way::native()), least)
        };
        let (native, user_mode) = thread::scope(|scope| scope.spawn(both).join().unwrap());
        println!(
            "{}: {native} switches natively, {user_mode} under `umcg run`",
            probe.name
        );
        assert!(native >= 800 && user_mode < 400);
    }
}

/// A comparison that cannot fail is worse than none.
#[test]
fn planted_faults_are_noticed() {
    let mut settings = Settings::from_environment();
    settings.limit = Duration::from_secs(2);
    let folder = scratch("planted");
    let programs = program::all(&sources("planted"), |_| true);
    let (programs, skipped) = compile::all(programs, &folder, 1);
    let [planted] = programs.as_slice() else {
        println!("SKIPPED: {}", skipped.join(", "));
        return;
    };
    let run = |fault: &str| {
        let ways = [Way::native(), Way::planted(fault)];
        compare::program(planted, &ways, &folder, &settings)
    };
    let sound = run("none");
    assert!(sound.is_ok(), "{}", sound.unwrap_err());
    for (fault, named) in [
        ("differs", "standard output differs in line 2"),
        ("shorter", "standard output differs in line 2"),
        ("exits", "ended with status 9"),
        ("crashes", "ended by SIGSEGV"),
        ("hangs", "took more than 2 s"),
        ("spins", "took more than 2 s"),
        ("leaves", "left behind"),
    ] {
        let failure = run(fault).expect_err(fault);
        assert!(failure.contains(named), "{fault}: {failure}");
        if named.contains("took more") {
            // The state of each thread, of the process and of its child.
            assert!(failure.matches("thread ").count() >= 3, "{failure}");
            assert!(failure.contains("the first line"), "{failure}");
        }
    }
    let both = [Way::planted("exits"), Way::planted("exits")];
    let failure = compare::program(planted, &both, &folder, &settings)
        .expect_err("a program that fails in the same way each time");
    assert!(failure.contains("ended with status 9"), "{failure}");
}

/// A filter that refuses nothing would find nothing.
#[test]
fn refused_calls_are_refused() {
    let settings = Settings::from_environment();
    let folder = scratch("refused");
    let programs = program::all(&sources("planted"), |_| true);
    let (programs, skipped) = compile::all(programs, &folder, 1);
    let [planted] = programs.as_slice() else {
        println!("SKIPPED: {}", skipped.join(", "));
        return;
    };
    let way = |fault: &str, word: &str| {
        let refusals = refuse::named(word);
        assert_eq!(refusals.len(), 1, "{word}");
        Way::planted(fault).without(&refusals[0])
    };
    if let Err(error) = refuse::named("all")[0].is_possible() {
        println!("SKIPPED: no filter can be installed: {error}");
        return;
    }
    let run = |ways: &[Way]| compare::program(planted, ways, &folder, &settings);
    let [missing, forbidden] =
        ["membarrier:ENOSYS", "membarrier:EPERM"].map(|word| way("asks", word));
    let differs = run(&[missing.clone(), forbidden]).expect_err("another error");
    for line in ["natively: membarrier: 38", "here:     membarrier: 1"] {
        assert!(differs.contains(line), "{differs}");
    }
    let same = run(&[missing, way("asks", "all")]);
    assert!(matches!(&same, Ok(Compared::Same(_))), "{same:?}");
    let fails = run(&[way("exits", "all")]);
    assert!(
        matches!(&fails, Ok(Compared::Skipped(line)) if line.contains("status 9")),
        "{fails:?}"
    );
}

/// The probes run natively under the filter, after a line with the reason. False if there can be no
/// filter here.
fn run_natively(refused: &Refusal, reason: &str, folder: &Path) -> bool {
    if let Err(error) = refused.is_possible() {
        println!("SKIPPED: no filter can be installed: {error}");
        return false;
    }
    all_run_natively(&[], Some(refused), reason, folder)
}

/// The same, if a command begins the program.
fn all_run_natively(
    before: &[&str],
    refused: Option<&Refusal>,
    reason: &str,
    folder: &Path,
) -> bool {
    let settings = Settings::from_environment();
    let Ok(ways) = settings.ways() else {
        return false;
    };
    let (programs, _) = compile::all(program::all(&sources("probes"), |_| true), folder, 1);
    for (probe, way) in programs.iter().zip(ways.iter().skip(1).cycle()) {
        let files = folder.join("probe");
        let mut command: Vec<OsString> = before.iter().map(OsString::from).collect();
        command.extend(way.command(probe));
        let outcome = process::run(&command, &[], refused, &files, settings.limit);
        assert_eq!(outcome.end, Ok(probe.ends), "{}", probe.name);
        let errors = String::from_utf8(outcome.errors).unwrap();
        let line = format!("umcg: run: {reason}; the program runs natively\n");
        assert_eq!(errors, line, "{}", probe.name);
    }
    true
}

#[test]
#[ignore = "ci/run.sh runs it, with the release build"]
fn programs_under_narrow_limits_of_memory_run_natively() {
    const REASON: &str = "there is not enough memory";
    for (limit, name) in [("-v 200000", "addresses"), ("-d 50000", "data")] {
        let script = format!("ulimit {limit} && exec \"$@\"");
        all_run_natively(&["sh", "-c", &script, "sh"], None, REASON, &scratch(name));
    }
}

#[test]
#[ignore = "ci/run.sh runs it, with the release build"]
fn programs_that_may_not_block_signals_run_natively() {
    const REASON: &str = "it may not change which signals are blocked";
    let calls = [libc::SYS_rt_sigprocmask];
    let refused = Refusal::new("rt_sigprocmask".to_owned(), &calls, libc::EPERM);
    run_natively(&refused, REASON, &scratch("unblockable"));
}

#[test]
#[ignore = "ci/run.sh runs it, with the release build"]
fn programs_whose_code_may_not_be_changed_run_natively() {
    const REASON: &str = "the system lets no code be changed";
    let refused = Refusal::of_executable_memory();
    let folder = scratch("unchangeable");
    if !run_natively(&refused, REASON, &folder) {
        return;
    }
    let settings = Settings::from_environment();
    let doctor = [env!("CARGO_BIN_EXE_umcg"), "doctor", "--json"].map(OsString::from);
    let files = folder.join("doctor");
    let outcome = process::run(&doctor, &[], Some(&refused), &files, settings.limit);
    let text = String::from_utf8(outcome.output).unwrap();
    // Of `umcg run`, and of blocking that is noticed.
    assert_eq!(text.matches(REASON).count(), 2, "{text}");
}
