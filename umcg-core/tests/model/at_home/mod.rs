//! Homes of adopted workers: the sources of leaving home, of the home thread's loop, of the
//! courier's list and of the end of a home, with a kernel that has signals and threads.

#[path = "../../../src/umcg/addressee.rs"]
mod addressee;
#[path = "../../../src/umcg/adopted.rs"]
mod adopted;
#[path = "../../../src/umcg/adoption.rs"]
mod adoption;
#[path = "../../../src/umcg/awake.rs"]
mod awake;
pub(crate) mod context;
#[path = "../../../src/umcg/homes.rs"]
mod homes;
pub(crate) mod kernel;
#[allow(
    dead_code,
    reason = "a new thread forgets the last one's stay: that is all here"
)]
#[path = "../../../src/umcg/stay.rs"]
mod stay;
#[path = "../../../src/umcg/summons.rs"]
mod summons;
mod worker;

use crate::check;
use crate::idle;
use homes::HomeStart;
use shuttle::lazy_static;
use shuttle::sync::atomic::{AtomicBool, AtomicPtr, AtomicU32, Ordering::SeqCst};
use shuttle::thread::{JoinHandle, spawn, yield_now};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::ptr::{from_ref, null_mut};
use worker::Worker;

/// The guest's head: whether calls that only have to be made at home need no hook.
mod guest {
    use super::IS_PERMITTED;
    use shuttle::sync::atomic::Ordering::SeqCst;

    pub(super) fn note_mask(_: u64) {}

    pub(super) fn note_closed() {
        IS_PERMITTED.store(false, SeqCst);
    }
}

// The parts that the model has no use for, by the paths at which the sources find them.

mod requeue {
    use super::TID;
    use super::kernel::{self, PROCESS};
    use std::ffi::c_int;

    pub(super) fn send(thread: usize, number: c_int, _: *const libc::siginfo_t) {
        kernel::send(thread as u32, number);
    }

    pub(super) fn to_thread(number: c_int, _: *const libc::siginfo_t) {
        kernel::send(TID, number);
    }

    pub(super) fn to_process(number: c_int, _: *const libc::siginfo_t) {
        kernel::send(PROCESS, number);
    }

    pub(super) fn give_back() {}
}

mod server {
    pub(crate) struct Server;
}

mod tick {
    pub(super) fn now() -> u64 {
        unreachable!()
    }
}

/// The party that takes a descriptor and its stack back.
mod thread {
    use super::worker::Worker;
    use super::{GIVEN_BACK, kernel};
    use shuttle::sync::atomic::Ordering::SeqCst;

    pub(super) fn give_back(_: &'static Worker) {
        assert!(kernel::has_ended(), "its thread runs on the stack");
        GIVEN_BACK.fetch_add(1, SeqCst);
    }
}

enum Role {
    Blocked(&'static Worker),
}

fn role() -> Role {
    unreachable!()
}

fn worker_of_storage() -> Option<&'static Worker> {
    unreachable!()
}

enum Owner {
    Worker(#[allow(dead_code, reason = "as the library's")] &'static Worker),
}

fn role_word(_: Owner) -> *mut () {
    null_mut()
}

/// The worker with the home's id.
struct Workers(AtomicPtr<Worker>);

lazy_static! {
    static ref WORKERS: Workers = Workers(AtomicPtr::new(null_mut()));
    static ref GIVEN_BACK: AtomicU32 = AtomicU32::new(0);
    /// Signals that the program's handler has got, and whether the guest is inside.
    static ref DELIVERED: AtomicU32 = AtomicU32::new(0);
    static ref IS_INSIDE: AtomicBool = AtomicBool::new(false);
    static ref IS_PERMITTED: AtomicBool = AtomicBool::new(false);
    /// The sender of the signal has gone on.
    static ref HAS_GONE_ON: AtomicBool = AtomicBool::new(false);
}

impl Workers {
    fn set(&self, _: u32, worker: Option<&'static Worker>) {
        let worker = worker.map_or(null_mut(), |worker| from_ref(worker).cast_mut());
        self.0.store(worker, SeqCst);
    }

    fn get(&self, _: u32) -> Option<&'static Worker> {
        // SAFETY: null, or a worker, which is leaked.
        unsafe { self.0.load(SeqCst).as_ref() }
    }
}

/// The id of the home thread.
const TID: u32 = 2;
/// The thread pointers of its first guest, and of the next one.
const FIRST: usize = 64;
const NEXT: usize = 128;
/// The signal that comes.
const SIGNAL: i32 = libc::SIGUSR1;

