//! Each system call, refused in each way: nothing hangs, nobody computes for nothing, and what fails says why.

use crate::child::{Ran, run};
use crate::filter::{refuse, refuse_for_a_moment};
use crate::table::{Row, TESTED};
use crate::workload::{World, say};
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

const ERRORS: [i32; 4] = [libc::EPERM, libc::ENOSYS, libc::EACCES, libc::EAGAIN];
/// Cases at once: they wait more than they compute.
const AT_ONCE: usize = 8;

pub(crate) fn scenario(arguments: &[String]) {
    let [when, call, errno] = arguments else { panic!("when, which call, which error") };
    let (call, errno) = (call.parse().unwrap(), errno.parse().unwrap());
    if when == "start" {
        refuse(&[call], errno);
    }
    match World::new() {
        Err(error) => say(&format!("@ runtime: error {error}")),
        Ok(world) => {
            world.run();
            // Before: it may be the last that it says.
            say("@ refused: fine");
            match when.as_str() {
                "later" => refuse(&[call], errno),
                "moment" => refuse_for_a_moment(&[call], errno, 2),
                _ => {
                    world.idle();
                    return;
                }
            }
            world.run();
            world.idle();
        }
    }
}

struct Case {
    row: &'static Row,
    when: &'static str,
    errno: i32,
}

impl Case {
    /// What is wrong, if anything is.
    fn run(&self) -> Option<String> {
        let ran = run(&format!("matrix {} {} {}", self.when, self.row.number, self.errno));
        let complaint = self.judge(&ran)?;
        Some(format!("{}, refused {} with error {}: {complaint}\n{}", self.row.name, self.when, self.errno, ran.output))
    }

    fn judge(&self, ran: &Ran) -> Option<String> {
        let Some(status) = ran.status else { return Some("hangs".into()) };
        let is_allowed_to_end = self.row.ends && self.when != "start";
        if !status.success() && !(is_allowed_to_end && (ran.has_aborted() || ran.is_out_of_memory())) {
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
    let cases: Vec<_> = TESTED
        .iter()
        .flat_map(|row| {
            let for_good = ["start", "later"].into_iter().flat_map(|when| ERRORS.map(|errno| (when, errno)));
            let all = for_good.chain([("moment", libc::EAGAIN)]);
            all.map(move |(when, errno)| Case { row, when, errno }).filter(|case| !(case.row.waits && case.errno == libc::EAGAIN))
        })
        .collect();
    let next = AtomicUsize::new(0);
    let work = || std::iter::from_fn(|| cases.get(next.fetch_add(1, Relaxed))).filter_map(Case::run).collect::<Vec<_>>();
    let wrong: Vec<_> = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..AT_ONCE).map(|_| scope.spawn(work)).collect();
        threads.into_iter().flat_map(|thread| thread.join().unwrap()).collect()
    });
    assert!(wrong.is_empty(), "{} of {} cases:\n{}", wrong.len(), cases.len(), wrong.join("\n"));
}
