//! Ours, by each of its switch methods. The thread of a turn becomes a virtual processor of the
//! method and ends with the turn.

use super::body::{self, Lives, hop, rounds};
use super::{Life, STACK, SWITCH_STACK, Side};
use crate::harness::tell;
use crate::harness::{Sample, measure};
use anyhow::{Context, Result};
use std::cell::Cell;
use std::ffi::c_void;
use std::ptr;
use std::sync::Once;
use std::time::Duration;
use umcg::uth::{self, EntryFn, Method, Uth, UthAttr, UthOptions};

pub(super) const ASM: Side = side::<0>("asm");
pub(super) const SJLJ: Side = side::<1>("sjlj");
pub(super) const MCSC: Side = side::<2>("mcsc");

const METHODS: [Method; 3] = [Method::Asm, Method::Sjlj, Method::Mcsc];

/// `METHOD` is an index of [`METHODS`].
const fn side<const METHOD: usize>(name: &'static str) -> Side {
    Side {
        name,
        shallow: switches::<false, METHOD>,
        deep: switches::<true, METHOD>,
        ring_shallow: Some(ring::<false, METHOD>),
        ring_deep: Some(ring::<true, METHOD>),
        life: life::<METHOD>,
    }
}

/// Makes the calling thread a virtual processor; returns its own flow.
fn processor(method: usize) -> Result<Uth> {
    static INIT: Once = Once::new();
    INIT.call_once(|| {
        // Other code in this process may have initialised the library: its stack size will do.
        let _ = uth::init(UthOptions {
            stack_size: STACK,
            ..UthOptions::default()
        });
    });
    uth::vp_init_with(None, METHODS[method])?;
    uth::current().context("a virtual processor runs something")
}

/// Neither side has anything to go back to when a switch is refused.
#[cold]
#[inline(never)]
fn refused(error: uth::UthError) -> ! {
    tell(format_args!("a switch was refused: {error}"));
    std::process::abort()
}

#[inline(always)]
fn switch(from: Uth, to: Uth) {
    // SAFETY: one virtual processor has all of these, and nothing here is bound to thread-local
    // storage.
    if let Err(error) = unsafe { uth::switch_to(Some(from), to) } {
        refused(error);
    }
}

/// Where a uth of the bench goes each time it runs.
struct Path {
    own: Cell<Option<Uth>>,
    next: Cell<Option<Uth>>,
}

impl Path {
    fn ends(&self) -> (Uth, Uth) {
        let ends = self.own.get().zip(self.next.get());
        ends.expect("set before it runs")
    }
}

/// Goes where its path says, for ever.
extern "C-unwind" fn walk<const DEEP: bool>(path: *mut c_void) {
    // SAFETY: `uths` passes a path that outlives the uth.
    let (own, next) = unsafe { &*path.cast::<Path>() }.ends();
    loop {
        hop::<DEEP>(&mut move || switch(own, next));
    }
}

/// Makes a uth for each path.
fn uths<const DEEP: bool>(paths: &[Path]) -> Result<Vec<Uth>> {
    let attr = UthAttr {
        stack_size: SWITCH_STACK,
        ..UthAttr::default()
    };
    let make = |path: &Path| {
        let uth = uth::create_with(&attr, walk::<DEEP>, ptr::from_ref(path).cast_mut().cast())?;
        path.own.set(Some(uth));
        Ok(uth)
    };
    paths.iter().map(make).collect()
}

fn paths(contexts: usize) -> Vec<Path> {
    (1..contexts)
        .map(|_| Path {
            own: Cell::new(None),
            next: Cell::new(None),
        })
        .collect()
}

fn end(uths: Vec<Uth>) -> Result<()> {
    for uth in uths {
        // SAFETY: suspended for good, and its frames own nothing.
        unsafe { uth::delete(uth) }?;
    }
    uth::vp_exit()?;
    Ok(())
}

fn switches<const DEEP: bool, const METHOD: usize>(
    contexts: usize,
    budget: Duration,
) -> Result<Sample> {
    let main = processor(METHOD)?;
    let paths = paths(contexts);
    let mut others = uths::<DEEP>(&paths)?;
    paths.iter().for_each(|path| path.next.set(Some(main)));
    let sample = rounds(&mut others, budget, |other| switch(main, *other));
    end(others)?;
    Ok(sample)
}

/// Context i switches to i+1, and the last to the main thread.
fn ring<const DEEP: bool, const METHOD: usize>(
    contexts: usize,
    budget: Duration,
) -> Result<Sample> {
    let main = processor(METHOD)?;
    let paths = paths(contexts);
    let others = uths::<DEEP>(&paths)?;
    let nexts = others.iter().skip(1).chain([&main]);
    paths
        .iter()
        .zip(nexts)
        .for_each(|(path, next)| path.next.set(Some(*next)));
    let first = others[0];
    let mut sample = measure(budget, |laps| {
        (0..laps).for_each(|_| hop::<DEEP>(&mut move || switch(main, first)))
    });
    sample.operations *= contexts as u64;
    end(others)?;
    Ok(sample)
}

/// Round trips between the calling thread's own flow and one uth, by the assembly.
pub(crate) fn round_trips(budget: Duration) -> Result<Sample> {
    let mut sample = ring::<false, 0>(2, budget)?;
    sample.operations /= 2;
    Ok(sample)
}

struct Ours {
    main: Uth,
    /// Counts the runs, so that a body is not empty.
    runs: u64,
}

extern "C-unwind" fn count(runs: *mut c_void) {
    // SAFETY: `create_run_delete` passes the counter.
    unsafe { *runs.cast::<u64>() += 1 };
}

extern "C-unwind" fn other(runs: *mut c_void) {
    count(runs);
}

impl Ours {
    #[inline(always)]
    fn make(&mut self, entry: EntryFn) -> Uth {
        match uth::create(entry, (&raw mut self.runs).cast()) {
            Ok(uth) => uth,
            Err(error) => refused(error),
        }
    }
}

impl Lives for Ours {
    type Context = Uth;
    /// The library keeps the stacks.
    type Kept = ();

    fn create(&mut self) -> Uth {
        self.make(count)
    }

    #[inline(always)]
    fn delete(&mut self, uth: Uth) {
        // SAFETY: never ran, or has finished.
        if let Err(error) = unsafe { uth::delete(uth) } {
            refused(error);
        }
    }

    #[inline(always)]
    fn recycle(&mut self, (): ()) -> Uth {
        self.make(count)
    }

    #[inline(always)]
    fn reinit(&mut self, uth: Uth) -> Uth {
        // SAFETY: never ran.
        if let Err(error) = unsafe { uth::reinit(uth, other, (&raw mut self.runs).cast()) } {
            refused(error);
        }
        uth
    }

    #[inline(always)]
    fn create_run_delete(&mut self, (): ()) {
        let uth = self.make(count);
        switch(self.main, uth);
        self.delete(uth);
    }

    /// Keeps them for ever: stacks that were given back would be found by the next `create`.
    fn discard(&mut self, _contexts: Vec<Uth>) {}
}

fn life<const METHOD: usize>(budget: Duration) -> Result<Life> {
    let main = processor(METHOD)?;
    let life = body::life(&mut Ours { main, runs: 0 }, budget);
    uth::vp_exit()?;
    Ok(life)
}
