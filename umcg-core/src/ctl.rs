//! `umcg_ctl`: the one call of the kernel interface, and the functions beside it in C.
//!
//! The meaning of every command, argument and error is that of the Linux patch "sched: UMCG" (2023)
//! as the Nanos unikernel ported it. The manual page `umcg_ctl(3)` describes it completely. This
//! module checks arguments, and nothing else.

use crate::os::guarded;
use crate::umcg::idle::{EventKind, Hand, Node, WaitOutcome, state};
use crate::umcg::server::Server;
use crate::umcg::worker::{Inside, Worker};
use crate::umcg::{
    CallerRole, Role, WORKERS, blocking, caller, current_worker, group, light, operation, preempt,
    role, thread, tick,
};
use crate::uth;
use rustix::io::Errno;
use rustix::process::{Pid, getpid};
use std::ffi::c_void;
use umcg_context::local::Hold;

/// Commands.
pub mod command {
    /// The caller becomes a worker.
    pub const REGISTER_WORKER: u32 = 1;
    /// The caller becomes a server.
    pub const REGISTER_SERVER: u32 = 2;
    /// The caller becomes a plain thread.
    pub const UNREGISTER: u32 = 3;
    /// An idle server is woken.
    pub const WAKE: u32 = 4;
    /// A server waits for events, or for a worker; a worker gives its server the processor back.
    pub const WAIT: u32 = 5;
    /// A server runs a worker; a worker lets another one run.
    pub const CTX_SWITCH: u32 = 6;
}

/// The flag of WAIT for a server that was interrupted by a signal and waits again.
pub const WAIT_FLAG_INTERRUPTED: u32 = 1;
/// The bits of an event that tell its kind.
pub const EVENT_MASK: u64 = 31;
/// A deadline that means "poll, do not wait".
const POLL: u64 = 1;

type CtlResult<T = ()> = std::result::Result<T, Errno>;

/// The arguments besides flags and command.
#[derive(Clone, Copy)]
struct Args {
    next_tid: i32,
    timeout: u64,
    events: *mut u64,
    event_sz: i32,
}

impl Args {
    fn no_tid(self) -> CtlResult {
        if self.next_tid == 0 {
            Ok(())
        } else {
            Err(Errno::INVAL)
        }
    }

    fn no_timeout(self) -> CtlResult {
        if self.timeout == 0 {
            Ok(())
        } else {
            Err(Errno::INVAL)
        }
    }

    fn no_events(self) -> CtlResult {
        if self.events.is_null() && self.event_sz == 0 {
            Ok(())
        } else {
            Err(Errno::INVAL)
        }
    }

    fn deadline(self) -> Option<u64> {
        (self.timeout != 0).then_some(self.timeout)
    }
}

/// Executes `command`. May switch: WAIT, CTX_SWITCH and REGISTER_WORKER return when a server or
/// worker runs the caller again.
///
/// # Errors
/// As in the manual page, command by command. Bad arguments change nothing.
///
/// # Safety
/// `events` is null, or an address where `event_sz` words are either not writable at all (that is
/// EFAULT) or the caller's to write. As the safe types of the crate `umcg` do, the caller rules out
/// that a sharing worker holds a reference into thread-local storage across the call.
pub unsafe fn umcg_ctl(
    flags: u32,
    command: u32,
    next_tid: i32,
    timeout: u64,
    events: *mut u64,
    event_sz: i32,
) -> CtlResult {
    let args = Args {
        next_tid,
        timeout,
        events,
        event_sz,
    };
    let allowed = if command == command::WAIT {
        WAIT_FLAG_INTERRUPTED
    } else {
        0
    };
    if flags & !allowed != 0 {
        return Err(Errno::INVAL);
    }
    match command {
        command::CTX_SWITCH => match caller() {
            CallerRole::Server(server) => server_switch(server, args),
            CallerRole::Worker(inside, server) => worker_switch(inside, server, args),
            CallerRole::Neither => Err(Errno::INVAL),
        },
        command::WAIT => match caller() {
            CallerRole::Server(server) if next_tid != 0 => server_wait_for(server, args),
            CallerRole::Server(server) => server_wait(server, args),
            CallerRole::Worker(inside, server) => worker_wait(inside, server, args),
            CallerRole::Neither => Err(Errno::INVAL),
        },
        command::WAKE => wake(args),
        command::REGISTER_WORKER => register_worker(args),
        command::REGISTER_SERVER => register_server(args),
        command::UNREGISTER => unregister(args),
        _ => Err(Errno::INVAL),
    }
}

