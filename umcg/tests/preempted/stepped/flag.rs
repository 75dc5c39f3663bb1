//! The trap flag of the processor: behind each instruction it traps, and a tick comes before the
//! next one.
//!
//! SIGTRAP comes behind each instruction of a flow that has the flag. Its handler, in which all
//! signals are blocked, sends the tick's signal. So that is delivered as it returns: on the very
//! instruction that the flow would execute next. The frame of the tick has the flag, its handler
//! has not. A flow that is taken off in there is stepped again as soon as it goes on, on whichever
//! kernel thread.
//!
//! The flag belongs to a register: it goes along with every switch that is no return from a
//! handler, into the next worker, the server, a new worker.

use std::arch::asm;
use std::ffi::{c_int, c_void};
use std::ptr::null_mut;
use std::sync::atomic::{
    AtomicBool, AtomicI32, AtomicPtr, AtomicU32, AtomicU64, AtomicUsize, Ordering::*,
};
use umcg_core::raw::{RunningWorker, Server};

const FLAG: i64 = 0x100;
/// `si_code` of a step.
const STEP: i32 = 2;
/// `syscall`.
const SYSTEM_CALL: [u8; 2] = [0x0f, 0x05];

/// Whether flows that have the flag keep it.
static ON: AtomicBool = AtomicBool::new(false);
/// The interval between ticks in instructions, and the first instruction to have one.
static STRIDE: AtomicU64 = AtomicU64::new(1);
static FIRST: AtomicU64 = AtomicU64::new(0);
/// Instructions so far.
static STEPS: AtomicU64 = AtomicU64::new(0);
/// Instructions before which another turn had begun: the flow, or another one that is stepped, was
/// taken off by the tick before, or has switched.
static TURNS: AtomicU64 = AtomicU64::new(0);
static LAST_TURN: AtomicU64 = AtomicU64::new(u64::MAX);
/// The next instruction.
static PLACE: AtomicUsize = AtomicUsize::new(0);

/// A server's kernel thread, and the alternate stack that it has.
struct Thread {
    tid: AtomicI32,
    server: AtomicPtr<()>,
    stack: AtomicPtr<c_void>,
}

static THREADS: [Thread; 4] = [const {
    Thread {
        tid: AtomicI32::new(0),
        server: AtomicPtr::new(null_mut()),
        stack: AtomicPtr::new(null_mut()),
    }
}; 4];
static COUNT: AtomicU32 = AtomicU32::new(0);
/// An instruction before which a server's thread had another alternate stack than its own.
static WRONG_STACK: AtomicUsize = AtomicUsize::new(0);

/// The state seen so far.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Seen {
    pub(crate) steps: u64,
    pub(crate) turns: u64,
    pub(crate) place: usize,
    pub(crate) wrong_stack: usize,
}

pub(crate) fn seen() -> Seen {
    Seen {
        steps: STEPS.load(Relaxed),
        turns: TURNS.load(Relaxed),
        place: PLACE.load(Relaxed),
        wrong_stack: WRONG_STACK.load(Relaxed),
    }
}

/// Installs the handler. False where nothing traps behind an instruction.
pub(crate) fn prepare(stride: u64, first: u64) -> bool {
    // SAFETY: zero is a valid sigaction.
    let mut action: libc::sigaction = unsafe { std::mem::zeroed() };
    action.sa_sigaction =
        on_trap as extern "C" fn(c_int, *mut libc::siginfo_t, *mut c_void) as usize;
    action.sa_flags = libc::SA_SIGINFO | libc::SA_ONSTACK | libc::SA_RESTART;
    // SAFETY: a signal set to fill.
    unsafe { libc::sigfillset(&mut action.sa_mask) };
    assert_eq!(
        // SAFETY: the handler is async-signal-safe.
        unsafe { libc::sigaction(libc::SIGTRAP, &action, null_mut()) },
        0
    );
    STRIDE.store(u64::MAX, Relaxed);
    begin();
    end();
    let traps = STEPS.swap(0, Relaxed) > 0;
    STRIDE.store(stride, Relaxed);
    FIRST.store(first, Relaxed);
    traps
}

