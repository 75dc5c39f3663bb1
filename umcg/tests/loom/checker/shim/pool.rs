//! The checker's objects behind the atomics and cells of the sources. An atomic of loom's is made
//! by a call, and everything else has to come after that. The sources make theirs by constants, in
//! statics and in frames, at any place. So an execution begins with a stock of them, made before
//! there is a second thread, and an atomic or cell takes one when it is first used.

use loom::cell::UnsafeCell;
use loom::sync::atomic::AtomicU64;
use real::cell::{Cell, RefCell};
use real::collections::HashMap;
use real::rc::Rc;

/// How many there are of each.
const STOCK: usize = 40;

struct Pool {
    /// Of this execution: an object that is bound to another one's, as a static is, begins anew.
    execution: u32,
    /// With the value that was stored last.
    atomics: Vec<(AtomicU64, Cell<u64>)>,
    cells: Vec<UnsafeCell<()>>,
    atomics_used: Cell<u32>,
    cells_used: Cell<u32>,
    /// The last cell at an address.
    cells_at: RefCell<HashMap<usize, usize>>,
    /// Those of plain memory.
    of_memory: RefCell<HashMap<usize, usize>>,
}

thread_local! {
    // All threads of a model are run by one of the kernel's.
    static POOL: RefCell<Option<Rc<Pool>>> = const { RefCell::new(None) };
}

/// At the beginning of an execution, before it has other threads.
pub(crate) fn begin() {
    // Of all models: statics are all of theirs.
    static EXECUTIONS: real::sync::atomic::AtomicU32 = real::sync::atomic::AtomicU32::new(1);
    let execution = EXECUTIONS.fetch_add(1, real::sync::atomic::Ordering::Relaxed);
    POOL.with(|pool| {
        *pool.borrow_mut() = Some(Rc::new(Pool {
            execution,
            atomics: (0..STOCK)
                .map(|_| (AtomicU64::new(0), Cell::new(0)))
                .collect(),
            cells: (0..2 * STOCK).map(|_| UnsafeCell::new(())).collect(),
            atomics_used: Cell::new(0),
            cells_used: Cell::new(0),
            cells_at: RefCell::default(),
            of_memory: RefCell::default(),
        }));
    });
}

/// The one of the stock that stands behind an object: in which execution, and its index.
pub(super) struct Slot(Cell<(u32, u32)>);

impl Slot {
    pub(super) const fn new() -> Slot {
        Slot(Cell::new((0, 0)))
    }

    fn index(&self, pool: &Pool, used: &Cell<u32>) -> usize {
        let (execution, index) = self.0.get();
        if execution == pool.execution {
            return index as usize;
        }
        let index = used.replace(used.get() + 1);
        self.0.set((pool.execution, index));
        index as usize
    }

    /// Calls `f` with the atomic behind this one, and the value that was stored there last. It
    /// holds 0 at first.
    pub(super) fn atomic<R>(&self, f: impl FnOnce(&AtomicU64, &Cell<u64>) -> R) -> R {
        let pool = current();
        let index = self.index(&pool, &pool.atomics_used);
        let (atomic, last) = pool
            .atomics
            .get(index)
            .expect("the model uses too many atomics");
        f(atomic, last)
    }

    /// Says that this one is read, or written: fails if that is a race. Where another one has been
    /// before, its memory is written by then.
    #[track_caller]
    pub(super) fn access(&self, writes: bool) {
        let pool = current();
        let is_new = !self.is_used();
        let index = self.index(&pool, &pool.cells_used);
        let cell = pool
            .cells
            .get(index)
            .expect("the model uses too many cells");
        if is_new {
            let before = pool
                .cells_at
                .borrow_mut()
                .insert(real::ptr::from_ref(self).addr(), index);
            before.inspect(|before| pool.cells[*before].with_mut(|_| ()));
        }
        if writes {
            cell.with_mut(|_| ())
        } else {
            cell.with(|_| ())
        }
    }

    /// Whether any thread has used it in this execution.
    pub(super) fn is_used(&self) -> bool {
        self.0.get().0 == current().execution
    }
}

/// Says that plain memory is read, or written, as [`Slot::access`].
#[track_caller]
pub(crate) fn access_memory(address: usize, writes: bool) {
    let pool = current();
    let next = || pool.cells_used.replace(pool.cells_used.get() + 1) as usize;
    let index = *pool
        .of_memory
        .borrow_mut()
        .entry(address)
        .or_insert_with(next);
    let cell = pool
        .cells
        .get(index)
        .expect("the model uses too many cells");
    if writes {
        cell.with_mut(|_| ())
    } else {
        cell.with(|_| ())
    }
}

fn current() -> Rc<Pool> {
    POOL.with(|pool| pool.borrow().clone())
        .expect("an atomic or cell is used outside of a model")
}
