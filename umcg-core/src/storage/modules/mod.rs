//! The libraries that have thread-local storage, and how a block's storage is reset.
//!
//! As long as the libraries are those that the probe saw, the values to write are known beforehand.
//! The probe has pinned the libraries with thread-local storage, so their images stay in place. It
//! has also pinned the last entry of the loader's list, so that entry's successor tells, without a
//! lock, whether a library has come since. While there is one, each reset asks the loader
//! (`dl_iterate_phdr`), under its lock.
//!
//! Not reset: the storage of libc and of the dynamic linker, and the words of
//! [`umcg_context::local`], which say whose storage it is.

mod loader;
mod step;
mod survey;

pub(super) use survey::on_storage;

use super::Header;
use loader::{LinkMap, each_library, holds, last, name_of, owned, pinned, stamp_now};
use std::ffi::CString;
use std::ptr::{NonNull, null, null_mut};
use std::sync::atomic::Ordering::*;
use step::{ResetStep, steps};
use survey::{Module, Survey, module};
use umcg_context::local;
use umcg_context::lock::HoldLock;

/// How the blocks of this process are reset.
#[derive(Debug)]
pub(super) struct ResetPlan {
    /// The last library of the list, or null if the loader has to be asked each time.
    tail: *const LinkMap,
    steps: Vec<ResetStep>,
    /// Where libc and the dynamic linker are loaded.
    skip: [usize; 2],
    survey: Survey,
}