/// Makes the calling worker's server known. The turns of that server are ended from here on.
pub(crate) fn know_server() {
    let Some(running) = RunningWorker::here() else {
        return;
    };
    let server = running.server().into_ptr();
    let (tid, stack) = (tid(), signal_stack());
    drop(running);
    if THREADS.iter().any(|thread| thread.tid.load(Relaxed) == tid) {
        return;
    }
    let thread = &THREADS[COUNT.fetch_add(1, Relaxed) as usize];
    thread.server.store(server, Relaxed);
    thread.stack.store(stack, Relaxed);
    thread.tid.store(tid, Release);
}

/// The turn of the calling worker's server; 0 where that is not known. Async-signal-safe.
pub(crate) fn turn() -> u64 {
    let tid = tid();
    let thread = THREADS
        .iter()
        .find(|thread| thread.tid.load(Acquire) == tid);
    thread.map_or(0, |thread| {
        // SAFETY: as in `on_trap`.
        unsafe { Server::from_ptr(thread.server.load(Relaxed)) }.turns()
    })
}

/// From here on the calling flow is stepped, and each that it switches to.
#[inline(never)]
pub(crate) fn begin() {
    ON.store(true, Relaxed);
    resume();
}

/// The caller is stepped if any flow is.
#[inline(never)]
pub(crate) fn resume() {
    if ON.load(Relaxed) {
        // SAFETY: SIGTRAP has a handler.
        unsafe { asm!("pushfq", "or qword ptr [rsp], 0x100", "popfq") };
    }
}

/// The caller is not stepped.
#[inline(never)]
pub(crate) fn pause() {
    // SAFETY: clears a flag that no code relies on.
    unsafe { asm!("pushfq", "and qword ptr [rsp], -0x101", "popfq") };
}

/// No flow is stepped any more: a flow that has the flag loses it at its next instruction.
#[inline(never)]
pub(crate) fn end() {
    ON.store(false, Relaxed);
    pause();
}

extern "C" fn on_trap(_signal: c_int, information: *mut libc::siginfo_t, context: *mut c_void) {
    // SAFETY: the kernel passes a ucontext_t, and this is one.
    let context = unsafe { &mut *context.cast::<libc::ucontext_t>() };
    if !ON.load(Relaxed) {
        context.uc_mcontext.gregs[libc::REG_EFL as usize] &= !FLAG;
        return;
    }
    // SAFETY: the kernel passes a siginfo_t.
    if unsafe { (*information).si_code } != STEP {
        return;
    }
    PLACE.store(
        context.uc_mcontext.gregs[libc::REG_RIP as usize] as usize,
        Relaxed,
    );
    let step = STEPS.fetch_add(1, Relaxed);
    keep_traps_unblocked(context);
    let tid = tid();
    let thread = THREADS
        .iter()
        .find(|thread| thread.tid.load(Acquire) == tid);
    if let Some(thread) = thread {
        if context.uc_stack.ss_sp != thread.stack.load(Relaxed) {
            WRONG_STACK.store(PLACE.load(Relaxed), Relaxed);
        }
    }
    let stride = STRIDE.load(Relaxed);
    if stride == u64::MAX || step % stride != FIRST.load(Relaxed) {
        return;
    }
    send_tick(tid);
    if let Some(thread) = thread {
        // SAFETY: the word came from a server, which lives as long as any flow is stepped.
        let server = unsafe { Server::from_ptr(thread.server.load(Relaxed)) };
        let turn = server.turns();
        if LAST_TURN.swap(turn, Relaxed) != turn {
            TURNS.fetch_add(1, Relaxed);
        }
        // The tick above is to end this turn, however short it was so far. The signal of this
        // request is merged with it.
        server.preempt();
    }
}

