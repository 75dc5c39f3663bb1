//! The peer Boost.Context: its assembly below the C++ classes (`fcontext`), called as they call it.
//! Stacks are made as its `protected_fixedsize_stack` makes them; there is no descriptor to set up.

use super::body::{self, Lives, hop, rounds};
use super::{Life, STACK, SWITCH_STACK, Side};
use crate::harness::{Sample, measure};
use anyhow::{Result, ensure};
use std::cell::Cell;
use std::ffi::c_void;
use std::io;
use std::iter;
use std::ptr;
use std::time::Duration;

pub(super) const SIDE: Side = Side {
    name: "boost-context",
    shallow: switches::<false>,
    deep: switches::<true>,
    ring_shallow: Some(ring::<false>),
    ring_deep: Some(ring::<true>),
    life,
};

type FContext = *mut c_void;

/// The context that switched here, and the value that it passed.
#[repr(C)]
#[derive(Clone, Copy)]
struct Transfer {
    from: FContext,
    data: *mut c_void,
}

unsafe extern "C" {
    fn jump_fcontext(to: FContext, data: *mut c_void) -> Transfer;
    fn make_fcontext(top: *mut c_void, size: usize, entry: extern "C" fn(Transfer)) -> FContext;
}

struct Stack {
    base: *mut c_void,
    size: usize,
}

impl Stack {
    fn new(size: usize) -> Result<Self> {
        const GUARD: usize = 4096;
        let (size, protection) = (size + GUARD, libc::PROT_READ | libc::PROT_WRITE);
        // SAFETY: a new mapping, at a place of the kernel's choice.
        let base = unsafe {
            libc::mmap(
                ptr::null_mut(),
                size,
                protection,
                libc::MAP_PRIVATE | libc::MAP_ANONYMOUS,
                -1,
                0,
            )
        };
        ensure!(
            base != libc::MAP_FAILED,
            "memory for a stack: {}",
            io::Error::last_os_error()
        );
        let stack = Self { base, size };
        // SAFETY: the lowest page of the mapping just made.
        let rc = unsafe { libc::mprotect(base, GUARD, libc::PROT_NONE) };
        ensure!(rc == 0, "a stack's guard: {}", io::Error::last_os_error());
        Ok(stack)
    }

    #[inline(always)]
    fn context(&self, entry: extern "C" fn(Transfer)) -> FContext {
        let top = self.base.wrapping_byte_add(self.size);
        // SAFETY: the stack ends there, has this size, and nothing else uses it.
        unsafe { make_fcontext(top, self.size, entry) }
    }
}

impl Drop for Stack {
    fn drop(&mut self) {
        // SAFETY: mapped by `new`; no thread switches to a context on it any more.
        unsafe { libc::munmap(self.base, self.size) };
    }
}

/// Comes straight back, for ever.
extern "C" fn back<const DEEP: bool>(transfer: Transfer) {
    let mut main = transfer.from;
    loop {
        // SAFETY: `main` is where the main thread was suspended by the switch to here.
        hop::<DEEP>(&mut || main = unsafe { jump_fcontext(main, ptr::null_mut()) }.from);
    }
}

fn switches<const DEEP: bool>(contexts: usize, budget: Duration) -> Result<Sample> {
    let stacks = (1..contexts)
        .map(|_| Stack::new(SWITCH_STACK))
        .collect::<Result<Vec<_>>>()?;
    let mut others: Vec<FContext> = stacks
        .iter()
        .map(|stack| stack.context(back::<DEEP>))
        .collect();
    Ok(rounds(&mut others, budget, |other| {
        // SAFETY: a context that is suspended, on a stack that is alive.
        *other = unsafe { jump_fcontext(*other, ptr::null_mut()) }.from;
    }))
}

/// One place of a ring: where its context is suspended, and the next one. The context that is
/// switched to notes where the one before is.
struct Place {
    context: Cell<FContext>,
    next: Cell<*const Place>,
    previous: Cell<*const Place>,
}

impl Place {
    #[inline(always)]
    fn to_next(&self) {
        // SAFETY: `ring` links places that outlive every switch.
        let next = unsafe { &*self.next.get() }.context.get();
        // SAFETY: its context is suspended there.
        self.arrived(unsafe { jump_fcontext(next, self.next.get().cast_mut().cast()) });
    }

    #[inline(always)]
    fn arrived(&self, transfer: Transfer) {
        // SAFETY: as above.
        unsafe { &*self.previous.get() }.context.set(transfer.from);
    }
}

extern "C" fn walk<const DEEP: bool>(transfer: Transfer) {
    // SAFETY: a context that switches here passes this context's place.
    let place = unsafe { &*transfer.data.cast::<Place>() };
    place.arrived(transfer);
    loop {
        hop::<DEEP>(&mut || place.to_next());
    }
}

/// Context i switches to i+1, and the last to the main thread, whose place is the first.
fn ring<const DEEP: bool>(contexts: usize, budget: Duration) -> Result<Sample> {
    let stacks = (1..contexts)
        .map(|_| Stack::new(SWITCH_STACK))
        .collect::<Result<Vec<_>>>()?;
    let starts =
        iter::once(ptr::null_mut()).chain(stacks.iter().map(|stack| stack.context(walk::<DEEP>)));
    let start = |context| Place {
        context: Cell::new(context),
        next: Cell::new(ptr::null()),
        previous: Cell::new(ptr::null()),
    };
    let places: Vec<Place> = starts.map(start).collect();
    for (index, place) in places.iter().enumerate() {
        let next = &places[(index + 1) % contexts];
        place.next.set(next);
        next.previous.set(place);
    }
    let main = &places[0];
    let mut sample = measure(budget, |laps| {
        (0..laps).for_each(|_| hop::<DEEP>(&mut || main.to_next()))
    });
    sample.operations *= contexts as u64;
    Ok(sample)
}

struct Boost {
    /// Counts the runs, so that a body is not empty.
    runs: u64,
}

extern "C" fn count(transfer: Transfer) {
    // SAFETY: `create_run_delete` passes the counter.
    unsafe { *transfer.data.cast::<u64>() += 1 };
    // The end: no context will switch back here.
    // SAFETY: the main thread was suspended by the switch to here.
    unsafe { jump_fcontext(transfer.from, ptr::null_mut()) };
}

impl Lives for Boost {
    type Context = (FContext, Stack);
    type Kept = Stack;

    fn create(&mut self) -> Self::Context {
        let stack = Stack::new(STACK).expect("memory for a stack");
        (stack.context(count), stack)
    }

    #[inline(always)]
    fn delete(&mut self, (_, stack): Self::Context) -> Stack {
        stack
    }

    #[inline(always)]
    fn recycle(&mut self, stack: Stack) -> Self::Context {
        (stack.context(count), stack)
    }

    #[inline(always)]
    fn reinit(&mut self, (_, stack): Self::Context) -> Self::Context {
        (stack.context(count), stack)
    }

    #[inline(always)]
    fn create_run_delete(&mut self, stack: Stack) -> Stack {
        let context = stack.context(count);
        // SAFETY: a new context, on a stack that is alive.
        unsafe { jump_fcontext(context, (&raw mut self.runs).cast()) };
        stack
    }

    fn discard(&mut self, contexts: Vec<Self::Context>) {
        drop(contexts);
    }
}

fn life(budget: Duration) -> Result<Life> {
    Ok(body::life(&mut Boost { runs: 0 }, budget))
}
