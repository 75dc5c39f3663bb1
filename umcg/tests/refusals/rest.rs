//! Refusals of one call each that had lasting consequences.

use crate::child::run;
use crate::filter::{refuse, refuse_for_a_moment, refuse_if, refuse_some, shared};
use crate::table::TESTED;
use crate::workload::{credentials, may_change_credentials};
use std::io::{Read, Write};
use std::sync::atomic::{AtomicBool, AtomicI32, Ordering::Relaxed};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use umcg::Runtime;
use umcg::net::{TcpListener, TcpStream};
use umcg::rt::{RuntimeBuilder, StallCause};

pub(crate) fn scenario(name: &str) {
    match name {
        "timer" => a_preemptive_runtime_that_cannot_start_leaves_nothing(),
        "second-timer" => ticks_alone_preempt(),
        "broken" => {
            connections_are_accepted(|| refuse_some(&[libc::SYS_accept4], libc::ECONNABORTED, 3))
        }
        "no-descriptors" => {
            connections_are_accepted(|| refuse_for_a_moment(&[libc::SYS_accept4], libc::EMFILE, 1))
        }
        "no-helper" => no_thread_for_a_helper_is_told(),
        "no-helper-line" => blocks_without_a_helper(&one_server().build().unwrap()),
        call => a_home_thread_is_refused(call),
    }
}

fn a_preemptive_runtime_that_cannot_start_leaves_nothing() {
    let plain = || Runtime::builder().servers(1).build();
    let preemptive = || {
        Runtime::builder()
            .servers(1)
            .preemption(Some(Duration::from_millis(5)))
            .build()
    };
    plain().unwrap().shutdown();
    refuse(&[libc::SYS_timer_settime], libc::EPERM);
    for _ in 0..3 {
        preemptive().unwrap_err();
        plain().unwrap().shutdown();
    }
    let timers = std::fs::read_to_string("/proc/self/timers").unwrap_or_default();
    assert_eq!(timers, "");
}

/// Each thread has two timers; it can do without the second.
fn ticks_alone_preempt() {
    let mut count = 0;
    refuse_if(&[libc::SYS_timer_create], libc::EAGAIN, move |_, _| {
        count += 1;
        count % 2 == 0
    });
    let runtime = Runtime::builder()
        .servers(1)
        .preemption(Some(Duration::from_millis(5)))
        .build()
        .unwrap();
    let is_over = Arc::new(AtomicBool::new(false));
    let own = is_over.clone();
    let busy = runtime.spawn(move || {
        while !own.load(Relaxed) {
            std::hint::spin_loop();
        }
    });
    runtime.run(move || is_over.store(true, Relaxed));
    busy.join().unwrap();
    runtime.shutdown();
    assert_eq!(
        std::fs::read_to_string("/proc/self/timers").unwrap_or_default(),
        ""
    );
}

fn connections_are_accepted(refuse: impl Fn()) {
    let runtime = Runtime::builder().servers(2).build().unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let server = runtime.spawn(move || {
        for stream in listener.incoming() {
            stream.unwrap().write_all(b"x").unwrap();
        }
    });
    let ask = move || {
        TcpStream::connect(address)
            .unwrap()
            .read_exact(&mut [0])
            .unwrap()
    };
    runtime.run(ask);
    refuse();
    runtime.run(ask);
    runtime.run(ask);
    server.abort();
    server.join().unwrap_err();
}

fn one_server() -> RuntimeBuilder {
    Runtime::builder().servers(1).name("hamlet")
}

