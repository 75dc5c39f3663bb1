//! The state of the engine: the hook's table of numbers, and the objects that were looked at.
//!
//! One lock guards it. It is only tried, never waited for in a hook: an allocation under the lock
//! may itself lead to the hook. A caller that does not get it leaves a note, and the holder looks
//! once more.

use super::image::{self, Image};
use super::patch::{self, Patched};
use super::{maps, raw, stub};
use crate::report::{Counts, Error, Object, Report};
use crate::{Config, Look};
use core::cell::UnsafeCell;
use core::ops::Range;
use core::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

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
}

struct Shared {
    taken: AtomicBool,
    /// Somebody wanted to look while the lock was taken.
    again: AtomicBool,
    /// The kernel thread that looks for objects.
    looker: AtomicUsize,
    state: UnsafeCell<Option<State>>,
}

// SAFETY: the state is used by the holder of the lock only.
unsafe impl Sync for Shared {}

static SHARED: Shared = Shared {
    taken: AtomicBool::new(false),
    again: AtomicBool::new(false),
    looker: AtomicUsize::new(0),
    state: UnsafeCell::new(None),
};

impl Shared {
    fn try_with<T>(&self, action: impl FnOnce(&mut Option<State>) -> T) -> Option<T> {
        // ORDERING(engine.1): Acquire, pairs with engine.2.
        if self.taken.swap(true, Ordering::Acquire) {
            return None;
        }
        // SAFETY: the lock is ours.
        let result = action(unsafe { &mut *self.state.get() });
        // ORDERING(engine.2): Release, pairs with engine.1.
        self.taken.store(false, Ordering::Release);
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
    let mut found = Look::default();
    // ORDERING(engine.3): SeqCst, pairs with engine.4: either the holder sees the note, or the lock
    // is free here.
    SHARED.again.store(true, Ordering::SeqCst);
    // ORDERING(engine.4): SeqCst, pairs with engine.3.
    while SHARED.again.load(Ordering::SeqCst) {
        let result = SHARED.try_with(|state| {
            SHARED.again.store(false, Ordering::Relaxed);
            state.as_mut().and_then(|state| state.look().ok())
        });
        match result {
            Some(Some(look)) => {
                found.patched += look.patched;
                found.unfinished = look.unfinished;
            }
            Some(None) => {}
            None => break,
        }
    }
    found
}

/// Waits until no other thread is looking for objects: to be called before the range is unmapped,
/// since a new object may lie there. May be called in a hook.
pub fn forget(range: Range<usize>) {
    // Far longer than a look takes. In the child of a fork the looking thread may be missing.
    const ROUNDS: usize = 100_000;
    let mut own = 0;
    for round in 0..=ROUNDS {
        // ORDERING(engine.5): Acquire, pairs with engine.6.
        let looker = SHARED.looker.load(Ordering::Acquire);
        if looker == 0 || looker == own || range.is_empty() {
            break;
        }
        match own {
            0 => own = raw::thread(),
            _ if round == ROUNDS => SHARED.looker.store(0, Ordering::Relaxed),
            _ => raw::give_way(),
        }
    }
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
        }
    }

    fn look(&mut self) -> Result<Look, raw::Errno> {
        SHARED.looker.store(raw::thread(), Ordering::Relaxed);
        let result = self.look_at_all();
        // ORDERING(engine.6): Release, pairs with engine.5.
        SHARED.looker.store(0, Ordering::Release);
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
        };
        for image in images {
            let excepted = is_own_library(&image) || (self.except)(&image.object);
            let patched = if excepted {
                Patched::none(Counts::default())
            } else {
                patch::patch(&image, &mappings, self.is_hooked, self.has_threads)
            };
            look.patched += patched.counts.patched;
            self.known.push(Known { image, patched });
        }
        Ok(look)
    }
}

/// Whether the engine is part of the object, and that is not the executable.
fn is_own_library(image: &Image) -> bool {
    // SAFETY: reads the kernel's vector, without a system call.
    let headers = unsafe { libc::getauxval(libc::AT_PHDR) } as usize;
    let object = &image.object.range;
    object.contains(&stub::entry()) && !object.contains(&headers)
}
