//! Each system call, refused in each way: nothing hangs, no thread computes for nothing, and each
//! failure gives its reason.

use crate::child::{Ran, run};
use crate::filter::{refuse, refuse_for_a_moment, refuse_if, shared};
use crate::table::{Ends, Row, TESTED};
use crate::workload::{World, may_change_credentials, say};
use std::collections::BTreeSet;
use std::panic::catch_unwind;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicUsize, Ordering::Relaxed};

const ERRORS: [i32; 4] = [libc::EPERM, libc::ENOSYS, libc::EACCES, libc::EAGAIN];
/// Cases at once: they wait more than they compute.
const AT_ONCE: usize = 8;

pub(crate) fn scenario(arguments: &[String]) {
    let [when, calls, errno] = arguments else {
        panic!("when, which calls, which error")
    };
    let calls: Vec<i64> = calls.split('+').map(|call| call.parse().unwrap()).collect();
    let errno = errno.parse().unwrap();
    match when.as_str() {
        "start" => refuse(&calls, errno),
        "made" => return made(&calls, errno),
        _ => {}
    }
    let row = TESTED
        .iter()
        .find(|row| Some(&row.number) == calls.last())
        .unwrap();
    // Without its tid a thread panics, the caller's among them.
    match catch_unwind(World::new).unwrap_or_else(|_| Err("a panic".into())) {
        Err(error) => say(&format!("@ runtime: error {error}")),
        Ok(world) => {
            world.run();
            if !row.keeps_credentials {
                world.change_credentials();
            }
            // Before: it may be the last that it says.
            say("@ refused: fine");
            match when.as_str() {
                "later" => refuse(&calls, errno),
                "moment" => refuse_for_a_moment(&calls, errno, 2),
                _ => {
                    world.idle();
                    return;
                }
            }
            world.run();
            if !row.keeps_credentials {
                world.change_credentials();
            }
            world.idle();
        }
    }
}

/// Says which of the calls are made, before these are refused and afterwards.
fn made(refused: &[i64], errno: i32) {
    let made: &[AtomicU32; 512] = shared();
    let is_refused: &AtomicBool = shared();
    let numbers: Vec<_> = TESTED
        .iter()
        .map(|row| row.number)
        .chain(refused.iter().copied())
        .collect();
    refuse_if(&numbers, errno, |call, _| {
        made[call as usize].fetch_add(1, Relaxed);
        is_refused.load(Relaxed) && refused.contains(&call)
    });
    let world = World::new().unwrap();
    world.run();
    world.change_credentials();
    is_refused.store(true, Relaxed);
    world.run();
    drop(world);
    for row in TESTED {
        say(&format!(
            "# {}: {} times",
            row.name,
            made[row.number as usize].load(Relaxed)
        ));
    }
}

/// As an argument of a scenario.
fn list<'a>(calls: impl Iterator<Item = &'a i64>) -> String {
    calls.map(i64::to_string).collect::<Vec<_>>().join("+")
}

struct Case {
    row: &'static Row,
    when: &'static str,
    errno: i32,
}

impl Case {
    /// The fault, if there is one.
    fn run(&self) -> Option<String> {
        let calls = list(self.row.instead_of.iter().chain([&self.row.number]));
        let ran = run(&format!("matrix {} {calls} {}", self.when, self.errno));
        let complaint = self.judge(&ran)?;
        Some(format!(
            "{}, refused {} with error {}: {complaint}\n{}",
            self.row.name, self.when, self.errno, ran.output
        ))
    }

