//! Overflows of stacks: which faults are overflows, and the messages about them.
//!
//! | the fault lies | and the stack pointer | is |
//! |---|---|---|
//! | in the guard of the stack that runs here | anywhere | an overflow |
//! | anywhere below that stack | below it too, and not far from the fault | an overflow by a frame larger than the guard |
//! | in another stack's guard | on that stack, or in the guard | an overflow of a stack that no worker or uth runs on: for signals, or of a thread at home |
//! | in another stack's guard | elsewhere | a bad pointer |
//!
//! A frame that is larger than the guard may end on another stack, where there is no fault. So code
//! with large frames needs stack probes.
//!
//! All of it runs in a signal handler: nothing allocates. The standard library's signal stacks have
//! room for little more than the kernel's part. So the backtrace has a stack of its own, which was
//! made beforehand. It serves the first overflow, which ends the process.

use super::record::{self, UthRecord};
use super::vp::Vp;
use crate::os::signal::{self, Frame, Handler};
use crate::os::unwinder::{StackFrame, each_caller};
use crate::os::{elsewhere, fault, symbols};
use std::ffi::c_void;
use std::fmt::Write as _;
use std::ops::ControlFlow;
use std::sync::atomic::{AtomicPtr, Ordering::*};
use std::sync::{Once, OnceLock};
use umcg_context::guard;
use umcg_context::stack::{self, SizeClass, StackLocation};

/// The largest distance between the stack pointer and a frame's first access below it: the red
/// zone, a push.
const NEAR: usize = 4096;
/// A larger frame is taken for a wild stack pointer.
const LARGEST_FRAME: usize = 64 << 20;

/// A fault that is an overflow, or looks like one.
struct StackOverflow {
    place: StackLocation,
    /// How far below the stack the frame reaches, if it was beyond the guard.
    beyond: Option<usize>,
    /// No flow that runs here can overflow that stack.
    is_stray: bool,
}

/// Returns the record of the worker that runs here: null if the worker has none; `None` for no
/// worker.
pub(crate) type FindRunning = fn() -> Option<*const UthRecord>;

static RUNNING: OnceLock<FindRunning> = OnceLock::new();

/// Sets the function by which the handler asks which worker's stack the calling kernel thread runs
/// on.
pub(crate) fn ask_of(running: FindRunning) {
    RUNNING.get_or_init(|| running);
}

/// From here on overflows are reported, on threads that have a signal stack.
pub(crate) fn install() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        prepare();
        fault::judge_by(judge);
    });
    fault::install();
}

/// Gives the calling kernel thread an alternate signal stack if it has none, or a small one: a
/// handler cannot run on a stack that has overflowed.
pub(crate) fn ensure_signal_stack() {
    signal::ensure_stack(record::frames_begin);
}

/// The same, but only if it has a small one.
pub(crate) fn enlarge_signal_stack() {
    signal::enlarge_stack(record::frames_begin);
}

/// A [`fault::Judge`].
fn judge(address: usize, frame: &Frame, handler: &Handler) -> bool {
    let Some(overflow) = look(address, frame.stack_pointer(), frame.is_on_signal_stack()) else {
        return false;
    };
    overflow.report();
    // Another instruction may fault before this one is repeated.
    handler.reset();
    backtrace(frame.program_counter());
    true
}

/// Whether a fault at `address` is an overflow. Async-signal-safe.
fn look(address: usize, stack_pointer: usize, is_on_signal_stack: bool) -> Option<StackOverflow> {
    let touched = stack::find(address).filter(|place| place.in_guard);
    if let Some(own) = running_stack().and_then(|base| stack::find(base.addr())) {
        let base = own.base.addr();
        let is_below =
            stack_pointer < base && base - stack_pointer < LARGEST_FRAME && !is_on_signal_stack;
        let is_near = address < base && address >= stack_pointer.saturating_sub(NEAR);
        if touched.is_some_and(|place| place.base == own.base) {
            return Some(StackOverflow {
                place: own,
                beyond: None,
                is_stray: false,
            });
        }
        if is_below && is_near {
            return Some(StackOverflow {
                place: own,
                beyond: Some(base - address),
                is_stray: false,
            });
        }
    }
    let place = touched?;
    let is_own = stack::find(stack_pointer).is_some_and(|own| own.base == place.base);
    Some(StackOverflow {
        place,
        beyond: None,
        is_stray: !is_own,
    })
}

/// The base of the stack that the calling kernel thread runs a worker or uth on.
fn running_stack() -> Option<*mut u8> {
    let record = match RUNNING.get().and_then(|running| running()) {
        Some(record) => record,
        None => Vp::here()?.current.load(Relaxed).cast_const(),
    };
    // SAFETY: null, or a record, which is readable for ever.
    let base = unsafe { record.as_ref() }?.stack_base();
    (!base.is_null()).then_some(base)
}

/// A text for standard error, cut if it is too long.
struct Line {
    bytes: [u8; 256],
    used: usize,
}

impl std::fmt::Write for Line {
    fn write_str(&mut self, text: &str) -> std::fmt::Result {
        let room = self.bytes.len() - 1 - self.used; // for the end of the line
        let part = &text.as_bytes()[..text.len().min(room)];
        self.bytes[self.used..][..part.len()].copy_from_slice(part);
        self.used += part.len();
        Ok(())
    }
}

