//! The runtime of guests: begun when the first guest has to wait.

use super::guest::{self, Guest};
use super::{
    cpu_time, dump, homes, list, native, net, outsider, servers, signal, state, tell, trace, untold,
};
use crate::io::driver::{DriverKind, place};
use crate::rt::Runtime;
use crate::rt::base::clock;
use crate::rt::engine::guest as engine;
use crate::rt::engine::turns;
use crate::rt::scheduler::{Fifo, Priority};
use crate::rt::wait::cut;
use rustix::process::{Resource, getrlimit};
use std::sync::OnceLock;
use std::time::Duration;
use umcg_core::{asymmetric, kernel_thread, raw};
use umcg_intercept::Call;

/// The scheduler of guests.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SchedulerKind {
    /// A queue a server; idle servers steal. The default.
    #[default]
    Steal,
    /// One queue: first come, first served.
    Fifo,
    /// By priority. Threads of a program have all the same.
    Priority,
}

/// The settings of the runtime of guests.
#[derive(Clone, Copy, Debug, Default)]
pub struct Settings {
    /// How many servers; 0 for one a CPU that the process may use.
    pub servers: usize,
    /// Which worker runs next.
    pub scheduler: SchedulerKind,
    /// How long a worker may run while others wait; None for no limit.
    pub tick: Option<Duration>,
    /// Whether to print counts when the process ends.
    pub stats: bool,
    /// The file that a trace is added to.
    pub trace: Option<&'static str>,
}

static SETTINGS: OnceLock<Settings> = OnceLock::new();
static RUNTIME: OnceLock<Option<Runtime>> = OnceLock::new();

/// Keeps the settings, for the first guest that waits.
pub(super) fn set(settings: Settings) {
    let _ = SETTINGS.set(settings);
}

/// Whether there is a runtime. If not, there is one guest at most.
pub(super) fn is_begun() -> bool {
    RUNTIME.get().is_some()
}

/// Begins the runtime. Called inside: the threads that this makes are no guests. The only guest
/// calls this, which is about to make a second one. So no lock of the C library is taken but by the
/// caller, which keeps errno.
pub(super) fn prepare(call: &Call) {
    RUNTIME.get_or_init(|| state::preserved(call.keeps_vectors(), || signal::as_servers(begin)));
    if let Some(runtime) = RUNTIME.get().and_then(Option::as_ref) {
        servers::begin(runtime.state());
        net::servers_begin();
    }
}

fn begin() -> Option<Runtime> {
    // While the process has one thread: with more, the kernel waits for a grace period, some 10 ms.
    asymmetric::init();
    // The first call looks a function up, by the dynamic linker: a server must not.
    clock::now();
    place::from(lowest_descriptor());
    dump::prepare(raw::set_request_handler(request).is_ok());
    umcg_core::signal::without(|| kernel_thread::spawn("umcg-signals", carry)).ok()?;
    outsider::has_courier();
    turns::keep_clock();
    cpu_time::begin();
    let settings = SETTINGS.get().copied().unwrap_or_default();
    if let Some(path) = settings.trace.filter(|path| !trace::begin(path)) {
        tell(format_args!("run: cannot write the trace {path}"));
    }
    // The system may have few threads left.
    let runtime = build(settings, processors_to_come())
        .or_else(|_| build(settings, 0))
        .ok()?;
    // All that is looked up once in a process is looked up now, where the C library may be asked.
    drop(raw::Reservation::new());
    Some(runtime)
}

/// The runtime, with at least so many servers if their number adapts.
fn build(settings: Settings, reserve: usize) -> Result<Runtime, crate::Error> {
    let builder = Runtime::builder()
        .servers(settings.servers)
        .name("umcg-run")
        .driver(DriverKind::Epoll)
        .standby()
        .reserve(reserve)
        .preemption(settings.tick)
        .on_stall(Duration::from_secs(1 << 30), |_| ());
    match settings.scheduler {
        SchedulerKind::Steal => builder,
        SchedulerKind::Fifo => builder.scheduler(Fifo::new()),
        SchedulerKind::Priority => builder.scheduler(Priority::new()),
    }
    .build()
}

/// For how many processors there are servers, if the program may use so many at some time.
fn processors_to_come() -> usize {
    /// An inactive server costs a kernel thread that sleeps.
    const MOST: usize = 16;
    // SAFETY: asks for a number.
    let online = unsafe { libc::sysconf(libc::_SC_NPROCESSORS_ONLN) };
    usize::try_from(online).unwrap_or(0).min(MOST)
}

/// A request with this number, for the calling kernel thread. In a signal handler.
fn request(number: usize) {
    if number == net::REQUEST {
        net::arm();
    } else {
        dump::request(number);
    }
}

/// The driver's descriptors stand from here on: near the process's limit, if that is low.
fn lowest_descriptor() -> i32 {
    const BELOW_LIMIT: u64 = 32;
    /// A fork copies the table of descriptors as far as it is used.
    const MOST: u64 = 1024;
    let limit = getrlimit(Resource::Nofile).current.unwrap_or(MOST);
    limit.min(MOST).saturating_sub(BELOW_LIMIT).max(3) as i32
}

/// The courier's loop: sends workers home for which a signal waits there, and wakes words for
/// outsiders.
fn carry() {
    dump::begin_courier();
    signal::let_requests_through();
    let mut pause = untold::Pause::none();
    loop {
        let called = raw::next_called(pause.deadline().min(signal::deadline()));
        pause.serve();
        signal::pass_on();
        signal::abort_if_asked();
        outsider::take_posted();
        homes::finish_ended();
        let Some(shared) = servers::state() else {
            continue;
        };
        dump::serve(|| list::list(shared));
        let Some(worker) = called else { continue };
        cut::cut(engine::task_of(worker));
        servers::preempt(worker);
    }
}

/// Makes the calling guest a worker, if it is none yet. False if that is impossible. Called before
/// each wait for a word, by which a stay at home may end.
#[inline(always)]
pub(super) fn adopt(guest: &'static Guest, call: &Call) -> bool {
    match guest::adopted() {
        Some(adopted) if adopted.stays() => {
            adopted.end_stay_if_over();
            true
        }
        Some(_) => true,
        None => adopt_now(guest, call),
    }
}

#[cold]
fn adopt_now(guest: &'static Guest, call: &Call) -> bool {
    let Some(shared) = servers::state() else {
        return false;
    };
    // SAFETY: a guest without a role, which ends by `thread::exit`.
    let adopt = || unsafe { engine::adopt(shared) };
    let task = state::errno_kept(|| state::preserved(call.keeps_vectors(), adopt));
    if task.is_none() {
        return false;
    }
    if let Some(adopted) = guest::adopted() {
        guest.hand_over(adopted);
        native::note_adopted(guest, adopted);
    }
    true
}
