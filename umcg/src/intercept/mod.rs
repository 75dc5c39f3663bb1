//! Interception: the system calls of an unmodified program, and its threads as workers.
//!
//! The library that `umcg run` loads calls [`begin`]. From then on each system call of the program
//! comes to the `hook`, from the engine (`umcg-intercept`), which finds the sites and leads them
//! there. Waits of threads for private words are served in user mode; everything else is done by
//! the kernel, where it depends on it on the thread's own kernel thread.
//!
//! | module | holds |
//! |---|---|
//! | `hook` | decides on each call |
//! | `idle_wake` | wake-ups of words for which nobody waits, before the hook |
//! | `stage` | stages of a call, and its notes |
//! | `suspend` | how a call usually leaves its server and comes back |
//! | `class` | the table of system calls |
//! | `guest` | the program's threads, and the moments when no handler of theirs may run |
//! | `run` | the runtime that schedules them |
//! | `futex`, `sleep` | waits that are served in user mode |
//! | `trial` | calls that may block, tried in place |
//! | `file_write` | writes to files, made in place |
//! | `in_place` | errors, kinds of files and signals, for both |
//! | `partial` | the rest of those that were done in part |
//! | `thread` | clone, fork, exec, exit |
//! | `homes`, `home` | kernel threads whose guests have ended, for new threads |
//! | `pool` | their list, and those that are on their way |
//! | `notes` | notes about a guest's home |
//! | `attributes` | calls that change attributes which threads inherit |
//! | `freed` | changes of the mask without a way home |
//! | `untold` | new threads that wait or give way, whose homes the courier tells of their masks |
//! | `words`, `robust` | words of thread ids, and robust locks, at the end of a thread |
//! | `signal` | actions, handlers, masks |
//! | `code` | code that is mapped later |
//! | `descriptor` | descriptors of the library's own |
//! | `outsider` | private words and threads that are no guests |
//! | `memory` | memory that a guest names |
//! | `stats`, `report` | counts, and what `--stats` prints of them |
//! | `stand` | where a guest that is off a server stands |
//! | `dump`, `list`, `text`, `maps` | the list of threads, for `umcg dump` and SIGQUIT |
//! | `out` | bytes that the library writes |
//! | `trace` | which guest ran on which server, for `--trace` |
//! | `layout` | the same for debuggers |
//! | `state` | registers that a call preserves and a switch does not |
//!
//! Protocol and argument: docs/protocols/run.md.

mod attributes;
mod class;
mod code;
mod courier;
mod cpu_time;
mod descriptor;
mod dump;
mod file_write;
mod freed;
mod futex;
mod guest;
mod home;
mod homes;
mod hook;
mod idle_wake;
mod in_place;
mod layout;
mod list;
mod maps;
mod memory;
mod native;
mod net;
mod notes;
mod notice;
mod out;
mod outsider;
mod partial;
mod pool;
mod report;
mod robust;
mod run;
mod servers;
mod signal;
mod sleep;
mod stage;
mod stand;
mod state;
mod stats;
mod suspend;
mod text;
mod thread;
mod trace;
mod trial;
mod turn;
mod untold;
mod words;

pub use notice::{notice_blocking, notices_blocking};
pub use run::{SchedulerKind, Settings};
pub use umcg_intercept::Error;

use guest::Guest;
use umcg_core::context::local;
use umcg_core::fork;
use umcg_intercept::{Config, Permit, install};

/// Writes `umcg: …` on standard error, by one call that is no guest's.
pub fn tell(text: std::fmt::Arguments<'_>) {
    let line = format!("umcg: {text}\n");
    let at = line.as_ptr().expose_provenance();
    let arguments = [libc::STDERR_FILENO as usize, at, line.len(), 0, 0, 0];
    // SAFETY: the bytes are the line's.
    unsafe { umcg_core::call(libc::SYS_write, arguments) };
}

/// Leads the system calls of the process to this layer. The caller is a guest from here on, and so
/// are all threads that guests make.
///
/// # Errors
/// The engine cannot be installed here: nothing has changed.
///
/// # Safety
/// Called once, while the process has one thread.
pub unsafe fn begin(settings: Settings) -> Result<(), Error> {
    if !state::is_enough() {
        return Err(Error::Unsupported);
    }
    guest::note_process();
    run::set(settings);
    if settings.stats {
        report::want();
    }
    let config = Config {
        permit: Some(Permit {
            numbers: &class::PERMITTED,
            word: local::guest_offset(),
        }),
        quick: Some(idle_wake::QUICK),
        ..Config::new(hook::hook, &class::HOOKED)
    };
    // A handler of the program's that came to a site meanwhile would meet a trap that no handler
    // takes yet.
    umcg_core::signal::without(|| {
        // SAFETY: the hook keeps to its contract, and there is one thread.
        let report = unsafe { install(config) }?;
        if report.misses {
            code::misses();
        }
        fork::by_interception();
        signal::take_over();
        Ok::<(), Error>(())
    })?;
    let Some(first) = Guest::make() else {
        umcg_core::fatal(format_args!("no memory for the state of the first thread"))
    };
    first.note_mask(signal::change(libc::SIG_BLOCK, 0));
    first.begin();
    Ok(())
}
