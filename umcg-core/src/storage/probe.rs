//! Checks that glibc is as the module `glibc` assumes, and tries a block.
//!
//! The calling thread looks up the symbols itself, because a library's constructor may call this
//! with the loader's lock held. Data of a running thread is read only from a thread made for the
//! purpose, which owns nothing. Each step checks the assumptions of the next, and none writes
//! outside memory of ours.

use super::glibc::{self, Glibc, PthreadKey, PthreadKeyData, PthreadLayout, Symbols, get_at};
use super::modules::{ResetPlan, on_storage};
use crate::arch::control_block;
use crate::identity::{self, credentials, threaded};
use crate::os::{kernel_thread, sanitizer};
use std::cell::Cell;
use std::ffi::{CStr, c_void};
use std::ptr::{null_mut, without_provenance_mut};

/// Why there are no blocks.
pub(super) enum ProbeError {
    /// The reason is permanent.
    Never(&'static str),
    /// The system is short of some resource.
    NotNow(&'static str),
}

impl From<&'static str> for ProbeError {
    fn from(why: &'static str) -> ProbeError {
        ProbeError::Never(why)
    }
}

/// No control block is larger.
const LARGEST: usize = 1 << 14;
/// A larger storage would be too much for a worker.
const LARGEST_STORAGE: usize = 1 << 20;
/// Bytes of a `struct __res_state`.
const RESOLVER: usize = 568;

/// The caller holds: it stays with its storage meanwhile.
pub(super) fn look() -> Result<Glibc, ProbeError> {
    if std::env::var_os("UMCG_NO_OWN_STORAGE").is_some() {
        return Err("UMCG_NO_OWN_STORAGE forbids it".into());
    }
    if std::env::var_os("UMCG_NO_FSGSBASE").is_some() || !umcg_context::thread_pointer_writable() {
        return Err("the thread pointer cannot be written in user mode".into());
    }
    if sanitizer::find().is_some() {
        return Err("the program was built with a sanitizer, which knows threads only".into());
    }
    let symbols = Symbols::look_up()?;
    let probe = kernel_thread::spawn("umcg-probe", || {
        let look = move || -> Result<Glibc, ProbeError> {
            let thread = PthreadLayout::look(&symbols)?;
            let plan = try_block(&symbols, &thread)?;
            Ok(Glibc {
                symbols,
                thread,
                plan,
            })
        };
        (identity::tid(), look())
    });
    let probe =
        probe.map_err(|_| ProbeError::NotNow("the system gives no thread to try it with"))?;
    let (tid, result) = probe
        .join()
        .map_err(|_| ProbeError::Never("the trial failed"))?;
    await_end(tid);
    let mut glibc = result?;
    threaded::note(); // that thread was the second one
    if credentials::install().is_err() {
        return Err("a handler for changes of credentials cannot be installed".into());
    }
    glibc.plan.pin();
    Ok(glibc)
}

/// The kernel counts a thread for a while after it was joined, and a limit may leave no room for
/// the next.
fn await_end(tid: u32) {
    const LOOKS: usize = 1000;
    let process = std::process::id();
    for _ in 0..LOOKS {
        // SAFETY: no signal is sent.
        if unsafe { libc::syscall(libc::SYS_tgkill, process, tid, 0) } != 0 {
            return;
        }
        std::thread::yield_now();
    }
}

fn symbol(name: &CStr) -> Option<usize> {
    // SAFETY: a C string; any handle.
    let address = unsafe { libc::dlsym(libc::RTLD_DEFAULT, name.as_ptr()) };
    (!address.is_null()).then(|| address.expose_provenance())
}

/// A field's description for libthread_db: bits, elements, offset.
fn field(name: &CStr, bits: u32, elements: u32, within: usize) -> Option<usize> {
    // SAFETY: such a symbol is three 32-bit numbers.
    let said: [u32; 3] = unsafe { get_at(symbol(name)?) };
    let (offset, end) = (
        said[2] as usize,
        said[2] as usize + (bits / 8 * elements) as usize,
    );
    (said[0] == bits && (said[1] == elements || elements == 1) && end <= within && offset % 4 == 0)
        .then_some(offset)
}

impl Symbols {
    fn look_up() -> Result<Symbols, ProbeError> {
        let libc = symbol(c"gnu_get_libc_version").ok_or_else(no_glibc)?;
        let hidden = "glibc does not show what this takes";
        let allocate = symbol(c"_dl_allocate_tls").ok_or(hidden)?;
        let deallocate = symbol(c"_dl_deallocate_tls").ok_or(hidden)?;
        let static_info = symbol(c"_dl_get_tls_static_info").ok_or(hidden)?;
        let call_tls_dtors = symbol(c"__call_tls_dtors").ok_or(hidden)?;
        let ctype_init = symbol(c"__ctype_init").ok_or(hidden)?;
        let keys = symbol(c"__pthread_keys").ok_or(hidden)?;
        let tcb = symbol(c"_thread_db_sizeof_pthread").ok_or(hidden)?;
        let [tcb, storage, align] = sizes(tcb, static_info)?;
        let rseq = symbol(c"__rseq_offset");
        // SAFETY: such a symbol is a `ptrdiff_t`.
        let rseq = rseq
            .map(|address| unsafe { get_at::<isize>(address) })
            .filter(|offset| *offset != 0);
        // The symbol is a thread-local: its address is that of the caller's instance.
        let resp = symbol(c"__resp")
            .ok_or(hidden)?
            .wrapping_sub(umcg_context::thread_pointer()) as isize;
        let fields = "the fields of glibc's threads are not as expected";
        let symbols = Symbols {
            // SAFETY: glibc's function of this name has this type.
            allocate: unsafe {
                std::mem::transmute::<usize, unsafe extern "C" fn(*mut c_void) -> *mut c_void>(
                    allocate,
                )
            },
            // SAFETY: as above.
            deallocate: unsafe {
                std::mem::transmute::<usize, unsafe extern "C" fn(*mut c_void, bool)>(deallocate)
            },
            // SAFETY: as above.
            call_tls_dtors: unsafe {
                std::mem::transmute::<usize, unsafe extern "C" fn()>(call_tls_dtors)
            },
            // SAFETY: as above.
            ctype_init: unsafe { std::mem::transmute::<usize, unsafe extern "C" fn()>(ctype_init) },
            keys: glibc::at(keys),
            tcb,
            storage,
            align,
            tid: field(c"_thread_db_pthread_tid", 32, 1, tcb).ok_or(fields)?,
            list: field(c"_thread_db_pthread_list", 128, 1, tcb).ok_or(fields)?,
            specific: field(c"_thread_db_pthread_specific", 64, 32, tcb)
                .or_else(|| specific(tcb))
                .ok_or(fields)?,
            rseq,
            resp,
            libc,
            linker: allocate,
        };
        if !rseq.is_none_or(|offset| symbols.holds(offset, 32) && offset % 4 == 0) {
            return Err("glibc's rseq area is not within its storage".into());
        }
        if !symbols.holds(resp, 8) || resp % 8 != 0 {
            return Err("glibc's resolver is not within its storage".into());
        }
        Ok(symbols)
    }
}

/// The size of a thread's own structure, and the size and alignment of all of its storage, by
/// glibc's symbols at these addresses.
fn sizes(tcb: usize, static_info: usize) -> Result<[usize; 3], ProbeError> {
    // SAFETY: such a symbol is a 32-bit number.
    let tcb = unsafe { get_at::<u32>(tcb) } as usize;
    let (mut storage, mut align) = (0usize, 0usize);
    // SAFETY: glibc's function of this name has this type.
    let tell = unsafe {
        std::mem::transmute::<usize, unsafe extern "C" fn(*mut usize, *mut usize)>(static_info)
    };
    // SAFETY: it writes two numbers.
    unsafe { tell(&mut storage, &mut align) };
    let sane = (1024..=LARGEST).contains(&tcb)
        && tcb % 8 == 0
        && (storage > tcb || control_block::BELOW)
        && storage <= LARGEST_STORAGE;
    if !sane || !align.is_power_of_two() || align > 4096 {
        return Err("the sizes of glibc's storage are not as expected".into());
    }
    Ok([tcb, storage, align])
}

fn no_glibc() -> &'static str {
    // SAFETY: reads a vector that the kernel gave the process.
    match unsafe { libc::getauxval(libc::AT_BASE) } {
        0 => "the program is linked statically, and then glibc does not show what this takes",
        _ => "the C library is not glibc",
    }
}

