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

use super::{Header, Stamp};
use crate::identity::with_thread_pointer;
use crate::os::signal::set_mask;
use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::ptr::{NonNull, null, null_mut};
use std::sync::atomic::{AtomicPtr, Ordering::*};
use umcg_context::local::{self, Hold};
use umcg_context::lock::HoldLock;

/// Libraries with thread-local storage that one survey has room for.
const ROOM: usize = 512;

/// The public part of the loader's `struct link_map`.
#[repr(C)]
struct LinkMap {
    address: usize,
    name: *const c_char,
    dynamic: *const c_void,
    next: AtomicPtr<LinkMap>,
    previous: *const LinkMap,
}

/// The thread-local storage of a library.
#[derive(Clone, Copy)]
struct Module {
    /// Where the library is loaded.
    address: usize,
    image: *const u8,
    image_bytes: usize,
    bytes: usize,
    /// The address in the storage of the asking thread; null while it has none.
    data: *mut u8,
}

/// One step of a reset, for a part of a block.
#[derive(Debug)]
enum ResetStep {
    Copy {
        to: isize,
        from: *const u8,
        bytes: usize,
    },
    Zero {
        at: isize,
        bytes: usize,
    },
}

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

/// The loaded libraries, and where their storage is in each block.
#[derive(Debug)]
struct Survey {
    stamp: Stamp,
    /// For each library with static storage: where it is loaded, and the offset of its storage from
    /// the thread pointer.
    statics: Vec<(usize, isize)>,
    modules: Vec<Module>,
    complete: bool,
}