/// Takes part as a home thread: waits while its worker is away, and then opens. Returns how many
/// signals were delivered; none if the thread has ended.
fn home_thread(worker: &'static Worker) -> JoinHandle<Option<usize>> {
    let live = move || {
        let home = adopted::home(worker);
        let leave: adopted::HomeStep = |_| true;
        home.adoption.step.store(leave as *mut (), SeqCst);
        adopted::see_off(worker, home);
        assert_eq!(context::storage(), worker.tp.load(SeqCst), "its storage");
        let blocked = adopted::opening_mask(worker);
        adopted::note_open(worker);
        std::iter::from_fn(|| kernel::take_one(!blocked)).count()
    };
    spawn(move || {
        kernel::begin_thread(TID);
        // SAFETY: a number.
        unsafe { context::set_thread_pointer(FIRST) };
        catch_unwind(AssertUnwindSafe(live)).map_or_else(
            |payload| match payload.downcast::<kernel::Ended>() {
                Ok(_) => None,
                Err(failure) => std::panic::resume_unwind(failure),
            },
            Some,
        )
    })
}

/// Whether a signal waits at home for the worker.
fn is_called(worker: &'static Worker) -> bool {
    let summons = &adopted::home(worker).adoption.summons;
    summons.has(summons::HomeReason::Signal)
}

/// Until the courier has a worker.
fn courier() -> JoinHandle<()> {
    spawn(|| while adopted::next_called(u64::MAX).is_none() {})
}

/// A thread of the program that sends the signal, and goes on.
fn sender(to: u32) -> JoinHandle<()> {
    spawn(move || {
        kernel::send(to, SIGNAL);
        homes::call_home(TID, SIGNAL);
        HAS_GONE_ON.store(true, SeqCst);
    })
}

/// The worker is away, and is about to go on: it sees what the sender has done after the signal
/// only if the handler has run, or will do so first.
fn look_at_sender(worker: &'static Worker) {
    if HAS_GONE_ON.load(SeqCst) && DELIVERED.load(SeqCst) == 0 {
        assert!(adopted::has_signal(worker), "it sees the effect first");
    }
}

/// What a worker that is away does, so that in the end it lets all signals through.
#[derive(Clone, Copy)]
enum Change {
    /// It has blocked none all the time.
    None,
    Frees,
    FreesUntold,
    /// Another party tells the home.
    FreesUntoldBeside,
    BlocksAndFrees,
    /// Another party tells the home in between.
    BlocksAndFreesBeside,
}

/// A signal comes to a worker that is away: it is called, and the signal is delivered at home. A
/// signal that is lost is a deadlock.
fn called(change: Change, to: u32) {
    let mask = match change {
        Change::None | Change::BlocksAndFrees | Change::BlocksAndFreesBeside => 0,
        Change::Frees | Change::FreesUntold | Change::FreesUntoldBeside => u64::MAX,
    };
    let worker = Worker::away(TID, FIRST, mask);
    WORKERS.set(TID, Some(worker));
    let home = home_thread(worker);
    let courier = courier();
    let sender = sender(to);
    match change {
        Change::None => look_at_sender(worker),
        Change::Frees => adopted::set_mask(worker, 0),
        Change::FreesUntold => {
            adopted::set_mask_untold(worker, 0);
            adopted::tell(worker);
        }
        Change::FreesUntoldBeside => {
            adopted::set_mask_untold(worker, 0);
            spawn(|| homes::tell_home(TID)).join().unwrap();
        }
        Change::BlocksAndFreesBeside => {
            let teller = spawn(|| homes::tell_home(TID));
            adopted::set_mask(worker, u64::MAX);
            adopted::set_mask(worker, 0);
            teller.join().unwrap();
        }
        Change::BlocksAndFrees => {
            let adoption = &adopted::home(worker).adoption;
            while adoption.watched.load(SeqCst) == 0 && !is_called(worker) {
                yield_now();
            }
            adopted::set_mask(worker, u64::MAX);
            // The home looks at the mask just now.
            let waker = spawn(|| adoption::wake(TID));
            adopted::set_mask(worker, 0);
            waker.join().unwrap();
        }
    }
    courier.join().unwrap();
    assert!(is_called(worker));
    worker.send_home();
    assert_eq!(home.join().unwrap(), Some(1));
    sender.join().unwrap();
}

/// The loop at home, to which a worker that leaves switches.
fn home_loop() {
    assert!(
        !IS_PERMITTED.load(SeqCst),
        "its calls would pass on a server"
    );
    let worker = WORKERS.get(TID).unwrap();
    worker.go_away();
    adopted::see_off(worker, adopted::home(worker));
}

/// The handler in front of the program's (`intercept/signal/mod.rs`). A guest that is inside keeps
/// the signal.
fn handler(number: i32, mask: u64) -> u64 {
    if !IS_INSIDE.load(SeqCst) {
        DELIVERED.fetch_add(1, SeqCst);
        return mask;
    }
    adopted::note_closed(WORKERS.get(TID).unwrap(), mask);
    kernel::send(TID, number);
    u64::MAX
}