fn register_server(args: Args) -> CtlResult {
    args.no_tid()?;
    args.no_timeout()?;
    args.no_events()?;
    operation::register_server(&group::FIRST, tick::DEFAULT_INTERVAL).map(drop)
}

fn register_worker(args: Args) -> CtlResult {
    args.no_tid()?;
    args.no_events()?;
    let id = args.timeout;
    if id & EVENT_MASK != 0 || !matches!(role(), Role::Plain) {
        return Err(Errno::INVAL);
    }
    operation::register_worker(&group::FIRST, id, tick::DEFAULT_INTERVAL).map(drop)
}

fn unregister(args: Args) -> CtlResult {
    args.no_tid()?;
    args.no_timeout()?;
    args.no_events()?;
    match role() {
        Role::Plain => {}
        Role::Server(server) => operation::unregister_server(server),
        // A light worker has no thread of its own as which it could continue.
        Role::Worker(worker, _) | Role::Blocked(worker) if worker.home.is_none() => {
            return Err(Errno::INVAL);
        }
        Role::Worker(worker, _) | Role::Blocked(worker) => thread::unregister(worker),
    }
    Ok(())
}

fn wake(args: Args) -> CtlResult {
    args.no_tid()?;
    args.no_timeout()?;
    args.no_events()?;
    let _hold = Hold::begin();
    if group::FIRST.lists.wake_server() {
        Ok(())
    } else {
        Err(Errno::AGAIN)
    }
}

/// The worker that `tid` names. `me` is the caller, if it is a worker.
fn find(tid: i32, me: Option<&Worker>) -> CtlResult<&'static Worker> {
    if tid <= 0 {
        return Err(Errno::SRCH);
    }
    match WORKERS.get(tid as u32) {
        Some(worker) if worker.node.tid() == tid as u32 && worker.node.state() != state::GONE => {
            if me.is_some_and(|me| std::ptr::eq(me, worker)) {
                Err(Errno::INVAL)
            } else {
                Ok(worker)
            }
        }
        _ if thread_exists(tid) => Err(Errno::INVAL),
        _ => Err(Errno::SRCH),
    }
}

/// Whether a thread of this process has this tid. A joined thread counts as gone, although it may
/// still be leaving the kernel.
fn thread_exists(tid: i32) -> bool {
    const PF_EXITING: u64 = 4;
    const FLAGS: usize = 6; // counted from the state, the first field after the name
    // SAFETY: signal 0 is not sent; the kernel only looks for the thread.
    if unsafe { libc::syscall(libc::SYS_tgkill, getpid().as_raw_nonzero().get(), tid, 0) } != 0 {
        return false;
    }
    let Ok(stat) = std::fs::read_to_string(format!("/proc/self/task/{tid}/stat")) else {
        // without /proc the kernel's first answer stands
        return !std::path::Path::new("/proc/self/task").exists();
    };
    let fields = stat.rsplit(')').next().unwrap_or_default();
    let flags = fields
        .split_whitespace()
        .nth(FLAGS)
        .and_then(|flags| flags.parse::<u64>().ok());
    flags.is_none_or(|flags| flags & PF_EXITING == 0)
}

fn is_runnable(worker: &Worker) -> bool {
    matches!(worker.node.state(), state::RUNNABLE | state::RUNNABLE_TIMED)
}

