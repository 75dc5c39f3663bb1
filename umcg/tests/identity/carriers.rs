//! The rows of the table that say only "the carrier": a change there stays there, and other kernel
//! threads keep their values.

use crate::crowd::{on_server, with_server};
use crate::rows::{change_and_see, runtime, status};
use crate::support::{Kind, child_succeeds, is_child, say};
use std::ffi::{c_int, c_ulong};
use std::mem::MaybeUninit;
use std::sync::Mutex;
use std::time::Duration;
use umcg_core::raw::threads_move;

const LONG: Duration = Duration::from_millis(20);

/// As [`change_and_see`], for changes that cannot be undone. In a process of its own.
#[track_caller]
fn change_for_good_and_see(test: &str, change: fn(), see: fn() -> String) {
    if !is_child(test) {
        return child_succeeds(test);
    }
    let body = move || {
        let (server, elsewhere) = (see(), umcg::blocking(see));
        change();
        assert_ne!(see(), server);
        assert_eq!(
            umcg::blocking(see),
            elsewhere,
            "the change is the carrier's"
        );
    };
    let runtimes = [runtime(), runtime()];
    Kind::Light.spawn_on(&runtimes[0], body).join().unwrap();
    if threads_move() {
        runtimes[1].spawn(body).join().unwrap();
        with_server(|| (), move || on_server(body));
    }
    let made_later = Kind::Light.spawn_on(&runtime(), move || [see(), umcg::blocking(see)]);
    assert_eq!(
        made_later.join().unwrap(),
        [see(), see()],
        "a server is as the thread that builds the runtime"
    );
}

fn am_root(test: &str) -> bool {
    // SAFETY: no precondition.
    let is_root = unsafe { libc::geteuid() } == 0;
    if !is_root {
        say(&format!("SKIPPED: {test}: it takes privileges"));
    }
    is_root
}

/// A call of prctl(2) that takes a number.
fn prctl(option: c_int, argument: c_ulong) -> c_int {
    // SAFETY: the options used here take numbers.
    unsafe { libc::prctl(option, argument, 0, 0, 0) }
}

fn ends_well(result: c_int) {
    assert_eq!(result, 0, "{}", std::io::Error::last_os_error());
}

#[test]
fn timer_slack() {
    static BEFORE: Mutex<c_int> = Mutex::new(0);
    let change = |other: bool| {
        let mut before = BEFORE.lock().unwrap();
        if other {
            *before = prctl(libc::PR_GET_TIMERSLACK, 0);
        }
        ends_well(prctl(
            libc::PR_SET_TIMERSLACK,
            if other { 123_456 } else { *before as c_ulong },
        ));
    };
    change_and_see(change, || prctl(libc::PR_GET_TIMERSLACK, 0).to_string());
}

/// A new helper has that of the thread that built the first runtime.
#[test]
fn a_helper_has_the_timer_slack_of_who_built_the_first_runtime() {
    let test = "carriers::a_helper_has_the_timer_slack_of_who_built_the_first_runtime";
    if !is_child(test) {
        return child_succeeds(test);
    }
    let slack = || prctl(libc::PR_GET_TIMERSLACK, 0);
    ends_well(prctl(libc::PR_SET_TIMERSLACK, 77_000));
    let first = runtime();
    ends_well(prctl(libc::PR_SET_TIMERSLACK, 88_000));
    let second = runtime();
    for (runtime, own) in [(first, 77_000), (second, 88_000)] {
        let seen = Kind::Light
            .spawn_on(&runtime, move || (slack(), umcg::blocking(slack)))
            .join()
            .unwrap();
        assert_eq!(seen, (own, 77_000));
    }
}

const OF_A_THREAD: c_int = 1;

fn io_priority() -> i64 {
    // SAFETY: no precondition.
    unsafe { libc::syscall(libc::SYS_ioprio_get, OF_A_THREAD, 0) }
}

/// With class "best effort".
fn set_io_priority(level: i64) {
    // SAFETY: no precondition.
    let result = unsafe { libc::syscall(libc::SYS_ioprio_set, OF_A_THREAD, 0, 2 << 13 | level) };
    ends_well(result as c_int);
}

#[test]
fn io_priority_is_the_carriers() {
    if io_priority() < 0 {
        return say("SKIPPED: io_priority_is_the_carriers: the kernel has none");
    }
    set_io_priority(3);
    change_and_see(
        |other| set_io_priority(if other { 6 } else { 3 }),
        || io_priority().to_string(),
    );
}

