//! A net under the patched sites: the kernel's dispatch of system calls to a signal (SUD).
//!
//! An armed thread gets SIGSYS for each `syscall` outside of the engine's own code, and
//! [`on_sigsys`] continues it in the entry stub as if its site had jumped there. So sites without a
//! window, and code that was never scanned, lead to the hook too. It costs some 45 ns on each real
//! call of the thread, and a signal for each caught one: a net, not a way.
//!
//! Three kinds of call are caught:
//!
//! - a site's: the kernel leaves rax, rcx and r11 as the stub wants them. Its descriptor and a call
//!   of its own for [`Next::Tail`](crate::Next::Tail) are made at first sight, from a fixed number;
//! - a restorer's: it continues in the engine's own;
//! - the call of a trampoline, for `Tail`. If it leaves the stack in use as it is, it is passed.
//!   Else the net is taken away from the thread, for good: a child, or a parent that its child
//!   overtakes, has no place for the stub's frame. The layer above arms the thread again.
//!
//! A new thread is not armed, nor is a child. Calls of the engine's stub are not caught; if the
//! engine is part of a library, nor are those of all of that library.

use super::raw::{self, Errno, PAGE};
use super::{stub, trap};
use crate::call::{Call, Site};
use core::ops::Range;
use core::sync::atomic::{AtomicUsize, Ordering};

/// How many sites may be caught.
const SITES: usize = 256;
const OPTION: i32 = 59;
const ON: usize = 1;
const DISPATCHED: i32 = 2;
/// `syscall; jmp *pointer(%rip)`.
const TAIL: usize = 8;
/// Of a passed call: the frame in the stub.
const FRAME: usize = 152;
const RETURN_ADDRESS: usize = 16;

/// Four words for each site: a [`Site`]. Code there may keep vectors.
static DESCRIPTORS: [[AtomicUsize; 4]; SITES] = [const {
    let [next, resume, tail, keeps_vectors] = [0, 0, 0, 1];
    [
        AtomicUsize::new(next),
        AtomicUsize::new(resume),
        AtomicUsize::new(tail),
        AtomicUsize::new(keeps_vectors),
    ]
}; SITES];
/// The page with the calls, followed by one with their pointers. Zero until mapped.
static TAILS: AtomicUsize = AtomicUsize::new(0);
/// The library that the engine is part of: its start and its end, with the engine's own arena. Zero
/// if there is none.
static OWN: [AtomicUsize; 2] = [const { AtomicUsize::new(0) }; 2];

/// Notes the library that the engine is part of.
pub(super) fn note_own(range: Range<usize>) {
    OWN[0].store(range.start, Ordering::Relaxed);
    OWN[1].store(range.end, Ordering::Relaxed);
}

/// The code whose calls are not caught.
fn exempt() -> Range<usize> {
    let [start, end] = OWN.each_ref().map(|word| word.load(Ordering::Relaxed));
    if end == 0 { stub::exempt() } else { start..end }
}

/// Whether the address is that of the calls for [`Next::Tail`](crate::Next::Tail).
pub(super) fn is_own(address: usize) -> bool {
    let tails = TAILS.load(Ordering::Relaxed);
    (tails..tails + PAGE).contains(&address)
}

/// Whether the call was caught, and no jump of its site's has led to the hook.
#[must_use]
pub fn is_caught(call: &Call) -> bool {
    DESCRIPTORS.as_ptr_range().contains(&call.site.cast())
}

const _: () = assert!(SITES * TAIL <= PAGE);
const _: () = assert!(size_of::<Site>() == size_of::<[AtomicUsize; 4]>());

/// Arms the calling thread.
///
/// # Safety
///
/// The hook is installed. SIGSYS has a handler that calls [`on_sigsys`], returns by
/// [`signal_restorer`], runs with `SA_NODEFER`, and is never blocked in this thread.
pub unsafe fn arm_thread() -> Result<(), i32> {
    map_tails()?;
    let range = exempt();
    raw::prctl(OPTION, [ON, range.start, range.len(), 0])
}

/// Disarms the calling thread.
pub fn disarm_thread() {
    let _ = raw::prctl(OPTION, [0; 4]);
}

/// The restorer (`sa_restorer`) for the handler of SIGSYS: the only one that armed threads may use
/// without a signal.
#[must_use]
pub fn signal_restorer() -> usize {
    stub::restorer()
}

/// Maps the calls, once. A loser of a race unmaps its own.
fn map_tails() -> Result<(), Errno> {
    // ORDERING(net.1): Acquire, pairs with net.2.
    if TAILS.load(Ordering::Acquire) != 0 {
        return Ok(());
    }
    let start = raw::map(2 * PAGE)?;
    for at in 0..SITES {
        let displacement = (PAGE - TAIL) as u32; // from the end of the jump to its pointer
        let [a, b, c, d] = displacement.to_le_bytes();
        let code = [0x0f, 0x05, 0xff, 0x25, a, b, c, d];
        // SAFETY: inside of the first page, which nobody else has yet.
        unsafe { ((start + at * TAIL) as *mut [u8; TAIL]).write(code) };
    }
    raw::protect(start..start + PAGE, libc::PROT_READ | libc::PROT_EXEC)?;
    // ORDERING(net.2): Release, pairs with net.1.
    if TAILS
        .compare_exchange(0, start, Ordering::Release, Ordering::Relaxed)
        .is_err()
    {
        raw::unmap(start, 2 * PAGE);
    }
    Ok(())
}