/// Stores events one after the other in the caller's memory.
struct Slots {
    at: *mut u64,
    room: usize,
    faulted: bool,
}

impl Slots {
    fn new(args: Args) -> Slots {
        Slots {
            at: args.events,
            room: args.event_sz.max(0) as usize,
            faulted: false,
        }
    }

    #[inline]
    fn put(&mut self, event: u64) -> bool {
        // SAFETY: by the contract of `umcg_ctl`, the caller's to write or not writable.
        let stored = self.room > 0 && unsafe { guarded::store(self.at, event) };
        if stored {
            self.at = self.at.wrapping_add(1);
            self.room -= 1;
        } else {
            self.faulted |= self.room > 0;
        }
        stored
    }

    fn put_event(&mut self, node: &'static Node, kind: EventKind) -> bool {
        self.put(node.id() | kind as u64)
    }

    /// Ends the list if there is room.
    #[inline]
    fn finish(mut self) -> CtlResult {
        if self.room > 0 {
            self.put(0);
        }
        if self.faulted {
            Err(Errno::FAULT)
        } else {
            Ok(())
        }
    }
}

fn server_switch(server: &'static Server, args: Args) -> CtlResult {
    let worker = find(args.next_tid, None)?;
    if !is_runnable(worker) || args.event_sz <= 0 {
        return Err(Errno::INVAL);
    }
    args.no_timeout()?;
    if !worker.lists().claim(&worker.node, args.next_tid as u32) {
        return Err(Errno::INVAL);
    }
    // SAFETY: the caller is the server's own flow, by its role, and has just claimed the worker.
    let (departed, _) = unsafe { server.run(worker) };
    let (kind, deadline) = server.mail.read();
    let event = departed.node.id() | kind as u64;
    operation::settle(departed, kind, Hand::Open, deadline);
    let mut slots = Slots::new(args);
    if slots.put(event) && slots.room > 1 && server.group().lists.has_events() {
        let room = slots.room;
        server
            .group()
            .lists
            .collect(Hand::Open, room, &mut |node, kind| {
                slots.put_event(node, kind)
            });
    }
    slots.finish()
}

fn worker_switch(inside: Inside, server: &'static Server, args: Args) -> CtlResult {
    let next = find(args.next_tid, Some(inside.0))?;
    if !is_runnable(next) {
        return Err(Errno::INVAL);
    }
    args.no_events()?;
    let hold = Hold::begin();
    let claimed = next.lists().claim(&next.node, args.next_tid as u32);
    drop(hold);
    if !claimed {
        return Err(Errno::INVAL);
    }
    // SAFETY: the caller is inside, on `server`; `next` is another worker, just claimed.
    let in_time = unsafe { operation::worker_switch(inside, server, next, args.deadline()) };
    if in_time {
        Ok(())
    } else {
        Err(Errno::TIMEDOUT)
    }
}

fn worker_wait(inside: Inside, server: &'static Server, args: Args) -> CtlResult {
    args.no_tid()?;
    args.no_events()?;
    // SAFETY: the caller is inside, on `server`.
    let in_time = unsafe { operation::worker_wait(inside, server, args.deadline()) };
    if in_time {
        Ok(())
    } else {
        Err(Errno::TIMEDOUT)
    }
}

fn server_wait(server: &'static Server, args: Args) -> CtlResult {
    if args.event_sz < 2 {
        return Err(Errno::INVAL);
    }
    let mut slots = Slots::new(args);
    let room = slots.room;
    let deadline = if args.timeout == POLL {
        Some(0)
    } else {
        args.deadline()
    };
    let waited = operation::wait(server, deadline, Hand::Open, room, &mut |node, kind| {
        slots.put_event(node, kind)
    });
    match waited {
        WaitOutcome::Collected | WaitOutcome::Woken => slots.finish(),
        WaitOutcome::TimedOut => Err(Errno::TIMEDOUT),
        WaitOutcome::Interrupted => Err(Errno::INTR),
        WaitOutcome::Refused => Err(Errno::FAULT),
    }
}

