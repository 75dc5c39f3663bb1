//! The state of the engine: the hook's table of numbers, and the objects that were looked at.
//!
//! One lock guards it. A caller that finds it taken waits until a look has ended that began after
//! its call: what it has mapped may be run as soon as it goes on. The holder's own calls, of its
//! allocations, are none to wait for.
//!
//! Rejected: a note for the holder, to look once more. The caller went on meanwhile, and ran code
//! whose sites were not replaced yet.

use super::image::{self, Image};
use super::maps::{self, Mapping};
use super::patch::{self, Patched};
use super::{net, own, raw, stub};
use crate::report::{Counts, Error, Object, Report};
use crate::{Config, Look};
use core::cell::UnsafeCell;
use core::ops::Range;
use core::sync::atomic::{AtomicUsize, Ordering};

struct Known {
    image: Image,
    patched: Patched,
}

struct State {
    is_hooked: &'static [u8; 512],
    except: fn(&Object) -> bool,
    /// Whether other threads may be in the code that is looked at.
    has_threads: bool,
    known: Vec<Known>,
    /// As [`Look::misses`], of the last look.
    misses: bool,
}

struct Shared {
    /// The kernel thread that has the lock; 0 if it is free, [`MISSING`] for good.
    holder: AtomicUsize,
    /// How many looks have begun.
    begun: AtomicUsize,
    /// How many of them have ended, times four, and what the last one has found: [`UNFINISHED`],
    /// [`MISSES`].
    ended: AtomicUsize,
    state: UnsafeCell<Option<State>>,
}

// SAFETY: the state is used by the holder of the lock only.
unsafe impl Sync for Shared {}

/// An object that is not mapped completely.
const UNFINISHED: usize = 1;
/// As [`Look::misses`].
const MISSES: usize = 2;
const ONE_MORE: usize = 4;

/// This is the child of a fork, and the holder was another thread of its parent's. Nothing is
/// looked at any more.
const MISSING: usize = usize::MAX;

static SHARED: Shared = Shared {
    holder: AtomicUsize::new(0),
    begun: AtomicUsize::new(0),
    ended: AtomicUsize::new(0),
    state: UnsafeCell::new(None),
};

impl Shared {
    fn try_with<T>(&self, action: impl FnOnce(&mut Option<State>) -> T) -> Option<T> {
        // ORDERING(engine.1): Acquire, pairs with engine.2.
        self.holder
            .compare_exchange(0, raw::thread(), Ordering::Acquire, Ordering::Relaxed)
            .ok()?;
        // SAFETY: the lock is ours.
        let result = action(unsafe { &mut *self.state.get() });
        // ORDERING(engine.2): Release, pairs with engine.1 and engine.5.
        self.holder.store(0, Ordering::Release);
        Some(result)
    }

    fn with<T>(&self, action: impl FnOnce(&mut Option<State>) -> T) -> T {
        let mut action = Some(action);
        loop {
            let done = self.try_with(|state| action.take().map(|action| action(state)));
            if let Some(Some(result)) = done {
                return result;
            }
            core::hint::spin_loop();
        }
    }
}

/// Installs the hook and patches all objects that are loaded.
///
/// # Safety
///
/// The hook behaves as [`crate::Hook`] demands. If other threads run, the program's handler of
/// SIGTRAP calls [`on_trap`](crate::on_trap).
pub unsafe fn install(config: Config) -> Result<Report, Error> {
    SHARED.with(|shared| {
        if shared.is_some() {
            return Err(Error::Installed);
        }
        let state = State {
            is_hooked: config.is_hooked,
            except: config.except,
            has_threads: config.has_threads,
            known: Vec::new(),
            misses: false,
        };
        stub::set(&config);
        let state = shared.insert(state);
        state.look().map_err(Error::Mappings)?;
        state.has_threads = true;
        let report = state.report();
        if is_refused(&report.total()) {
            *shared = None;
            return Err(Error::Unchangeable);
        }
        Ok(report)
    })
}

/// Whether there were sites to replace, and none was.
fn is_refused(total: &Counts) -> bool {
    total.patched == 0 && total.no_memory + total.not_writable > 0
}

/// Looks for objects that were loaded since, and patches them. Objects whose addresses were reused
/// are noticed. Does nothing before [`install`].
///
/// To be called when code may have been mapped. May be called in a hook.
pub fn look_again() -> Look {
    const UNKNOWN: Look = Look {
        patched: 0,
        unfinished: true,
        misses: false,
    };
    // ORDERING(engine.3): SeqCst, pairs with engine.4: a look that is not counted here reads the
    // mappings after this.
    let before = SHARED.begun.load(Ordering::SeqCst);
    let mut patience = Patience::new();
    loop {
        // ORDERING(engine.6): Acquire, pairs with engine.7.
        let ended = SHARED.ended.load(Ordering::Acquire);
        if ended / ONE_MORE > before {
            return Look {
                patched: 0,
                unfinished: ended & UNFINISHED != 0,
                misses: ended & MISSES != 0,
            };
        }
        if let Some(look) = SHARED.try_with(|state| state.as_mut().map(State::look)) {
            return look.unwrap_or(Ok(Look::default())).unwrap_or(UNKNOWN);
        }
        match patience.wait() {
            Holder::Other => {}
            Holder::Caller => return UNKNOWN,
            Holder::None => return Look::default(),
        }
    }
}

/// The thread that has the lock, as another one finds it.
#[derive(PartialEq, Eq)]
enum Holder {
    Other,
    /// It is the one that asks.
    Caller,
    None,
}