/// The bits of `specific` may be those of the whole table.
fn specific(within: usize) -> Option<usize> {
    field(c"_thread_db_pthread_specific", 64 * 32, 1, within)
}

fn distance(from: usize, to: usize, room: usize, bytes: usize) -> Option<usize> {
    let distance = to.wrapping_sub(from);
    (distance <= room && distance + bytes <= room && distance % 8 == 0).then_some(distance)
}

impl PthreadLayout {
    /// The data of the calling thread, which `pthread_create` made.
    fn look(symbols: &Symbols) -> Result<PthreadLayout, ProbeError> {
        let tp = umcg_context::thread_pointer();
        let control = symbols.control(tp);
        // SAFETY: no precondition.
        if unsafe { libc::pthread_self() } as usize != control || tp % 8 != 0 {
            return Err("a thread's control block is not where it should be".into());
        }
        // SAFETY: the control block of this thread is there, and at least 1024 bytes.
        let word = |offset: usize| unsafe { get_at::<usize>(control + offset) };
        if control_block::SELVES
            .iter()
            .any(|offset| word(*offset) != tp)
        {
            return Err("a thread's control block does not point to itself".into());
        }
        if control_block::FEATURES.is_some_and(|offset| word(offset) as u32 & 2 != 0) {
            return Err("shadow stacks are on".into());
        }
        let tid = rustix::thread::gettid().as_raw_nonzero().get() as u32;
        // SAFETY: within the control block, as `Symbols` checked.
        if unsafe { get_at::<u32>(control + symbols.tid) } != tid {
            return Err("a thread's tid is not where it should be".into());
        }
        if word(symbols.list) == 0 || word(symbols.list + 8) == 0 {
            return Err("a thread is not in the list of threads".into());
        }
        let first_values = distance(
            control,
            word(symbols.specific),
            symbols.tcb,
            32 * size_of::<PthreadKeyData>(),
        );
        let first_values =
            first_values.ok_or("a thread's key values are not where they should be")?;
        check_keys(symbols, control + first_values)?;
        let (robust, futex_offset) = robust_list(control, symbols.tcb)?;
        unsafe extern "C" {
            fn __res_state() -> *mut c_void;
        }
        // SAFETY: no precondition.
        let state = unsafe { __res_state() }.addr();
        let resolver = distance(control, state, symbols.tcb, RESOLVER)
            .ok_or("a thread's resolver is not where it should be")?;
        // SAFETY: within the static storage, as `Symbols` checked.
        if unsafe { get_at::<usize>(tp.wrapping_add_signed(symbols.resp)) } != state {
            return Err("a thread's resolver is not where it should be".into());
        }
        Ok(PthreadLayout {
            shared: control_block::SHARED.map(word),
            first_values,
            robust,
            resolver,
            futex_offset,
        })
    }
}