fn server_wait_for(server: &'static Server, args: Args) -> CtlResult {
    args.no_timeout()?;
    args.no_events()?;
    let worker = find(args.next_tid, None)?;
    if operation::wait_for(server, worker, args.next_tid as u32) {
        Ok(())
    } else {
        Err(Errno::INTR)
    }
}

/// Begins a scope in which the calling worker may block in the kernel: its server gets BLOCK and
/// runs on. Switches. Does nothing if the caller is no worker.
///
/// Returns false if the system gives no thread for the scope of a light worker: the worker keeps
/// its server, which gets no BLOCK. The scope has begun all the same.
pub fn blocking_begin() -> bool {
    current_worker().is_none_or(blocking::begin)
}

/// Ends the scope: the worker gets WAKE, and continues when a server runs it. Switches. errno is
/// kept.
///
/// # Errors
/// `EINVAL` when the calling worker is in no such scope.
pub fn blocking_end() -> CtlResult {
    match current_worker() {
        Some(worker) if !blocking::end(worker) => Err(Errno::INVAL),
        _ => Ok(()),
    }
}

/// Begins a section in which the calling worker is not preempted. Does not switch. Sections nest.
pub fn critical_begin() {
    if let Some(worker) = current_worker() {
        operation::critical_begin(worker);
    }
}

/// Ends the section. Switches if preemption was due.
///
/// # Errors
/// `EINVAL` when the calling worker is in no such section.
pub fn critical_end() -> CtlResult {
    match current_worker() {
        Some(worker) if !operation::critical_end(worker) => Err(Errno::INVAL),
        _ => Ok(()),
    }
}

/// Sets the preemption interval of all servers, now and to come; 0 for none. Without this call it
/// is 10 ms for servers that register by `umcg_ctl`.
///
/// # Errors
/// The kernel's error for the interval.
pub fn set_preemption(nanoseconds: u64) -> CtlResult {
    preempt::set_interval(nanoseconds)
}

/// The caller's tid: a worker's own, wherever it runs.
pub fn gettid() -> i32 {
    let own = current_worker().map_or(0, |worker| worker.node.tid() as i32);
    if own != 0 {
        own
    } else {
        Pid::as_raw(Some(rustix::thread::gettid()))
    }
}

/// Names the calling worker, for messages and dumps.
///
/// # Errors
/// `EINVAL` when the caller is no worker.
pub fn set_name(name: &str) -> CtlResult {
    let worker = current_worker().ok_or(Errno::INVAL)?;
    operation::set_name(worker, name);
    Ok(())
}

/// Makes a light worker that runs `entry(arg)` and posts its WAKE. Returns a tid above the kernel's
/// range, by which all commands name it. `stack_size` 0 means 64 KiB. Does not switch.
///
/// # Errors
/// `EINVAL`: the low five bits of the id are not zero, or the stack size is impossible; `ENOMEM`;
/// `EAGAIN`: 2^31 light workers.
///
/// # Safety
/// `entry(arg)` is sound to run on any server's kernel thread, and to continue on another one after
/// each call that switches.
pub unsafe fn light_create(
    id: u64,
    entry: extern "C-unwind" fn(*mut c_void),
    arg: *mut c_void,
    stack_size: usize,
    name: &str,
) -> CtlResult<i32> {
    if id & EVENT_MASK != 0 {
        return Err(Errno::INVAL);
    }
    let size = if stack_size == 0 {
        uth::DEFAULT_STACK_SIZE
    } else {
        stack_size
    };
    let class = uth::class_for(size).map_err(|_| Errno::INVAL)?;
    // SAFETY: passed on.
    unsafe { light::create_named(class, name, id, move || entry(arg)) }.map(|tid| tid as i32)
}