impl ResetPlan {
    /// Makes a plan from the storage at `tp`, fresh from glibc. `libc` and `linker` are addresses
    /// in those two.
    ///
    /// # Safety
    /// As [`on_storage`].
    pub(super) unsafe fn make(
        tp: usize,
        libc: usize,
        linker: usize,
    ) -> Result<ResetPlan, &'static str> {
        let mut skip = [usize::MAX; 2];
        each_library(|info| {
            for (at, address) in [libc, linker].into_iter().enumerate() {
                if holds(info, address) {
                    skip[at] = info.dlpi_addr as usize;
                }
            }
            true
        });
        if skip.contains(&usize::MAX) {
            return Err("libc or the dynamic linker is not among the loaded libraries");
        }
        // SAFETY: passed on.
        let survey = unsafe { Survey::take(tp, skip) };
        let words = tp.wrapping_add_signed(local::offset());
        let ours = |module: &&Module| {
            words.wrapping_sub(module.data.addr()) < module.bytes && !module.data.is_null()
        };
        if !survey.complete || survey.modules.iter().filter(ours).count() != 1 {
            return Err("the storage of this library is not where it should be");
        }
        let steps = survey
            .modules
            .iter()
            .filter(|module| !module.data.is_null())
            .flat_map(|module| steps(module, tp))
            .collect();
        Ok(ResetPlan {
            tail: null(),
            steps,
            skip,
            survey,
        })
    }

    /// Finds and pins the libraries that the fast path relies on. Called by a thread that may load
    /// libraries.
    pub(super) fn pin(&mut self) {
        let skip = self.skip;
        // SAFETY: no name: the program itself.
        let program = unsafe { libc::dlopen(null(), libc::RTLD_LAZY) };
        let mut map: *mut LinkMap = null_mut();
        if program.is_null()
            // SAFETY: the callee checks the handle, and writes a pointer.
            || unsafe { libc::dlinfo(program, libc::RTLD_DI_LINKMAP, (&raw mut map).cast()) } != 0
        {
            return;
        }
        let (mut names, mut stamp, mut tail) = (Vec::new(), (0, 0), null::<LinkMap>());
        each_library(|info| {
            if tail.is_null() {
                tail = last(map); // the list does not change under the lock
                stamp = (info.dlpi_adds, info.dlpi_subs);
                names.push(name_of(tail));
            }
            if module(info).is_some_and(|module| !skip.contains(&module.address)) {
                names.push(if info.dlpi_name.is_null() {
                    CString::default()
                } else {
                    // SAFETY: null or the library's name.
                    unsafe { owned(info.dlpi_name) }
                });
            }
            true
        });
        let dynamic = self
            .survey
            .modules
            .iter()
            .any(|module| module.data.is_null());
        if !dynamic
            && names.iter().all(|name| pinned(name))
            && stamp == self.survey.stamp
            && stamp == stamp_now()
        {
            self.tail = tail;
        }
    }

    /// Whether the libraries are those that the steps were made for.
    #[inline(always)]
    fn is_current(&self) -> bool {
        // SAFETY: null, or an entry that was pinned.
        unsafe { self.tail.as_ref() }.is_some_and(|tail| tail.next.load(Relaxed).is_null())
    }

    /// Resets the block's storage, if libraries have come since the last reset.
    ///
    /// # Safety
    /// The thread pointer is that of the block.
    #[inline]
    pub(super) unsafe fn catch_up(&self, header: NonNull<Header>, scratch: &dyn Scratch) {
        // SAFETY: passed on.
        if !self.is_current() && unsafe { (*header.as_ptr()).stamp } != stamp_now() {
            // SAFETY: passed on.
            unsafe { self.reset_by_loader(header, scratch) };
        }
    }

    /// Resets the block's storage.
    ///
    /// # Safety
    /// The thread pointer is that of the block, and none of its thread-locals is in use.
    #[inline]
    pub(super) unsafe fn reset(&self, header: NonNull<Header>, scratch: &dyn Scratch) {
        if !self.is_current() {
            // SAFETY: passed on.
            return unsafe { self.reset_by_loader(header, scratch) };
        }
        // SAFETY: passed on.
        let tp = unsafe { (*header.as_ptr()).tp };
        for step in &self.steps {
            // SAFETY: the step stays within a library's part of each block, and its image is
            // pinned.
            unsafe { step.perform(tp) };
        }
        // SAFETY: passed on.
        unsafe { (*header.as_ptr()).stamp = (0, 0) }; // libraries that come now have not been here
    }

    /// # Safety
    /// As [`ResetPlan::reset`].
    #[cold]
    unsafe fn reset_by_loader(&self, header: NonNull<Header>, scratch: &dyn Scratch) {
        // SAFETY: passed on.
        let tp = unsafe { (*header.as_ptr()).tp };
        let mut late = LATE.lock();
        loop {
            let stamp = stamp_now();
            if late.as_ref().is_none_or(|survey| survey.stamp != stamp) {
                // Without memory for a survey, static storage of the libraries that came last is
                // not reset. No block was made since.
                if let Some(fresh) = scratch.get() {
                    // SAFETY: the scratch block is used under this lock only.
                    *late = Some(unsafe { Survey::take(fresh, self.skip) });
                    scratch.put();
                }
            }
            let statics = late
                .as_ref()
                .map_or(&self.survey.statics, |survey| &survey.statics);
            let mut moved = false;
            each_library(|info| {
                moved |= (info.dlpi_adds, info.dlpi_subs) != stamp;
                if let Some(mut module) =
                    module(info).filter(|module| !moved && !self.skip.contains(&module.address))
                {
                    if let Some((_, place)) = statics
                        .iter()
                        .find(|(address, _)| *address == module.address)
                    {
                        module.data =
                            std::ptr::with_exposed_provenance_mut(tp.wrapping_add_signed(*place));
                    }
                    if !module.data.is_null() {
                        for step in steps(&module, tp) {
                            // SAFETY: the loader gives the places of the library's storage and
                            // image, and keeps both under the lock.
                            unsafe { step.perform(tp) };
                        }
                    }
                }
                !moved
            });
            if !moved {
                // SAFETY: passed on.
                return unsafe { (*header.as_ptr()).stamp = stamp };
            }
        }
    }
}

/// Lends a block fresh from glibc.
pub(super) trait Scratch {
    /// Makes it, and returns its thread pointer. None without memory.
    fn get(&self) -> Option<usize>;
    /// Frees the memory that glibc allocated for it.
    fn put(&self);
}

/// The last survey that was needed after the probe's.
static LATE: HoldLock<Option<Survey>> = HoldLock::new(None);

// SAFETY: a plan is written before it is shared, and its pointers point into pinned libraries.
unsafe impl Send for ResetPlan {}
// SAFETY: as above.
unsafe impl Sync for ResetPlan {}

pub(super) fn before_fork() {
    LATE.take();
}

/// # Safety
/// Called once after each `before_fork`, by the thread that called that.
pub(super) unsafe fn forked() {
    // SAFETY: passed on.
    drop(unsafe { LATE.adopt() });
}

#[cfg(test)]
mod tests {
    use super::super::glibc::{self, Glibc, PROBE_TID};
    use super::super::{FIRST_TID, LAST_TID, map};
    use super::*;
    use std::sync::atomic::{AtomicBool, AtomicI32};
    use std::time::Duration;

