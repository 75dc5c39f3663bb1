//! Users and groups are the process's: a change of them reaches every kernel thread, wherever it is
//! made.

use crate::crowd::Crowd;
use crate::support::{Kind, child_succeeds, is_child, say};
use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::*};
use std::time::{Duration, Instant};
use umcg::Runtime;

/// An unprivileged user.
const USER: u32 = 23459;
const GROUPS: [u32; 2] = [4242, 4343];

/// The lines that show the credentials of each kernel thread, each once. The C library has no part
/// in those of kernel threads that the kernel makes for io_uring.
fn sets() -> BTreeSet<String> {
    let mut sets = BTreeSet::new();
    for task in std::fs::read_dir("/proc/self/task")
        .unwrap()
        .filter_map(Result::ok)
    {
        let Ok(status) = std::fs::read_to_string(task.path().join("status")) else {
            continue;
        };
        let is_one = |line: &&str| {
            ["Uid:", "Gid:", "Groups:"]
                .iter()
                .any(|key| line.starts_with(key))
        };
        if !status.starts_with("Name:\tiou-") {
            sets.insert(status.lines().filter(is_one).collect::<Vec<_>>().join("; "));
        }
    }
    sets
}

fn succeeds(what: &str, result: i32) {
    assert_eq!(result, 0, "{what}: {}", std::io::Error::last_os_error());
}

fn am_root() -> bool {
    // SAFETY: no precondition.
    unsafe { libc::geteuid() == 0 }
}

/// Makes every sort of change, the last of which cannot be undone.
fn change() {
    // SAFETY: no precondition.
    let user = unsafe { libc::getuid() };
    if !am_root() {
        // SAFETY: no precondition; sets the present value again.
        return succeeds("setuid", unsafe { libc::setuid(user) });
    }
    // SAFETY: the list has that many.
    succeeds("setgroups", unsafe {
        libc::setgroups(GROUPS.len(), GROUPS.as_ptr())
    });
    // SAFETY: no precondition.
    succeeds("setegid", unsafe { libc::setegid(77) });
    // SAFETY: no precondition.
    succeeds("setresgid", unsafe { libc::setresgid(71, 72, 73) });
    // SAFETY: no precondition; for a while.
    succeeds("seteuid", unsafe { libc::seteuid(USER) });
    one_set(&format!(
        "Uid:\t0\t{USER}\t0\t{USER}; Gid:\t71\t72\t73\t72; Groups:\t4242 4343"
    ));
    // SAFETY: no precondition; back.
    succeeds("seteuid", unsafe { libc::seteuid(0) });
    // SAFETY: no precondition; the two values are exchanged.
    succeeds("setreuid", unsafe { libc::setreuid(USER, 0) });
    // SAFETY: no precondition.
    succeeds("setreuid", unsafe { libc::setreuid(0, USER) });
    // SAFETY: no precondition.
    succeeds("seteuid", unsafe { libc::seteuid(0) });
    // SAFETY: no precondition.
    succeeds("setgid", unsafe { libc::setgid(USER) });
    // SAFETY: no precondition.
    succeeds("setuid", unsafe { libc::setuid(USER) });
    changed();
    // SAFETY: no precondition; a change that is not permitted is not permitted to any thread.
    assert_eq!(unsafe { libc::setuid(0) }, -1);
    assert_eq!(
        std::io::Error::last_os_error().raw_os_error(),
        Some(libc::EPERM)
    );
    changed();
}

/// All have this one; a kernel thread that is about to end may keep another one until it has.
#[track_caller]
fn one_set(expected: &str) {
    let start = Instant::now();
    loop {
        let sets = sets();
        if sets.len() == 1 && sets.first().unwrap().trim_end() == expected {
            return;
        }
        assert!(
            start.elapsed() < Duration::from_secs(100),
            "{sets:#?}, not {expected}"
        );
        std::thread::sleep(Duration::from_millis(1));
    }
}

#[track_caller]
fn changed() {
    one_set(&format!(
        "Uid:\t{USER}\t{USER}\t{USER}\t{USER}; Gid:\t{USER}\t{USER}\t{USER}\t{USER}; Groups:\t4242 \
         4343"
    ));
}