/// A wait for the thread that has the lock.
struct Patience {
    own: usize,
    rounds: usize,
}

impl Patience {
    /// So many rounds are between two questions to the kernel whether there is such a thread.
    const ROUNDS: usize = 1000;

    fn new() -> Patience {
        Patience {
            own: raw::thread(),
            rounds: 0,
        }
    }

    /// Lets others run, if that may help.
    fn wait(&mut self) -> Holder {
        // ORDERING(engine.5): Acquire, pairs with engine.2.
        let holder = SHARED.holder.load(Ordering::Acquire);
        if holder == self.own {
            return Holder::Caller;
        }
        if holder == MISSING {
            return Holder::None;
        }
        self.rounds += 1;
        if holder != 0 && self.rounds % Self::ROUNDS == 0 && !raw::is_thread(holder) {
            // Unless it has given the lock back, and has ended since.
            let _ = SHARED.holder.compare_exchange(
                holder,
                MISSING,
                Ordering::Relaxed,
                Ordering::Relaxed,
            );
        } else {
            raw::give_way();
        }
        Holder::Other
    }
}

/// Waits until no other thread is looking for objects: to be called before the range is unmapped,
/// since a new object may lie there. May be called in a hook.
pub fn forget(range: Range<usize>) {
    // ORDERING(engine.5): Acquire, pairs with engine.2.
    let is_held = || SHARED.holder.load(Ordering::Acquire) != 0;
    if range.is_empty() || !is_held() {
        return;
    }
    let mut patience = Patience::new();
    while is_held() && patience.wait() == Holder::Other {}
}

/// What was found so far.
pub fn report() -> Report {
    SHARED.with(|state| state.as_ref().map_or_else(Report::default, State::report))
}

impl State {
    fn report(&self) -> Report {
        let counted = self
            .known
            .iter()
            .filter(|one| one.patched.counts != Counts::default());
        let objects = counted.map(|one| (one.image.object.clone(), one.patched.counts));
        Report {
            objects: objects.collect(),
            misses: self.misses,
        }
    }

    fn look(&mut self) -> Result<Look, raw::Errno> {
        // ORDERING(engine.4): SeqCst, pairs with engine.3.
        let number = SHARED.begun.fetch_add(1, Ordering::SeqCst) + 1;
        let result = self.look_at_all();
        let mut ended = number * ONE_MORE;
        if !result.is_ok_and(|look| !look.unfinished) {
            ended |= UNFINISHED;
        }
        if self.misses {
            ended |= MISSES;
        }
        // ORDERING(engine.7): Release, pairs with engine.6.
        SHARED.ended.store(ended, Ordering::Release);
        result
    }

    fn look_at_all(&mut self) -> Result<Look, raw::Errno> {
        let mappings = maps::read()?;
        self.known.retain(|known| {
            let gone = known.patched.is_gone(&known.image, &mappings);
            if gone {
                known.patched.retire();
            }
            !gone
        });
        let (images, unfinished) = image::find(&mappings, |first| {
            let is_it = |known: &Known| known.image.object.range.start == first.range.start;
            self.known.iter().any(is_it)
        });
        let mut look = Look {
            patched: 0,
            unfinished,
            misses: false,
        };
        for image in images {
            let is_own = is_own_library(&image);
            if is_own {
                net::note_own(image.object.range.start..own::all().end);
            }
            let excepted = is_own || (self.except)(&image.object);
            let patched = if excepted {
                Patched::none(Counts::default())
            } else {
                patch::patch(&image, &mappings, self.is_hooked, self.has_threads)
            };
            look.patched += patched.counts.patched;
            self.known.push(Known { image, patched });
        }
        look.misses = self.known.iter().any(Known::misses)
            || !unfinished && mappings.iter().any(|one| self.is_unknown(one));
        self.misses = look.misses;
        Ok(look)
    }

    /// Whether this is code of no object that was looked at: of a compiler in the process.
    fn is_unknown(&self, mapping: &Mapping) -> bool {
        const OF_THE_KERNEL: [&[u8]; 3] = [b"[vdso]", b"[vsyscall]", b"[uprobes]"];
        let start = mapping.range.start;
        mapping.executable
            && !OF_THE_KERNEL.contains(&&*mapping.path)
            && !net::is_own(start)
            && !self.known.iter().any(|known| known.has(start))
    }
}

impl Known {
    /// Whether the address lies in the object, or in its trampolines.
    fn has(&self, address: usize) -> bool {
        self.image.object.range.contains(&address) || self.patched.has(address)
    }

    /// Whether a site is left that could not be replaced, or what may be one: in an executable that
    /// has no tables of its functions, for example. In libraries that is data.
    fn misses(&self) -> bool {
        let counts = &self.patched.counts;
        let is_executable = self.image.object.range.contains(&headers_of_executable());
        let may_be = counts.outside + counts.undecoded;
        counts.no_window + counts.no_memory + counts.not_writable > 0 || is_executable && may_be > 0
    }
}

/// Whether the engine is part of the object, and that is not the executable.
fn is_own_library(image: &Image) -> bool {
    let object = &image.object.range;
    object.contains(&stub::entry()) && !object.contains(&headers_of_executable())
}

/// An address in the executable.
fn headers_of_executable() -> usize {
    // SAFETY: reads the kernel's vector, without a system call.
    unsafe { libc::getauxval(libc::AT_PHDR) as usize }
}