impl std::fmt::Debug for Module {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Module({:#x}, {} bytes)", self.address, self.bytes)
    }
}

/// Calls `f` for each loaded library, under the loader's lock, until it returns false.
fn each_library<F: FnMut(&libc::dl_phdr_info) -> bool>(mut f: F) {
    let _hold = Hold::begin(); // a worker preempted with the lock would block the next one here
    unsafe extern "C" fn call<F: FnMut(&libc::dl_phdr_info) -> bool>(
        info: *mut libc::dl_phdr_info,
        _size: usize,
        f: *mut c_void,
    ) -> c_int {
        // SAFETY: `f` is the closure that was passed in.
        let f = unsafe { &mut *f.cast::<F>() };
        // SAFETY: the loader passes a valid entry.
        c_int::from(!f(unsafe { &*info }))
    }
    // SAFETY: the callback fits, and the closure outlives the call.
    unsafe { libc::dl_iterate_phdr(Some(call::<F>), (&raw mut f).cast()) };
}

/// Which libraries are loaded now.
fn stamp_now() -> Stamp {
    let mut stamp = (0, 0);
    each_library(|info| {
        stamp = (info.dlpi_adds, info.dlpi_subs);
        false
    });
    stamp
}

fn headers(info: &libc::dl_phdr_info) -> &[libc::Elf64_Phdr] {
    if info.dlpi_phdr.is_null() {
        return &[];
    }
    // SAFETY: the loader gives the place and number of the program headers.
    unsafe { std::slice::from_raw_parts(info.dlpi_phdr, info.dlpi_phnum.into()) }
}

/// The thread-local storage of a library, if it has any.
fn module(info: &libc::dl_phdr_info) -> Option<Module> {
    let header = headers(info)
        .iter()
        .find(|header| header.p_type == libc::PT_TLS && header.p_memsz > 0)?;
    let address = info.dlpi_addr as usize;
    Some(Module {
        address,
        image: std::ptr::with_exposed_provenance(address.wrapping_add(header.p_vaddr as usize)),
        image_bytes: header.p_filesz as usize,
        bytes: header.p_memsz as usize,
        data: info.dlpi_tls_data.cast(),
    })
}

/// Whether the library holds this address.
fn holds(info: &libc::dl_phdr_info, address: usize) -> bool {
    let offset = address.wrapping_sub(info.dlpi_addr as usize);
    let within = |header: &libc::Elf64_Phdr| {
        offset.wrapping_sub(header.p_vaddr as usize) < header.p_memsz as usize
    };
    headers(info)
        .iter()
        .any(|header| header.p_type == libc::PT_LOAD && within(header))
}

/// Calls `f` while the thread pointer is `tp`. `f` uses nothing that a fresh block does not have.
///
/// # Safety
/// `tp` is that of a block that is not in use.
pub(super) unsafe fn on_storage(tp: usize, f: &mut dyn FnMut()) {
    let mask = set_mask(u64::MAX); // a handler would run with the wrong storage
    // SAFETY: the block is ours, and the caller has checked that the thread pointer can be written.
    unsafe { with_thread_pointer(tp, f) };
    set_mask(mask);
}

impl Survey {
    /// Surveys the storage at `tp`, fresh from glibc.
    ///
    /// # Safety
    /// As [`on_storage`].
    unsafe fn take(tp: usize, skip: [usize; 2]) -> Survey {
        let (mut modules, mut complete, mut stamp) = (Vec::with_capacity(ROOM), true, (0, 0));
        let mut look = || {
            each_library(|info| {
                stamp = (info.dlpi_adds, info.dlpi_subs);
                if let Some(module) = module(info).filter(|module| !skip.contains(&module.address))
                {
                    complete &= modules.len() < ROOM;
                    if complete {
                        // within its capacity: malloc is not called with this storage
                        modules.push(module);
                    }
                }
                true
            });
        };
        // SAFETY: passed on.
        unsafe { on_storage(tp, &mut look) };
        let place = |module: &Module| {
            (
                module.address,
                (module.data.addr().wrapping_sub(tp)) as isize,
            )
        };
        let statics = modules
            .iter()
            .filter(|module| !module.data.is_null())
            .map(place)
            .collect();
        Survey {
            stamp,
            statics,
            modules,
            complete,
        }
    }
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

// SAFETY: the pointers to images and storage are used by value only, or followed under the loader's
// lock.
unsafe impl Send for Survey {}
// SAFETY: a plan is written before it is shared, and its pointers point into pinned libraries.
unsafe impl Send for ResetPlan {}
// SAFETY: as above.
unsafe impl Sync for ResetPlan {}

/// The steps that reset the storage of a library: its image, then zeros, without our own words.
fn steps(module: &Module, tp: usize) -> impl Iterator<Item = ResetStep> + use<> {
    let start = module.data.addr().wrapping_sub(tp) as isize;
    let (middle, end) = (
        start + module.image_bytes as isize,
        start + module.bytes as isize,
    );
    let (words, words_end) = (local::offset(), local::offset() + local::BYTES as isize);
    let image = module.image;
    let around = move |from: isize, to: isize| [(from, to.min(words)), (from.max(words_end), to)];
    let parts = move |from: isize, to: isize| {
        let overlaps = words < to && from < words_end;
        around(from, to)
            .into_iter()
            .skip(usize::from(!overlaps))
            .map(move |part| if overlaps { part } else { (from, to) })
    };
    let copies = parts(start, middle)
        .filter(|(from, to)| from < to)
        .map(move |(from, to)| ResetStep::Copy {
            to: from,
            from: image.wrapping_offset(from - start),
            bytes: (to - from) as usize,
        });
    let zeros = parts(middle, end).filter(|(from, to)| from < to);
    copies.chain(zeros.map(|(from, to)| ResetStep::Zero {
        at: from,
        bytes: (to - from) as usize,
    }))
}

impl ResetStep {
    /// # Safety
    /// The step stays within the storage that `tp` names, and the image is there.
    #[inline(always)]
    unsafe fn perform(&self, tp: usize) {
        let place =
            |at: isize| std::ptr::with_exposed_provenance_mut::<u8>(tp.wrapping_add_signed(at));
        match *self {
            // SAFETY: passed on; an image and a storage do not overlap.
            ResetStep::Copy { to, from, bytes } => unsafe {
                place(to).copy_from_nonoverlapping(from, bytes)
            },
            // SAFETY: passed on.
            ResetStep::Zero { at, bytes } => unsafe { place(at).write_bytes(0, bytes) },
        }
    }
}

fn last(mut map: *const LinkMap) -> *const LinkMap {
    loop {
        // SAFETY: an entry of the loader's list, whose lock is held.
        match unsafe { (*map).next.load(Relaxed) } {
            next if next.is_null() => return map,
            next => map = next,
        }
    }
}

fn name_of(map: *const LinkMap) -> CString {
    // SAFETY: an entry of the loader's list, whose lock is held.
    let name = unsafe { (*map).name };
    if name.is_null() {
        CString::default()
    } else {
        // SAFETY: the loader's name of it.
        unsafe { owned(name) }
    }
}

/// # Safety
/// A C string.
unsafe fn owned(name: *const c_char) -> CString {
    // SAFETY: passed on.
    unsafe { CStr::from_ptr(name) }.to_owned()
}

/// Makes sure that a library is never unloaded.
fn pinned(name: &CStr) -> bool {
    if name.is_empty() || name.to_bytes().starts_with(b"linux-vdso") {
        return true; // the program itself, and the kernel's own object
    }
    // SAFETY: a C string; a library that is not loaded is not loaded by this.
    !unsafe {
        libc::dlopen(
            name.as_ptr(),
            libc::RTLD_LAZY | libc::RTLD_NOLOAD | libc::RTLD_NODELETE,
        )
    }
    .is_null()
}

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