/// The descriptor of the site before `next`. Made at first sight. Safe in signal handlers.
fn site(next: usize) -> Option<&'static Site> {
    let tails = TAILS.load(Ordering::Relaxed);
    for (at, [known, resume, tail, _]) in DESCRIPTORS.iter().enumerate() {
        if known.load(Ordering::Relaxed) != next {
            let claim = known.compare_exchange(0, next, Ordering::Relaxed, Ordering::Relaxed);
            if claim.is_err_and(|other| other != next) {
                continue;
            }
        }
        // All that find the slot write the same, so none has to wait for the first.
        let code = tails + at * TAIL;
        // SAFETY: the pointer of this call, in the second page.
        unsafe { AtomicUsize::from_ptr((code + PAGE) as *mut usize) }
            .store(next, Ordering::Relaxed);
        resume.store(next, Ordering::Relaxed);
        tail.store(code, Ordering::Relaxed);
        // SAFETY: a descriptor, which from now on never change.
        return Some(unsafe { &*(&raw const DESCRIPTORS[at]).cast::<Site>() });
    }
    None
}

/// The registers of a context, by name.
struct Registers<'a>(&'a mut libc::mcontext_t);

impl Registers<'_> {
    fn get(&self, register: i32) -> usize {
        self.0.gregs[register as usize] as usize
    }

    fn set(&mut self, register: i32, value: usize) {
        self.0.gregs[register as usize] = value as i64;
    }

    fn enter(&mut self, site: &Site) {
        self.set(libc::REG_RCX, site.next);
        self.set(libc::REG_R11, &raw const *site as usize);
        self.set(libc::REG_RIP, stub::entry());
    }

    /// Makes the call in the stub, without the hook.
    fn pass(&mut self, site: &Site) {
        let frame = self.get(libc::REG_RSP) - FRAME;
        // SAFETY: below the red zone of the interrupted stack, as the stub itself would write.
        unsafe { (frame as *mut usize).write(&raw const *site as usize) };
        // SAFETY: as above.
        unsafe { ((frame + RETURN_ADDRESS) as *mut usize).write(site.next) };
        self.set(libc::REG_RSP, frame);
        self.set(libc::REG_RIP, stub::pass());
    }

    /// Whether the call leaves the stack as it is, for one thread.
    fn keeps_stack(&self) -> bool {
        let stack = self.get(libc::REG_RSP);
        let start = self.get(libc::REG_RDI);
        match self.get(libc::REG_RAX) as i64 {
            libc::SYS_clone | libc::SYS_clone3 | libc::SYS_vfork => false,
            libc::SYS_munmap => {
                let end = start.saturating_add(self.get(libc::REG_RSI));
                !(start..end).contains(&(stack - FRAME)) && !(start..end).contains(&stack)
            }
            _ => true,
        }
    }
}

/// Continues a caught call: to be called first thing by the program's handler of SIGSYS. Returns
/// false if the signal is not the net's, or if there is no room for one more site: then the context
/// is as it was. Safe in signal handlers.
///
/// # Safety
///
/// The arguments are what the kernel gave to the handler of a SIGSYS.
pub unsafe fn on_sigsys(information: *const libc::siginfo_t, context: *mut libc::c_void) -> bool {
    // SAFETY: the caller vouches for it.
    if unsafe { (*information).si_code } != DISPATCHED {
        return false;
    }
    let context = context.cast::<libc::ucontext_t>();
    // SAFETY: the caller vouches for the context.
    let mut registers = Registers(unsafe { &mut (*context).uc_mcontext });
    let next = registers.get(libc::REG_RIP);
    let call = next - Site::CALL;
    let own = trap::site(call)
        .filter(|site| site.tail == call)
        .or_else(|| own_tail(call));
    if registers.get(libc::REG_RAX) as i64 == libc::SYS_rt_sigreturn {
        registers.set(libc::REG_RIP, stub::restorer());
    } else if let Some(site) = own {
        if registers.keeps_stack() {
            registers.pass(site);
        } else {
            disarm_thread();
            registers.set(libc::REG_RIP, call);
        }
    } else if let Some(site) = site(next) {
        registers.enter(site);
    } else {
        return false;
    }
    true
}

/// The descriptor whose call is one of the net's.
fn own_tail(address: usize) -> Option<&'static Site> {
    let at = address.checked_sub(TAILS.load(Ordering::Relaxed))? / TAIL;
    let descriptor = DESCRIPTORS.get(at)?;
    // SAFETY: three words, written before their call was reached.
    Some(unsafe { &*(&raw const *descriptor).cast::<Site>() })
}