#[test]
fn a_helper_has_the_io_priority_of_the_process() {
    let test = "carriers::a_helper_has_the_io_priority_of_the_process";
    if io_priority() < 0 {
        return say(&format!("SKIPPED: {test}: the kernel has none"));
    }
    if !is_child(test) {
        return child_succeeds(test);
    }
    let main = rustix::process::getpid().as_raw_nonzero().get();
    let runtime = runtime();
    // As ionice(1) does it, after the runtime was made.
    // SAFETY: no precondition.
    ends_well(
        unsafe { libc::syscall(libc::SYS_ioprio_set, OF_A_THREAD, main, 2 << 13 | 7) } as c_int,
    );
    assert_eq!(
        Kind::Light
            .spawn_on(&runtime, || umcg::blocking(io_priority))
            .join()
            .unwrap(),
        2 << 13 | 7
    );
}

#[test]
fn a_parent_death_signal() {
    fn now() -> String {
        let mut signal: c_int = -1;
        // SAFETY: writes a number.
        ends_well(unsafe { libc::prctl(libc::PR_GET_PDEATHSIG, &raw mut signal) });
        signal.to_string()
    }
    let change = |other| {
        ends_well(prctl(
            libc::PR_SET_PDEATHSIG,
            if other { libc::SIGWINCH as c_ulong } else { 0 },
        ))
    };
    change_and_see(change, now);
}

#[test]
fn a_personality() {
    const ASK: c_ulong = 0xffff_ffff;
    // SAFETY: asks, or sets a number.
    let set = |personality| unsafe { libc::personality(personality) };
    assert!(set(ASK) >= 0);
    let change = |_| {
        // SAFETY: as above.
        let set = |personality| unsafe { libc::personality(personality) };
        set(set(ASK) as c_ulong ^ libc::ADDR_NO_RANDOMIZE as c_ulong); // there and back
    };
    let see = || {
        // SAFETY: as above.
        unsafe { libc::personality(ASK) }.to_string()
    };
    change_and_see(change, see);
}

/// Where the kernel writes when a kernel thread ends: joins of the C library wait for it.
#[test]
fn the_word_that_is_cleared_at_the_end() {
    const PR_GET_TID_ADDRESS: c_int = 40;
    fn now() -> Option<usize> {
        let mut address = 0usize;
        // SAFETY: writes an address.
        let result = unsafe { libc::prctl(PR_GET_TID_ADDRESS, &raw mut address) };
        (result == 0).then_some(address)
    }
    if now().is_none() {
        return say("SKIPPED: the_word_that_is_cleared_at_the_end: the kernel does not tell it");
    }
    let server = Kind::Light
        .spawn_on(&runtime(), || (now(), umcg::blocking(now)))
        .join()
        .unwrap();
    assert_ne!(server.0, server.1);
    if threads_move() {
        with_server(
            || (),
            || {
                let home = now();
                on_server(|| {
                    assert_ne!(now(), home);
                    assert_eq!(umcg::blocking(now), home);
                });
            },
        );
    }
}

#[test]
fn the_user_for_files() {
    const USER: libc::uid_t = 23459;
    let test = "carriers::the_user_for_files";
    if !am_root(test) {
        return;
    }
    let change = || {
        // SAFETY: no precondition.
        unsafe { libc::setfsuid(USER) };
    };
    let see = || {
        // SAFETY: changes nothing, as there is no such user.
        unsafe { libc::setfsuid(u32::MAX) }.to_string()
    };
    change_for_good_and_see(test, change, see);
}

/// Sets of capabilities, as capset(2) has them.
#[repr(C)]
#[derive(Clone, Copy, Default)]
struct Capabilities {
    effective: u32,
    permitted: u32,
    inheritable: u32,
}

#[test]
fn capabilities() {
    let test = "carriers::capabilities";
    if !am_root(test) {
        return;
    }
    let change = || {
        // Version 3, the calling thread.
        let header = [0x2008_0522u32, 0];
        let mut sets = [Capabilities::default(); 2];
        // SAFETY: a header, and room for two.
        ends_well(
            unsafe { libc::syscall(libc::SYS_capget, header.as_ptr(), sets.as_mut_ptr()) } as c_int,
        );
        sets[0].effective = 0;
        // SAFETY: as above.
        ends_well(
            unsafe { libc::syscall(libc::SYS_capset, header.as_ptr(), sets.as_ptr()) } as c_int,
        );
    };
    change_for_good_and_see(test, change, || status("CapEff:"));
}

#[test]
fn securebits() {
    const SECBIT_NOROOT: c_ulong = 1;
    let test = "carriers::securebits";
    if am_root(test) {
        let change = || ends_well(prctl(libc::PR_SET_SECUREBITS, SECBIT_NOROOT));
        change_for_good_and_see(test, change, || {
            prctl(libc::PR_GET_SECUREBITS, 0).to_string()
        });
    }
}