    fn judge(&self, ran: &Ran) -> Option<String> {
        let Some(status) = ran.status else {
            return Some("hangs".into());
        };
        let is_allowed_to_end =
            self.row.ends == Ends::Always || self.row.ends == Ends::Later && self.when != "start";
        // Where nothing can be written it says nothing.
        let ends_itself = ran.has_aborted()
            || ran.was_ended_by_std()
            || self.row.name == "writev" && ran.is_aborted();
        if !(status.success() || is_allowed_to_end && ends_itself) {
            return Some(format!("ends: {status}"));
        }
        let failed: Vec<_> = ran.failed().collect();
        if self.when != "start" && !ran.output.contains("@ refused") {
            return Some("failed before anything was refused".into());
        }
        let unexpected = failed.iter().find(|part| !self.row.fails.contains(part));
        unexpected.map(|part| format!("{part} fails"))
    }
}

#[test]
fn whatever_is_refused_nothing_hangs_or_spins_and_what_fails_says_why() {
    try_all(&ERRORS[..1], &["moment"]);
}

#[test]
#[ignore = "most of the cases, for ci/fallbacks.sh"]
fn the_same_by_any_error() {
    try_all(&ERRORS[1..], &[]);
}

/// Each call refused for good, with each of these errors; and with EAGAIN at these times.
fn try_all(errors: &[i32], times: &[&'static str]) {
    let cases: Vec<_> = TESTED
        .iter()
        .flat_map(|row| {
            let for_good = ["start", "later"]
                .into_iter()
                .flat_map(|when| errors.iter().map(move |errno| (when, *errno)));
            let all = for_good.chain(times.iter().map(|when| (*when, libc::EAGAIN)));
            let cases = all.map(move |(when, errno)| Case { row, when, errno });
            let waits_only = |case: &Case| case.row.waits && case.errno == libc::EAGAIN;
            cases.filter(move |case| {
                !(waits_only(case) || row.is_for_all_threads && case.when == "moment")
            })
        })
        .collect();
    let next = AtomicUsize::new(0);
    let work = || {
        std::iter::from_fn(|| cases.get(next.fetch_add(1, Relaxed)))
            .filter_map(Case::run)
            .collect::<Vec<_>>()
    };
    let wrong: Vec<_> = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..AT_ONCE).map(|_| scope.spawn(work)).collect();
        threads
            .into_iter()
            .flat_map(|thread| thread.join().unwrap())
            .collect()
    });
    assert!(
        wrong.is_empty(),
        "{} of {} cases:\n{}",
        wrong.len(),
        cases.len(),
        wrong.join("\n")
    );
}

/// A row whose call is never made says nothing.
#[test]
fn each_call_of_the_table_is_made() {
    if !crate::filter::are_possible() {
        return;
    }
    // None refused at all, or only calls that others replace.
    let others: BTreeSet<&[i64]> = TESTED.iter().map(|row| row.instead_of).collect();
    let mut made = BTreeSet::new();
    for refused in others {
        let refused: &[i64] = if refused.is_empty() { &[-1] } else { refused };
        let ran = run(&format!(
            "matrix made {} {}",
            list(refused.iter()),
            libc::ENOSYS
        ));
        let calls = ran.output.lines().filter_map(|line| {
            line.split_once("# ")?
                .1
                .strip_suffix(" times")?
                .split_once(": ")
        });
        made.extend(
            calls
                .filter(|(_, times)| *times != "0")
                .map(|(call, _)| call.to_owned()),
        );
        assert!(ran.is_ok(), "{ran:#?}");
    }
    let needs_privileges = ["setgroups", "setresgid", "setresuid"];
    let has_privileges = may_change_credentials();
    let needs_a_ring = ["io_uring_enter", "io_uring_register"];
    let has_a_ring = umcg::Runtime::builder()
        .servers(1)
        .driver(umcg::io::DriverKind::IoUring)
        .build()
        .is_ok();
    for row in TESTED.iter().filter(|row| !made.contains(row.name)) {
        let is_possible = (has_privileges || !needs_privileges.contains(&row.name))
            && (has_a_ring || !needs_a_ring.contains(&row.name));
        assert!(!is_possible, "{} is never made", row.name);
        eprintln!("SKIPPED: {}, which cannot be made here", row.name);
    }
}