/// Writes a line to standard error, by one system call.
fn say(words: std::fmt::Arguments<'_>) {
    let mut line = Line {
        bytes: [0; 256],
        used: 0,
    };
    let _ = line.write_fmt(words);
    line.bytes[line.used] = b'\n';
    // SAFETY: writes from a buffer of our own.
    unsafe {
        libc::write(
            libc::STDERR_FILENO,
            line.bytes.as_ptr().cast(),
            line.used + 1,
        )
    };
}

impl StackOverflow {
    /// Reports on standard error which stack it is. Async-signal-safe.
    fn report(&self) {
        // SAFETY: the top of a stack, which was cut.
        let record = unsafe { UthRecord::at_top(stack::top_of(self.place.base, self.place.class)) };
        let (bytes, len) = record.name();
        let name = std::str::from_utf8(&bytes[..len]).unwrap_or("?");
        let flow = FlowName { record, name };
        let kib = self.place.class.size() >> 10;
        match self.beyond {
            _ if self.is_stray => say(format_args!(
                "umcg: a bad pointer: into the guard below the stack of {flow}"
            )),
            None => say(format_args!(
                "umcg: {flow} overflowed its {kib} KiB stack; `stack_size` gives it a larger one"
            )),
            Some(beyond) => say(format_args!(
                "umcg: {flow} overflowed its {kib} KiB stack by {} KiB, beyond the guard of {}; \
                 `stack_size` gives it a larger one",
                (beyond >> 10) + 1,
                guard::SIZE >> 10
            )),
        }
    }
}

/// The name of a worker or uth in messages.
struct FlowName<'a> {
    record: &'a UthRecord,
    name: &'a str,
}

impl std::fmt::Display for FlowName<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.name {
            "" => write!(f, "{} {:p}", self.record.kind(), self.record),
            name => write!(f, "{} `{name}`", self.record.kind()),
        }
    }
}

/// How many frames of each end are shown.
const INNERMOST: usize = 16;
const OUTERMOST: usize = 8;

/// Return addresses: the first ones, and the last ones in a ring.
struct Frames {
    /// Frames before this one are the handler's.
    fault: usize,
    count: usize,
    inner: [usize; INNERMOST],
    outer: [usize; OUTERMOST],
}

impl Frames {
    fn add(&mut self, StackFrame { pc, .. }: StackFrame) -> ControlFlow<()> {
        if self.count == 0 && pc != self.fault {
            return ControlFlow::Continue(());
        }
        if pc == 0 {
            return ControlFlow::Break(());
        }
        match self.inner.get_mut(self.count) {
            Some(place) => *place = pc,
            None => self.outer[(self.count - INNERMOST) % OUTERMOST] = pc,
        }
        self.count += 1;
        ControlFlow::Continue(())
    }
}

/// The top of the stack that the backtrace is made on; null before there is one, and once it is in
/// use.
static REPORT_STACK: AtomicPtr<u8> = AtomicPtr::new(std::ptr::null_mut());

/// Makes a stack for the backtrace of an overflow. Without that stack there is no backtrace.
fn prepare() {
    const CLASS: SizeClass = SizeClass::for_size(64 << 10).unwrap();
    let Ok(stack) = stack::allocate(CLASS) else {
        return;
    };
    // ORDERING(report.1): Release, pairs with report.2. The stack is complete.
    REPORT_STACK.store(record::frames_begin(&stack), Release);
}

/// Prints on standard error the calls that led to `pc`, where the fault was. For the handler of a
/// fault that ends the process anyway: if a frame cannot be read, the process ends at once.
///
/// The unwinder takes no lock with glibc 2.35 or later. With older ones it takes the loader's,
/// which a thread holds only while libraries come and go.
fn backtrace(mut pc: usize) {
    // ORDERING(report.2): Acquire, pairs with report.1.
    let top = REPORT_STACK.swap(std::ptr::null_mut(), Acquire);
    if !top.is_null() {
        // SAFETY: the swap gives the stack to one caller alone. `trace` writes to standard error
        // and returns.
        unsafe { elsewhere::call(top, trace, (&raw mut pc).cast()) };
    }
}

extern "C" fn trace(pc: *mut c_void) {
    // SAFETY: `backtrace` passed it.
    let pc = unsafe { pc.cast::<usize>().read() };
    let mut frames = Frames {
        fault: pc,
        count: 0,
        inner: [0; INNERMOST],
        outer: [0; OUTERMOST],
    };
    each_caller(&mut |caller| frames.add(caller));
    if frames.count == 0 {
        (frames.inner[0], frames.count) = (pc, 1);
    }
    let shown = frames.count.min(INNERMOST);
    for (index, pc) in frames.inner[..shown].iter().enumerate() {
        say_frame(index, *pc);
    }
    let rest = frames.count - shown;
    let left_out = rest.saturating_sub(OUTERMOST);
    if left_out > 0 {
        say(format_args!("        … {left_out} more"));
    }
    for index in left_out..rest {
        say_frame(shown + index, frames.outer[index % OUTERMOST]);
    }
}

fn say_frame(index: usize, pc: usize) {
    // A return address may be the first address of the next function.
    let within = if index == 0 { pc } else { pc - 1 };
    symbols::find(within, |path, offset, symbol| {
        match (path.rsplit('/').next().unwrap_or(path), symbol) {
            (module, Some((name, into))) => say(format_args!(
                "  {index:4}: {pc:#x} {name}+{into:#x} ({module}+{offset:#x})"
            )),
            (module, None) => say(format_args!("  {index:4}: {pc:#x} ({module}+{offset:#x})")),
        }
    });
}
