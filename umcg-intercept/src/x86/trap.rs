//! From an original address of a window to the same place in its trampoline.
//!
//! A jump to an instruction in a window, which no scan found, meets a trap there, and so does a
//! `syscall` that the kernel restarts although it was patched meanwhile. The tables are read in
//! signal handlers: they are published as a whole, and never freed.

use super::stub;
use super::trampoline::Moved;
use crate::call::Site;
use core::ops::Range;
use core::sync::atomic::{AtomicBool, AtomicPtr, Ordering};

const TABLES: usize = 1024;

/// What the trap handler knows of one object.
pub(crate) struct Table {
    /// By ascending original address.
    moved: Vec<Moved>,
    /// Descriptors of sites, by ascending address: of each, the code of its trampoline follows.
    sites: Vec<usize>,
    arena: Range<usize>,
    alive: AtomicBool,
}

static ALL: [AtomicPtr<Table>; TABLES] = [const { AtomicPtr::new(core::ptr::null_mut()) }; TABLES];

/// Publishes an object's table.
pub(crate) fn publish(
    mut moved: Vec<Moved>,
    sites: Vec<usize>,
    arena: Range<usize>,
) -> &'static Table {
    moved.sort_unstable_by_key(|one| one.from);
    let table: &'static Table = Box::leak(Box::new(Table {
        moved,
        sites,
        arena,
        alive: AtomicBool::new(true),
    }));
    let free = ALL
        .iter()
        .find(|slot| load(slot).is_none_or(|table| !table.is_alive()));
    if let Some(slot) = free {
        // ORDERING(trap.1): Release, pairs with trap.2.
        slot.store((&raw const *table).cast_mut(), Ordering::Release);
    }
    table
}

fn load(slot: &AtomicPtr<Table>) -> Option<&'static Table> {
    // ORDERING(trap.2): Acquire, pairs with trap.1.
    let table = slot.load(Ordering::Acquire);
    // SAFETY: null, or a table that is never freed.
    unsafe { table.as_ref() }
}

impl Table {
    fn is_alive(&self) -> bool {
        self.alive.load(Ordering::Relaxed)
    }

    /// The object is gone.
    pub(crate) fn retire(&self) {
        self.alive.store(false, Ordering::Relaxed);
    }

    fn moved(&self, from: usize) -> Option<usize> {
        let at = self
            .moved
            .binary_search_by_key(&from, |one| one.from)
            .ok()?;
        Some(self.moved[at].to)
    }
}

fn alive() -> impl Iterator<Item = &'static Table> {
    ALL.iter().map_while(load).filter(|table| table.is_alive())
}

/// The site in whose trampoline the address lies.
pub(crate) fn site(pc: usize) -> Option<&'static Site> {
    let table = alive().find(|table| table.arena.contains(&pc))?;
    let behind = table.sites.partition_point(|&site| site <= pc);
    Some(described(*table.sites.get(behind.checked_sub(1)?)?))
}

/// A site of a table that is alive.
fn described(site: usize) -> &'static Site {
    // SAFETY: a descriptor in the arena of an object that is loaded.
    unsafe { &*(site as *const Site) }
}

/// The same place in a trampoline.
pub(crate) fn moved(from: usize) -> Option<usize> {
    alive().find_map(|table| table.moved(from))
}

/// Whether there was a `syscall` of a site at the address.
fn is_site(address: usize) -> bool {
    let next = address + Site::CALL;
    alive().any(|table| table.sites.iter().any(|&site| described(site).next == next))
}

/// Whether the address lies in the stub or in a trampoline.
#[must_use]
pub fn is_inside(pc: usize) -> bool {
    stub::exempt().contains(&pc) || alive().any(|table| table.arena.contains(&pc))
}

/// Whether the address is where a thread sleeps whose call the handler of traps restarts.
#[must_use]
pub fn restarts(pc: usize) -> bool {
    stub::raw().contains(&pc)
}

/// Continues after a trap of the engine's: to be called first thing by the program's handler of
/// SIGTRAP. Returns false if the trap is not the engine's. Safe in signal handlers.
///
/// # Safety
///
/// `context` is what the kernel gave to the handler of a SIGTRAP, as its third argument.
pub unsafe fn on_trap(context: *mut libc::c_void) -> bool {
    let context = context.cast::<libc::ucontext_t>();
    // SAFETY: the caller vouches for the context.
    let context = unsafe { &mut *context };
    let registers = &mut context.uc_mcontext.gregs;
    let from = registers[libc::REG_RIP as usize] as usize - 1;
    if registers[libc::REG_RAX as usize] == libc::SYS_restart_syscall && is_site(from) {
        // The kernel restarts a call that was cut short before the site was replaced. What it has
        // kept for that is gone when the handler returns.
        // SAFETY: has no arguments, and only continues the thread's own call.
        let result = unsafe { stub::raw_syscall(libc::SYS_restart_syscall as usize, [0; 6]) };
        let next = from + Site::CALL;
        registers[libc::REG_RAX as usize] = result as i64;
        registers[libc::REG_RIP as usize] = moved(next).unwrap_or(next) as i64;
        return true;
    }
    let pc = &mut registers[libc::REG_RIP as usize];
    match moved(from) {
        Some(to) => {
            *pc = to as i64;
            true
        }
        None => false,
    }
}