/// The system makes no threads any more, before the first scope.
fn blocks_without_a_helper(runtime: &Runtime) {
    refuse(&[libc::SYS_clone3, libc::SYS_clone], libc::EAGAIN);
    for _ in 0..3 {
        let carrier = rustix::thread::gettid();
        let (outside, inside) = runtime.run(|| {
            (
                rustix::thread::gettid(),
                umcg::blocking(rustix::thread::gettid),
            )
        });
        assert!(outside == inside && inside != carrier);
    }
    runtime.run(|| {
        assert!(!umcg::ctl::blocking_begin(), "away without a thread");
        assert!(!umcg::ctl::blocking_begin(), "a scope within is no better");
        assert!(umcg::ctl::blocking_end().is_ok() && umcg::ctl::blocking_end().is_ok());
        assert!(umcg::ctl::blocking_end().is_err(), "a third scope");
    });
    assert!(umcg::ctl::blocking_begin(), "a plain thread");
    // A watch is awake while a server runs workers.
    runtime.run(|| std::thread::sleep(Duration::from_millis(50)));
}

fn no_thread_for_a_helper_is_told() {
    let told = Arc::new(Mutex::new(Vec::new()));
    let tells = told.clone();
    let hour = Duration::from_secs(3600);
    let runtime = one_server()
        .on_stall(hour, move |stall| tells.lock().unwrap().push(stall.clone()))
        .build()
        .unwrap();
    blocks_without_a_helper(&runtime);
    let (begun, is_told) = (Instant::now(), || !told.lock().unwrap().is_empty());
    while !is_told() {
        assert!(begun.elapsed() < Duration::from_secs(60), "nothing is told");
        runtime.run(|| umcg::sleep(Duration::from_millis(5)));
    }
    runtime.shutdown();
    let told = told.lock().unwrap();
    assert_eq!(told.len(), 1, "{told:?}");
    assert_eq!(
        told[0].cause,
        StallCause::NoHelper {
            helpers: 0,
            workers: 0
        }
    );
    assert_eq!(
        (told[0].server, told[0].worker, &*told[0].runtime),
        (None, None, "hamlet")
    );
    assert!(
        told[0]
            .to_string()
            .starts_with("the system gives no thread for a helper")
    );
}

/// A worker that is away changes its credentials, and its home thread alone is refused this call.
fn a_home_thread_is_refused(call: &str) {
    let home: &AtomicI32 = shared();
    let number = TESTED.iter().find(|row| row.name == call).unwrap().number;
    refuse_if(&[number], libc::EPERM, |_, thread| {
        thread == home.load(Relaxed)
    });
    credentials(|| home.store(rustix::thread::gettid().as_raw_nonzero().get(), Relaxed)).unwrap();
}

fn fine(scenario: &str) {
    let ran = run(&format!("rest {scenario}"));
    assert!(ran.is_ok(), "{ran:#?}");
}

#[test]
fn a_runtime_that_may_not_preempt_fails_and_spoils_no_later_one() {
    fine("timer");
}

#[test]
fn a_server_without_its_second_timer_has_its_ticks() {
    fine("second-timer");
}

#[test]
fn an_accept_loop_outlives_broken_connections() {
    fine("broken");
}

#[test]
fn an_accept_loop_outlives_a_lack_of_descriptors() {
    fine("no-descriptors");
}

#[test]
fn a_scope_that_finds_no_thread_for_a_helper_is_told_of() {
    fine("no-helper");
}

#[test]
fn a_scope_that_finds_no_thread_for_a_helper_is_told_of_in_one_line() {
    let ran = run("rest no-helper-line");
    assert!(ran.is_ok(), "{ran:#?}");
    if crate::filter::are_possible() {
        let says_so = |line: &&str| line.contains("umcg: the system gives no thread for a helper");
        assert_eq!(ran.output.lines().filter(says_so).count(), 1, "{ran:#?}");
    }
}

#[test]
fn a_home_thread_that_cannot_take_over_credentials_ends_the_process_and_says_why() {
    if !crate::filter::are_possible() || !may_change_credentials() {
        return eprintln!("SKIPPED: no filters of system calls, or no right to change credentials");
    }
    for call in [
        "getgroups",
        "getresgid",
        "getresuid",
        "setgroups",
        "setresgid",
        "setresuid",
    ] {
        let ran = run(&format!("rest {call}"));
        assert!(ran.has_aborted(), "{call}: {ran:#?}");
        assert!(
            ran.output.contains(&format!("{call} is refused (error 1)")),
            "{call}: {ran:#?}"
        );
    }
}