/// Lets `make` call [`change`] somewhere in the crowd, in a process of its own.
fn everywhere(test: &str, make: impl FnOnce(&mut Crowd)) {
    if !is_child(test) {
        if !am_root() {
            say(&format!(
                "{test}: without privileges, so only that it returns"
            ));
        }
        return child_succeeds(test);
    }
    // SAFETY: no precondition; ends the process.
    unsafe { libc::alarm(60) };
    let was_root = am_root();
    let mut crowd = Crowd::gather();
    make(&mut crowd);
    if was_root {
        changed();
        crowd.in_thread_worker(changed);
        crowd
            .runtime
            .spawn(|| umcg::blocking(changed))
            .join()
            .unwrap();
    }
    drop(crowd);
}

#[test]
fn changed_by_a_plain_thread() {
    everywhere("credentials::changed_by_a_plain_thread", |_| change());
}

#[test]
fn changed_by_a_full_worker() {
    everywhere("credentials::changed_by_a_full_worker", |crowd| {
        crowd.runtime.spawn(change).join().unwrap()
    });
}

#[test]
fn changed_by_a_full_worker_that_blocks() {
    everywhere(
        "credentials::changed_by_a_full_worker_that_blocks",
        |crowd| {
            crowd
                .runtime
                .spawn(|| umcg::blocking(change))
                .join()
                .unwrap();
        },
    );
}

#[test]
fn changed_by_a_light_worker() {
    everywhere("credentials::changed_by_a_light_worker", |crowd| {
        Kind::Light.spawn_on(&crowd.runtime, change).join().unwrap();
    });
}

#[test]
fn changed_by_a_light_worker_that_blocks() {
    everywhere(
        "credentials::changed_by_a_light_worker_that_blocks",
        |crowd| {
            Kind::Light
                .spawn_on(&crowd.runtime, || umcg::blocking(change))
                .join()
                .unwrap();
        },
    );
}

#[test]
fn changed_by_a_thread_worker() {
    everywhere("credentials::changed_by_a_thread_worker", |crowd| {
        crowd.in_thread_worker(|| {
            change();
            if am_root() {
                umcg::blocking(changed);
            }
        });
    });
}

#[test]
fn changed_by_a_thread_worker_that_blocks() {
    everywhere(
        "credentials::changed_by_a_thread_worker_that_blocks",
        |crowd| {
            crowd.in_thread_worker(|| umcg::blocking(change));
        },
    );
}

/// Changes to the present values, in many places at once, while workers come and go between home,
/// servers and helpers, and are preempted.
#[test]
fn changed_again_and_again() {
    const TIMES: usize = 30;
    let test = "credentials::changed_again_and_again";
    if !is_child(test) {
        return child_succeeds(test);
    }
    // SAFETY: no precondition; ends the process.
    unsafe { libc::alarm(100) };
    let change = || {
        for _ in 0..TIMES {
            // SAFETY: no precondition.
            let user = unsafe { libc::getuid() };
            // SAFETY: no precondition; sets the present value again.
            succeeds("setuid", unsafe { libc::setuid(user) });
        }
    };
    let mut crowd = Crowd::gather();
    let preempted = Runtime::builder()
        .servers(2)
        .preemption(Some(Duration::from_millis(1)))
        .build()
        .unwrap();
    let over = Arc::new(AtomicBool::new(false));
    let mut movers = Vec::new();
    for runtime in [&crowd.runtime, &preempted, &preempted, &preempted] {
        let over = over.clone();
        movers.push(runtime.spawn(move || {
            while !over.load(Relaxed) {
                umcg::blocking(std::thread::yield_now);
                umcg::yield_now();
                (0..10_000).for_each(|_| std::hint::spin_loop());
            }
        }));
    }
    let changers = [
        crowd.runtime.spawn(change),
        preempted.spawn(change),
        preempted.spawn(move || umcg::blocking(change)),
        // SAFETY: it has no reference to thread-local storage, and nothing that is bound to a
        // thread.
        unsafe { crowd.runtime.spawn_light(change) },
    ];
    let plain = std::thread::spawn(change);
    crowd.in_thread_worker(move || {
        for _ in 0..10 {
            change();
            umcg::blocking(change);
            umcg::wait().unwrap();
        }
    });
    changers
        .into_iter()
        .for_each(|changer| changer.join().unwrap());
    plain.join().unwrap();
    over.store(true, Relaxed);
    movers.into_iter().for_each(|mover| mover.join().unwrap());
    assert_eq!(sets().len(), 1);
    drop(crowd);
}