/// Where the kernel was told to find the list of robust mutexes. If the kernel does not tell (qemu,
/// some sandboxes): the only empty list in the control block, which is two words that point to the
/// second.
fn robust_list(control: usize, tcb: usize) -> Result<(usize, usize), ProbeError> {
    let odd = "a thread's list of robust mutexes is not as expected";
    let (mut head, mut bytes) = (0usize, 0usize);
    // SAFETY: the kernel writes two words.
    let failed = unsafe { libc::syscall(libc::SYS_get_robust_list, 0, &mut head, &mut bytes) } != 0;
    // SAFETY: within the control block of this thread.
    let word = |offset: usize| unsafe { get_at::<usize>(control + offset) };
    let robust = if failed {
        let mut empty = (8..tcb - 16)
            .step_by(8)
            .filter(|at| word(*at) == control + at && word(at - 8) == control + at);
        empty.next().filter(|_| empty.next().is_none())
    } else {
        distance(control, head, tcb, 24).filter(|at| *at >= 8 && bytes == 24)
    };
    let robust = robust.ok_or(odd)?;
    let (list, futex_offset, pending) = (word(robust), word(robust + 8), word(robust + 16));
    if list != control + robust || pending != 0 || (futex_offset as isize).unsigned_abs() > 64 {
        return Err(odd.into());
    }
    Ok((robust, futex_offset))
}

unsafe extern "C" fn no_destructor(_value: *mut c_void) {}

