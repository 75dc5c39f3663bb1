//! The list of the program's threads, and where each of them stands: for `umcg dump` and SIGQUIT.
//!
//! The courier makes it, while all threads go on. So each line is true for a moment of its own. It
//! uses the library's memory and files of `/proc` only, and waits for no lock that a thread of the
//! program may have.

use super::dump;
use super::guest::{self, Guest};
use super::maps::{self, Code};
use super::stand::LeaveReason;
use super::text;
use crate::rt::engine::guest as engine;
use crate::rt::engine::runtime::RuntimeState;
use crate::rt::wait::park;
use std::fmt::Write;
use std::fs;
use std::sync::atomic::Ordering::Relaxed;
use umcg_core::raw::{Activity, Worker};

/// The most threads that are described. Of the others only the number is told.
const MOST: usize = 2_000;

/// A line or more for each thread of the program.
pub(super) fn list(shared: &RuntimeState) -> String {
    let code = Code::read();
    let (mut lines, mut count) = (String::new(), 0);
    guest::each(&mut |guest| {
        count += 1;
        if count <= MOST {
            describe(&mut lines, guest, shared, &code);
        }
    });
    if count > MOST {
        let _ = writeln!(lines, "… and {} more", count - MOST);
    }
    let (servers, active) = (shared.active.most(), shared.active.count());
    let active = match servers == active {
        true => String::new(),
        false => format!(", {active} active"),
    };
    format!("{count} threads, {servers} servers{active}\n{lines}")
}

/// Where a guest is.
enum GuestPlace {
    Home,
    /// It stands still until it is woken. When its server has seen that it left, or 0.
    Parked(u64),
    Ready,
    /// The number of its server.
    Server(usize),
}

fn place(guest: &Guest, shared: &RuntimeState) -> GuestPlace {
    let worker = guest.worker.load(Relaxed);
    if worker.is_null() {
        return GuestPlace::Home;
    }
    // SAFETY: a worker's pointer; descriptors are never freed.
    let worker = unsafe { Worker::from_ptr(worker) };
    if worker.doing() == Activity::Blocked {
        return GuestPlace::Home;
    }
    let runs = shared
        .servers
        .iter()
        .position(|server| server.server().is_some_and(|server| server.runs(worker)));
    if let Some(server) = runs {
        return GuestPlace::Server(server);
    }
    let task = engine::task_of(worker);
    let waits_nowhere =
        task.waiter.load(Relaxed).is_null() && task.waits_at.load(Relaxed).is_null();
    if park::is_notified(task) && waits_nowhere {
        GuestPlace::Ready
    } else {
        GuestPlace::Parked(task.since.load(Relaxed))
    }
}

fn describe(to: &mut String, guest: &Guest, shared: &RuntimeState, code: &Code) {
    let tid = guest.tid();
    let name = tid.and_then(name).unwrap_or_default();
    let number = tid.map_or("?".to_owned(), |tid| tid.to_string());
    let _ = write!(to, "thread {number} {name}: ");
    match place(guest, shared) {
        GuestPlace::Home => at_home(to, tid, guest, code),
        GuestPlace::Server(server) => {
            let _ = writeln!(to, "away, runs on server {server}");
        }
        GuestPlace::Ready => {
            let _ = writeln!(to, "away, ready");
        }
        GuestPlace::Parked(stamp) => parked(to, guest, stamp, code),
    }
}

fn parked(to: &mut String, guest: &Guest, stamp: u64, code: &Code) {
    let seconds = guest.stand.time(stamp) as f64 / 1e9;
    let _ = write!(to, "away, parked for {seconds:.3} s");
    if !matches!(guest.stand.why(), LeaveReason::Word | LeaveReason::Sleep) {
        to.push('\n');
        return;
    }
    let Some(site) = guest.stand.site() else {
        to.push('\n');
        return;
    };
    let _ = writeln!(to, " in {}", text::call(site.number, &site.arguments));
    callers(to, site.next, site.stack_pointer, code);
}

/// What the kernel says of a thread at home. Threads of one process may always ask.
fn at_home(to: &mut String, tid: Option<u32>, guest: &Guest, code: &Code) {
    let file = tid.map(|tid| format!("/proc/self/task/{tid}/syscall"));
    let line = file.and_then(|file| fs::read_to_string(file).ok());
    let words: Option<Vec<usize>> = line.as_deref().and_then(words);
    let Some([number, arguments @ .., stack_pointer, pc]) = words.as_deref() else {
        let runs = line.is_some_and(|line| line.starts_with("running"));
        let _ = writeln!(to, "at home{}", if runs { ", runs" } else { "" });
        return;
    };
    let mut six = [0; 6];
    for (to, from) in six.iter_mut().zip(arguments) {
        *to = *from;
    }
    if six[0] == dump::word() {
        let _ = writeln!(to, "at home, got SIGQUIT");
        return;
    }
    let site = code.site(*pc, *stack_pointer);
    // After a stop and the like the kernel goes on with a call under another number.
    let is_restart = text::name(*number) == Some("restart_syscall");
    let before = site.as_ref().and_then(|site| site.number);
    let number = before.filter(|_| is_restart).unwrap_or(*number);
    let _ = write!(to, "at home");
    if guest.stand.why() == LeaveReason::Home && guest.stand.number() as usize == number {
        let _ = write!(to, " for {:.3} s", guest.stand.time(0) as f64 / 1e9);
    }
    let _ = writeln!(to, ", in {}", text::call(number, &six));
    if let Some(site) = site {
        callers(to, site.next, site.stack_pointer, code);
    }
}

/// `number first … sixth stack-pointer pc`.
fn words(line: &str) -> Option<Vec<usize>> {
    let mut words = line.split_ascii_whitespace();
    let number = words.next()?.parse().ok()?;
    let mut all = vec![number];
    for word in words {
        all.push(usize::from_str_radix(word.strip_prefix("0x")?, 16).ok()?);
    }
    (all.len() == 9).then_some(all)
}

/// The site of the call, and the function of another file that has led there.
fn callers(to: &mut String, next: usize, stack_pointer: usize, code: &Code) {
    let _ = writeln!(to, "    at {}", maps::symbol(next));
    if let Some(caller) = code.caller(next, stack_pointer) {
        let _ = writeln!(to, "    from {}", maps::symbol(caller));
    }
}

/// The name that the kernel has.
pub(super) fn name(tid: u32) -> Option<String> {
    let name = fs::read(format!("/proc/self/task/{tid}/comm")).ok()?;
    Some(String::from_utf8_lossy(&name).trim_end().to_owned())
}
