//! Children by `fork` of a process of its own, while other threads arm timers and make mutexes.

use crate::support::forks::{fork, in_plain_thread};
use crate::support::{HOUR, child_succeeds, is_child};
use crate::{LATE, TAKEN, poll};
use std::sync::atomic::{AtomicBool, Ordering::*};
use std::time::{Duration, Instant};
use umcg::nt::{Mutex, Timer, Wait};

/// Stops the others, also when a check fails.
struct Stop<'a>(&'a AtomicBool);

impl Drop for Stop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Relaxed);
    }
}

const SHORT: Duration = Duration::from_millis(1);

/// The child's own timers are set, though it has none of the parent's threads, and mutexes have
/// owners.
#[test]
fn timers_and_owners_of_a_child() {
    const TEST: &str = "forked::timers_and_owners_of_a_child";
    if !is_child(TEST) {
        return child_succeeds(TEST);
    }
    // State that a thread gets with its first wait, under a lock that another one may have had.
    assert_eq!(
        Wait::any(&[Timer::new(false).as_handle()]).wait_timeout(SHORT),
        LATE
    );
    let stop = AtomicBool::new(false);
    let inherited = Timer::new(false);
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                let timer = Timer::new(false);
                while !stop.load(Relaxed) {
                    timer
                        .set(
                            Instant::now() + Duration::from_micros(5),
                            Some(Duration::from_micros(5)),
                        )
                        .unwrap();
                    // A number for each of many owners.
                    in_plain_thread(|| drop(Mutex::new(true)));
                }
            });
        }
        let _stop = Stop(&stop);
        for _ in 0..60 {
            inherited.set(Instant::now() + HOUR, None).unwrap();
            let child = fork(|| {
                // SAFETY: it says when SIGALRM ends a child that waits for ever.
                unsafe { libc::alarm(100) };
                assert!(inherited.due().is_none() && !inherited.cancel());
                let own = Timer::new(false);
                assert!(!own.set(Instant::now() + SHORT, Some(SHORT)).unwrap());
                assert_eq!(
                    (0..3)
                        .map(|_| Wait::any(&[own.as_handle()]).wait())
                        .collect::<Vec<_>>(),
                    [TAKEN; 3]
                );
                assert!(!inherited.set(Instant::now() + SHORT, None).unwrap());
                assert_eq!(Wait::any(&[inherited.as_handle()]).wait(), TAKEN);
                let mutex = Mutex::new(true);
                i32::from(mutex.unlock() != Ok(1))
            });
            child.ends_well();
            assert!(inherited.due().is_some(), "the parent's own");
            assert_eq!(poll(inherited.as_handle()), LATE);
        }
    });
}
