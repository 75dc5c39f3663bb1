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
use core::sync::atomic::{AtomicBool, Ordering};

struct Known {
    image: Image,
    patched: Patched,
}

struct State {
    is_hooked: &'static [u8; 512],
    except: fn(&Object) -> bool,
    known: Vec<Known>,
}

struct Shared {
    taken: AtomicBool,
    /// Somebody wanted to look while the lock was taken.
    again: AtomicBool,
    state: UnsafeCell<Option<State>>,
}

// SAFETY: the state is used by the holder of the lock only.
unsafe impl Sync for Shared {}

static SHARED: Shared = Shared {
    taken: AtomicBool::new(false),
    again: AtomicBool::new(false),
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
            known: Vec::new(),
        };
        stub::set(config.hook, config.is_hooked);
        let state = shared.insert(state);
        state.look().map_err(Error::Mappings)?;
        Ok(state.report())
    })
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

/// Forgets the objects that lie in the range: to be called before it is unmapped.
///
/// Does nothing while another thread looks for objects; then the next look notices.
pub fn forget(range: Range<usize>) {
    SHARED.try_with(|state| {
        let Some(state) = state else { return };
        state.drop_if(|known| {
            let object = &known.image.object.range;
            object.start < range.end && range.start < object.end
        });
    });
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
        let mappings = maps::read()?;
        let (images, unfinished) = image::find(&mappings);
        self.drop_if(|known| {
            !images.iter().any(|image| {
                image.object.range == known.image.object.range
                    && image.file == known.image.file
                    && known.patched.is_in_place(image)
            })
        });
        let mut look = Look {
            patched: 0,
            unfinished,
        };
        for image in images {
            let start = image.object.range.start;
            if self
                .known
                .iter()
                .any(|one| one.image.object.range.start == start)
            {
                continue;
            }
            let excepted = is_own_library(&image) || (self.except)(&image.object);
            if !excepted {
                look.patched += self.add(image, &mappings);
            }
        }
        Ok(look)
    }

    fn add(&mut self, image: Image, mappings: &[maps::Mapping]) -> usize {
        let patched = patch::patch(&image, mappings, self.is_hooked);
        let count = patched.counts.patched;
        self.known.push(Known { image, patched });
        count
    }

    fn drop_if(&mut self, gone: impl Fn(&Known) -> bool) {
        self.known.retain(|known| {
            let gone = gone(known);
            if gone {
                known.patched.retire();
            }
            !gone
        });
    }
}

/// Whether the engine is part of the object, and that is not the executable.
fn is_own_library(image: &Image) -> bool {
    // SAFETY: reads the kernel's vector, without a system call.
    let headers = unsafe { libc::getauxval(libc::AT_PHDR) } as usize;
    let object = &image.object.range;
    object.contains(&stub::entry()) && !object.contains(&headers)
}