/// A trap while SIGTRAP is blocked ends the process. So a system call that would block it is made
/// here, without it.
fn keep_traps_unblocked(context: &mut libc::ucontext_t) {
    let registers = &mut context.uc_mcontext.gregs;
    let place = registers[libc::REG_RIP as usize] as usize;
    // SAFETY: the processor is about to execute it, and no instruction lies at the very end of the
    // mapped memory: a jump or the like follows.
    let next = unsafe { std::ptr::with_exposed_provenance::<[u8; 2]>(place).read_unaligned() };
    let is_it = registers[libc::REG_RAX as usize] == libc::SYS_rt_sigprocmask
        && registers[libc::REG_R10 as usize] == 8;
    let set = std::ptr::with_exposed_provenance::<u64>(registers[libc::REG_RSI as usize] as usize);
    if next != SYSTEM_CALL || !is_it || set.is_null() {
        return;
    }
    // SAFETY: the caller passes a signal set of this size.
    let set = unsafe { set.read_unaligned() };
    let mask = (&raw mut context.uc_sigmask).cast::<u64>();
    // SAFETY: the kernel's signal set is the first word of the C library's.
    let before = unsafe { mask.read() };
    let after = match registers[libc::REG_RDI as usize] as i32 {
        libc::SIG_BLOCK => before | set,
        libc::SIG_UNBLOCK => before & !set,
        _ => set,
    };
    if after & only(libc::SIGTRAP) == 0 {
        return;
    }
    let told =
        std::ptr::with_exposed_provenance_mut::<u64>(registers[libc::REG_RDX as usize] as usize);
    if !told.is_null() {
        // SAFETY: the caller passes room for a signal set.
        unsafe { told.write_unaligned(before) };
    }
    // SAFETY: as above.
    unsafe { mask.write(after & !only(libc::SIGTRAP)) };
    registers[libc::REG_RAX as usize] = 0;
    registers[libc::REG_RIP as usize] += SYSTEM_CALL.len() as i64;
    registers[libc::REG_RCX as usize] = registers[libc::REG_RIP as usize];
    registers[libc::REG_R11 as usize] = registers[libc::REG_EFL as usize];
}

fn only(signal: c_int) -> u64 {
    1 << (signal - 1)
}

/// The number of the kernel thread. Touches no thread-local storage, as it may be called in the
/// midst of a switch.
fn tid() -> i32 {
    // SAFETY: no arguments.
    unsafe { system_call(libc::SYS_gettid, [0; 4]) as i32 }
}

/// Sends the calling kernel thread the signal that the timer would send it.
fn send_tick(tid: i32) {
    // SAFETY: no arguments.
    let process = unsafe { system_call(libc::SYS_getpid, [0; 4]) };
    // A siginfo_t: signal, errno, code.
    let mut information = [0i32; 32];
    (information[0], information[2]) = (libc::SIGURG, libc::SI_TIMER);
    let arguments = [
        process as usize,
        tid as usize,
        libc::SIGURG as usize,
        information.as_ptr().expose_provenance(),
    ];
    // SAFETY: the kernel reads a siginfo_t, of this size.
    unsafe { system_call(libc::SYS_rt_tgsigqueueinfo, arguments) };
}

/// # Safety
/// That of the call.
unsafe fn system_call(number: i64, [a, b, c, d]: [usize; 4]) -> i64 {
    let result;
    // SAFETY: passed on.
    unsafe {
        asm!(
            "syscall",
            inlateout("rax") number => result,
            in("rdi") a,
            in("rsi") b,
            in("rdx") c,
            in("r10") d,
             lateout("rcx") _, lateout("r11") _, options(nostack))
    };
    result
}

fn signal_stack() -> *mut c_void {
    // SAFETY: zero is a valid stack_t.
    let mut now: libc::stack_t = unsafe { std::mem::zeroed() };
    // SAFETY: only reads the setting.
    assert_eq!(unsafe { libc::sigaltstack(std::ptr::null(), &mut now) }, 0);
    now.ss_sp
}