#[test]
fn no_new_privileges() {
    let test = "carriers::no_new_privileges";
    if prctl(libc::PR_GET_NO_NEW_PRIVS, 0) != 0 {
        return say(&format!("SKIPPED: {test}: the process has none already"));
    }
    let change = || ends_well(prctl(libc::PR_SET_NO_NEW_PRIVS, 1));
    change_for_good_and_see(test, change, || status("NoNewPrivs:"));
}

#[test]
fn filters_of_system_calls() {
    let test = "carriers::filters_of_system_calls";
    if !std::fs::read_to_string("/proc/thread-self/status")
        .unwrap()
        .contains("Seccomp_filters:")
    {
        return say(&format!("SKIPPED: {test}: the kernel does not tell them"));
    }
    let change = || {
        let all = libc::sock_filter {
            code: (libc::BPF_RET | libc::BPF_K) as u16,
            jt: 0,
            jf: 0,
            k: libc::SECCOMP_RET_ALLOW,
        };
        let mut program = [all];
        let program = libc::sock_fprog {
            len: 1,
            filter: program.as_mut_ptr(),
        };
        ends_well(prctl(libc::PR_SET_NO_NEW_PRIVS, 1));
        // SAFETY: a program, which outlives the call.
        let result = unsafe {
            libc::syscall(
                libc::SYS_seccomp,
                libc::SECCOMP_SET_MODE_FILTER,
                0,
                &raw const program,
            )
        };
        ends_well(result as c_int);
    };
    change_for_good_and_see(test, change, || status("Seccomp_filters:"));
}

#[test]
fn namespaces() {
    let test = "carriers::namespaces";
    if !am_root(test) {
        return;
    }
    let change = || {
        // SAFETY: a namespace that nothing here needs.
        if unsafe { libc::unshare(libc::CLONE_NEWUTS) } != 0 {
            say("SKIPPED: carriers::namespaces: the kernel gives none");
            std::process::exit(0);
        }
    };
    let see = || {
        std::fs::read_link("/proc/thread-self/ns/uts")
            .unwrap()
            .to_string_lossy()
            .into_owned()
    };
    change_for_good_and_see(test, change, see);
}

fn clock(clock: libc::clockid_t) -> Option<Duration> {
    let mut now = MaybeUninit::<libc::timespec>::uninit();
    // SAFETY: writes the time, or fails.
    let result = unsafe { libc::clock_gettime(clock, now.as_mut_ptr()) };
    // SAFETY: written.
    (result == 0)
        .then(|| unsafe { now.assume_init() })
        .map(|now| Duration::new(now.tv_sec as u64, now.tv_nsec as u32))
}

fn own_clock() -> Duration {
    clock(libc::CLOCK_THREAD_CPUTIME_ID).unwrap()
}

/// The clock that the C library finds by its own number of the thread.
fn clock_of_storage() -> Option<Duration> {
    let mut id = 0;
    // SAFETY: no precondition.
    let this = unsafe { libc::pthread_self() };
    // SAFETY: the calling thread, as the C library has it; writes a number.
    let result = unsafe { libc::pthread_getcpuclockid(this, &mut id) };
    if result == 0 { clock(id) } else { None }
}

fn usage() -> Duration {
    let mut usage = MaybeUninit::<libc::rusage>::uninit();
    // SAFETY: writes the value that was used.
    ends_well(unsafe { libc::getrusage(libc::RUSAGE_THREAD, usage.as_mut_ptr()) });
    // SAFETY: written.
    let usage = unsafe { usage.assume_init() };
    let sum = |time: libc::timeval| Duration::new(time.tv_sec as u64, time.tv_usec as u32 * 1000);
    sum(usage.ru_utime) + sum(usage.ru_stime)
}

/// Uses that much of a processor, by the carrier's clock.
fn compute() {
    let start = own_clock();
    while own_clock() - start < LONG {
        std::hint::spin_loop();
    }
}

#[test]
fn processor_clocks() {
    let runtime = runtime();
    let body = || {
        let before = (own_clock(), usage());
        // By another worker, on the same server.
        umcg::spawn(compute).join().unwrap();
        assert!(own_clock() - before.0 >= LONG);
        // The kernel counts that in microseconds.
        assert!(usage() - before.1 >= LONG - Duration::from_micros(2));
    };
    Kind::Light.spawn_on(&runtime, body).join().unwrap();
    if umcg::storage::available().is_ok() {
        runtime.spawn(body).join().unwrap();
        assert_eq!(
            runtime.spawn(clock_of_storage).join().unwrap(),
            None,
            "no kernel thread has the number of a block"
        );
    }
    if threads_move() {
        with_server(
            || (),
            || {
                on_server(|| {
                    let (home, by_storage) =
                        (umcg::blocking(own_clock), clock_of_storage().unwrap());
                    compute();
                    assert!(umcg::blocking(own_clock) - home < LONG);
                    assert!(clock_of_storage().unwrap() - by_storage < LONG);
                });
            },
        );
    }
}