/// Whether keys and their values lie as they should.
fn check_keys(symbols: &Symbols, values: usize) -> Result<(), ProbeError> {
    let mut key = 0;
    // SAFETY: writes a key.
    if unsafe { libc::pthread_key_create(&mut key, Some(no_destructor)) } != 0 {
        return Err(ProbeError::NotNow(
            "the system has no thread key left to try it with",
        ));
    }
    let marker = without_provenance_mut::<c_void>(0x5eed);
    // SAFETY: the key was created.
    let set = unsafe { libc::pthread_setspecific(key, marker) } == 0;
    let index = key as usize;
    let mut right = set;
    if set && index < 32 {
        // SAFETY: one of the values in the control block of this thread.
        let value = unsafe {
            glibc::at::<PthreadKeyData>(values)
                .wrapping_add(index)
                .read_volatile()
        };
        // SAFETY: glibc's table has a place for each key.
        let entry = unsafe { symbols.keys.wrapping_add(index).read_volatile() };
        let PthreadKey {
            sequence,
            destructor,
        } = entry;
        let ours = destructor
            .is_some_and(|destructor| destructor as usize == no_destructor as *const () as usize);
        right = ours && sequence % 2 == 1 && value.sequence == sequence && value.data == marker;
    }
    // SAFETY: the key was created.
    unsafe { libc::pthread_setspecific(key, null_mut()) };
    // SAFETY: as above, and no other code knows it.
    unsafe { libc::pthread_key_delete(key) };
    if right {
        Ok(())
    } else {
        Err("a thread's key values are not where they should be".into())
    }
}

thread_local! {
    /// 7 in each new storage.
    static SEVEN: Cell<u32> = const { Cell::new(7) };
}

/// The observations of a flow that ran with a block.
#[derive(Default)]
struct Observations {
    pthread: usize,
    errno: usize,
    seven: u32,
    chunk: usize,
    alpha: bool,
    locale: usize,
}

/// Makes a block and runs some code on it. The block is not used again.
fn try_block(symbols: &Symbols, thread: &PthreadLayout) -> Result<ResetPlan, ProbeError> {
    let memory = || ProbeError::NotNow("no memory to try it with");
    let place = super::map(symbols.stride()).map_err(|_| memory())?;
    // SAFETY: new, zero, and large enough.
    let tp = unsafe { symbols.allocate_in(place) }.ok_or_else(memory)?;
    // SAFETY: made just now.
    unsafe { symbols.furnish(thread, tp, glibc::PROBE_TID) };
    let errno_here = errno_place();
    let sevens_before = SEVEN.replace(8);
    let mut seen = Observations::default();
    let init = symbols.ctype_init;
    // SAFETY: no flow uses the block.
    unsafe { on_storage(tp, &mut || see(init, &mut seen)) };
    let same_place =
        errno_here.wrapping_sub(umcg_context::thread_pointer()) == seen.errno.wrapping_sub(tp);
    if seen.pthread != symbols.control(tp) || !same_place || seen.locale != usize::MAX {
        return Err("a trial block was not found by the C library".into());
    }
    if sevens_before != 7 || seen.seven != 7 || SEVEN.get() != 8 {
        return Err("a trial block did not have thread-locals of its own".into());
    }
    if seen.chunk == 0 || !seen.alpha {
        return Err("the C library did not work on a trial block".into());
    }
    // SAFETY: no flow uses the block.
    let plan = unsafe { ResetPlan::make(tp, symbols.libc, symbols.linker) };
    Ok(plan?)
}

fn errno_place() -> usize {
    // SAFETY: no precondition.
    unsafe { libc::__errno_location() }.addr()
}

/// Runs on the trial block.
#[inline(never)]
fn see(ctype_init: unsafe extern "C" fn(), seen: &mut Observations) {
    // SAFETY: a new thread makes the same call.
    unsafe { ctype_init() };
    // SAFETY: no precondition.
    seen.pthread = unsafe { libc::pthread_self() } as usize;
    seen.errno = errno_place();
    seen.seven = SEVEN.replace(9);
    // SAFETY: no precondition.
    let chunk = std::hint::black_box(unsafe { libc::malloc(24) });
    seen.chunk = chunk.addr();
    // SAFETY: allocated just now.
    unsafe { libc::free(chunk) };
    // SAFETY: 'a' is a character.
    seen.alpha = unsafe { libc::isalpha(c_int_of(b'a')) } != 0;
    // SAFETY: null asks only.
    seen.locale = unsafe { libc::uselocale(null_mut()) }.addr();
}

fn c_int_of(byte: u8) -> libc::c_int {
    libc::c_int::from(byte)
}