    /// The state that three threads share: one that holds the loader's lock, one that surveys, and
    /// one that watches both.
    #[derive(Default)]
    struct Scene {
        /// The survey is about to begin.
        asked: AtomicBool,
        inside: AtomicBool,
        may_leave: AtomicBool,
        lent: AtomicBool,
        surveyed: AtomicBool,
        surveyor: AtomicI32,
    }

    /// Lends the scratch block once a thread holds the loader's lock, and notes the end of the
    /// survey.
    struct Noted<'a>(&'a Glibc, &'a Scene);

    impl Scratch for Noted<'_> {
        fn get(&self) -> Option<usize> {
            self.1.asked.store(true, Relaxed);
            wait(&self.1.inside);
            let place = self.0.get();
            self.1.lent.store(true, Relaxed);
            place
        }

        fn put(&self) {
            self.1.surveyed.store(true, Relaxed);
            self.0.put();
        }
    }

    fn wait(flag: &AtomicBool) {
        while !flag.load(Relaxed) {
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    fn sleeps(tid: i32) -> bool {
        let stat = std::fs::read_to_string(format!("/proc/self/task/{tid}/stat")).unwrap();
        stat.rsplit(") ").next().unwrap().starts_with('S')
    }

    /// A block for this test alone, with this tid.
    fn block(glibc: &Glibc, tid: u32) -> NonNull<Header> {
        let place = map(glibc.stride()).unwrap();
        // SAFETY: new, zero, and as large as a block.
        NonNull::new(unsafe { glibc.make(place, tid) }).unwrap()
    }

    impl Scene {
        /// Holds the loader's lock from when it is asked to until it may leave.
        fn stand_in_the_lock(&self, header: NonNull<Header>) {
            wait(&self.asked);
            // SAFETY: no other thread uses the block.
            let tp = unsafe { (*header.as_ptr()).tp };
            let mut stand = || {
                each_library(|_| {
                    self.inside.store(true, Relaxed);
                    wait(&self.may_leave);
                    false
                });
            };
            // SAFETY: no other thread uses the block.
            unsafe { on_storage(tp, &mut stand) };
        }

        /// A block whose worker ends, after libraries have come.
        fn survey(&self, glibc: &Glibc, header: NonNull<Header>) {
            self.surveyor
                .store(rustix::thread::gettid().as_raw_nonzero().get(), Relaxed);
            // SAFETY: no other thread uses the block.
            let tp = unsafe { (*header.as_ptr()).tp };
            *LATE.lock() = None;
            // SAFETY: the thread pointer is the block's, of which no thread-local is in use.
            let mut reset = || unsafe { glibc.plan.reset_by_loader(header, &Noted(glibc, self)) };
            // SAFETY: no other thread uses the block.
            unsafe { on_storage(tp, &mut reset) };
        }

        /// Whether the survey waits for the lock's holder.
        fn waits(&self) -> bool {
            wait(&self.lent);
            while !self.surveyed.load(Relaxed) && !sleeps(self.surveyor.load(Relaxed)) {
                std::thread::sleep(Duration::from_millis(1));
            }
            // If the survey did not wait, its thread sleeps after it, with its own tid.
            !self.surveyed.load(Relaxed)
        }
    }

    /// The loader's lock is recursive, and knows its owner by the tid.
    #[test]
    fn a_survey_waits_for_whichever_block_is_in_the_loader() {
        let Ok(glibc) = glibc::get() else {
            return println!("no blocks here");
        };
        for tid in [FIRST_TID, LAST_TID, PROBE_TID] {
            let (scene, ends) = (Scene::default(), block(glibc, FIRST_TID + 1));
            let stands = block(glibc, tid);
            let (stands, ends) = (
                stands.as_ptr().expose_provenance(),
                ends.as_ptr().expose_provenance(),
            );
            let header = |address: usize| NonNull::new(glibc::at::<Header>(address)).unwrap();
            let waits = std::thread::scope(|scope| {
                scope.spawn(|| scene.stand_in_the_lock(header(stands)));
                scope.spawn(|| scene.survey(glibc, header(ends)));
                let waits = scene.waits();
                scene.may_leave.store(true, Relaxed);
                waits
            });
            assert!(
                waits,
                "the survey is taken for the owner {tid:#x} of the loader's lock"
            );
        }
    }
}