/// A worker at home, to which a signal may come at any moment, leaves, comes home, and opens.
fn leave_and_open(worker: &'static Worker) {
    kernel::begin_thread(TID);
    kernel::handle(handler);
    // SAFETY: a number.
    unsafe { context::set_thread_pointer(FIRST) };
    IS_PERMITTED.store(true, SeqCst);
    kernel::let_signals_in();
    IS_INSIDE.store(true, SeqCst);
    kernel::let_signals_in();
    let is_closed = adopted::is_closed(worker);
    assert!(
        !is_closed || !IS_PERMITTED.load(SeqCst),
        "its calls would wait with all signals blocked"
    );
    let is_away = adopted::leave(worker, |_| true);
    assert!(!is_away && adopted::is_closed(worker) && adopted::has_signal(worker));
    IS_INSIDE.store(false, SeqCst);
    adopted::note_open(worker);
    kernel::set_mask(adopted::opening_mask(worker));
    let mask = kernel::set_mask(u64::MAX);
    assert_eq!(mask, kernel::only(adoption::GO), "its own mask");
}

/// A signal comes while the worker leaves home. It is delivered before, or calls the worker, and is
/// delivered at home. One that is lost is a deadlock.
fn left(to: u32) {
    let worker = Worker::at_home(TID, FIRST);
    WORKERS.set(TID, Some(worker));
    let home = spawn(move || leave_and_open(worker));
    let sender = sender(to);
    while worker.is_blocked() {
        yield_now();
    }
    look_at_sender(worker);
    if DELIVERED.load(SeqCst) == 0 {
        courier().join().unwrap();
        assert!(is_called(worker));
    }
    worker.send_home();
    home.join().unwrap();
    sender.join().unwrap();
    assert_eq!(DELIVERED.load(SeqCst), 1);
}

unsafe extern "C" fn enter(_: *mut ()) -> ! {
    unreachable!()
}

/// A worker ends, and the next one begins at its home; unless a call from outside has been let
/// through to the home before. Then, and in the end, the thread of the home ends, and is given back
/// once. `tells`: the next one tells the home of its mask, and gets a signal.
fn used_again(is_marked: bool, tells: bool) {
    let worker = Worker::away(TID, FIRST, 0);
    WORKERS.set(TID, Some(worker));
    let home = home_thread(worker);
    let is_changed: &AtomicBool = Box::leak(Box::default());
    let marker = is_marked.then(|| {
        spawn(|| {
            if homes::mark(TID, false) == Some(false) {
                is_changed.store(true, SeqCst);
            }
        })
    });
    let is_sound = homes::rest(worker);
    let was_changed = is_changed.load(SeqCst);
    if is_sound && homes::take(worker) {
        assert!(!was_changed, "changed before it was taken");
        let start = HomeStart {
            id: 2,
            thread_pointer: NEXT,
            guest: null_mut(),
            mask: 0,
            top: null_mut(),
            entry: enter,
            argument: null_mut(),
        };
        // SAFETY: its fields are not used.
        unsafe { homes::begin(worker, &start) };
        let told = if tells {
            let (courier, sender) = (courier(), spawn(|| kernel::send(TID, SIGNAL)));
            adopted::tell(worker);
            courier.join().unwrap();
            sender.join().unwrap();
            1
        } else {
            0
        };
        worker.send_home();
        assert_eq!(home.join().unwrap(), Some(told));
    } else {
        let other = spawn(homes::reclaim);
        homes::retire(worker);
        while homes::reclaim() != 0 {
            yield_now();
        }
        assert_eq!(home.join().unwrap(), None);
        other.join().unwrap();
        assert_eq!(GIVEN_BACK.load(SeqCst), 1);
        assert!(homes::mark(TID, false).is_none());
    }
    marker.map(JoinHandle::join);
}

/// One test, since the lists are statics.
#[test]
fn homes_see_signals_and_end() {
    use kernel::PROCESS;
    check(|| called(Change::None, TID));
    check(|| called(Change::None, PROCESS));
    check(|| called(Change::Frees, TID));
    check(|| called(Change::FreesUntold, PROCESS));
    check(|| called(Change::FreesUntoldBeside, TID));
    check(|| called(Change::BlocksAndFreesBeside, TID));
    check(|| called(Change::BlocksAndFrees, TID));
    check(|| called(Change::BlocksAndFrees, PROCESS));
    check(|| left(TID));
    check(|| left(PROCESS));
    check(|| used_again(false, false));
    check(|| used_again(false, true));
    check(|| used_again(true, false));
}
