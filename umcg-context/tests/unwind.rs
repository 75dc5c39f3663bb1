//! The frames that an unwinder sees on the stack of a context.

mod common;

use common::{Coroutine, Mapped};
use std::arch::global_asm;
use std::backtrace::Backtrace;
use std::cell::RefCell;
use std::ffi::{c_int, c_void};
use std::hint::black_box;
use std::rc::Rc;
use umcg_context::{Context, resume, switch};

#[inline(never)]
fn where_the_flow_waits(me: &Coroutine) {
    me.suspend();
    black_box(());
}

#[inline(never)]
fn what_called_it(me: &Coroutine) {
    where_the_flow_waits(me);
    black_box(());
}

struct Look<'a> {
    coroutine: &'a Coroutine,
    text: String,
}

/// Inspects the flow that it was injected into, and suspends that flow again.
unsafe extern "C" fn look(arg: *mut ()) {
    // SAFETY: the test passes its Look, and waits.
    let look = unsafe { &mut *arg.cast::<Look>() };
    look.coroutine.injected();
    look.text = Backtrace::force_capture().to_string();
    look.coroutine.suspend();
}

#[test]
fn an_injected_function_sees_the_frames_of_the_suspended_flow() {
    let coroutine = Coroutine::new(what_called_it);
    coroutine.resume();
    for _ in 0..3 {
        let mut seen = Look {
            coroutine: &coroutine,
            text: String::new(),
        };
        coroutine.resume_inside(look, (&raw mut seen).cast());
        let inner = seen
            .text
            .find("where_the_flow_waits")
            .unwrap_or_else(|| panic!("no inner frame in\n{}", seen.text));
        let outer = seen
            .text
            .find("what_called_it")
            .unwrap_or_else(|| panic!("no outer frame in\n{}", seen.text));
        assert!(inner < outer, "wrong order:\n{}", seen.text);
        assert!(
            !seen.text.contains("an_injected_function_sees"),
            "goes on into the resumer:\n{}",
            seen.text
        );
    }
    coroutine.resume();
    assert!(coroutine.finished(), "the flow goes on where it was");
}

unsafe extern "C" {
    fn _Unwind_Backtrace(
        each: extern "C" fn(*mut c_void, *mut c_void) -> c_int,
        arg: *mut c_void,
    ) -> c_int;
    fn _Unwind_GetIP(frame: *mut c_void) -> usize;
}

const URC_NO_REASON: c_int = 0;
const URC_END_OF_STACK: c_int = 5;

extern "C" fn collect(frame: *mut c_void, list: *mut c_void) -> c_int {
    // SAFETY: the unwinder passes the argument that `unwind` gave it.
    let list = unsafe { &mut *list.cast::<Vec<usize>>() };
    // SAFETY: a frame that the unwinder is at.
    list.push(unsafe { _Unwind_GetIP(frame) });
    assert!(list.len() < 1_000, "the unwinder goes round in circles");
    URC_NO_REASON
}

/// The unwinder's verdict and the addresses of the frames.
fn unwind() -> (c_int, Vec<usize>) {
    let mut list: Vec<usize> = Vec::new();
    // SAFETY: `collect` gets the list.
    let verdict = unsafe { _Unwind_Backtrace(collect, (&raw mut list).cast()) };
    (verdict, list)
}

#[test]
fn the_entry_frame_ends_backtraces() {
    let result = Rc::new(RefCell::new(None));
    let inner = Rc::clone(&result);
    let coroutine = Coroutine::new(move |_| {
        *inner.borrow_mut() = Some((unwind(), Backtrace::force_capture().to_string()));
    });
    coroutine.resume();
    let ((verdict, frames), text) = result.borrow_mut().take().expect("a backtrace");
    assert_eq!(verdict, URC_END_OF_STACK, "{text}");
    assert!((3..50).contains(&frames.len()), "{text}");
    // The lines name functions and, below each, its place in the source: the last function is the
    // first frame.
    let last = text
        .lines()
        .rfind(|line| !line.trim_start().starts_with("at "))
        .expect("a line");
    assert!(
        last.contains("common::entry") || last.contains("umcg_context_first_frame"),
        "{text}"
    );
}

#[repr(C)]
struct Probe {
    frame_pointer: usize,
    context: Context,
    resumer: Context,
}

// An entry function that stores the frame pointer it is called with. A Rust function cannot know
// that.
#[cfg(target_arch = "x86_64")]
global_asm!(
    ".pushsection .text",
    "umcg_test_entry:",
    "mov [rdi], rbp",
    "jmp {go_back}",
    ".popsection",
    go_back = sym go_back,
);
#[cfg(target_arch = "aarch64")]
global_asm!(
    ".pushsection .text",
    "umcg_test_entry:",
    "str x29, [x0]",
    "b {go_back}",
    ".popsection",
    go_back = sym go_back,
);
#[cfg(target_arch = "riscv64")]
global_asm!(
    ".pushsection .text",
    "umcg_test_entry:",
    "sd s0, 0(a0)",
    "tail {go_back}",
    ".popsection",
    go_back = sym go_back,
);

unsafe extern "C" {
    fn umcg_test_entry(arg: *mut ()) -> !;
}

unsafe extern "C" fn go_back(arg: *mut ()) -> ! {
    // SAFETY: the test passes its Probe, and waits.
    let probe = unsafe { &*arg.cast_const().cast::<Probe>() };
    // SAFETY: the test is suspended there.
    unsafe { resume(&probe.resumer) }
}

#[test]
#[cfg_attr(any(umcg_asan, umcg_tsan), ignore = "switches that are not annotated")]
fn the_frame_pointer_chain_ends_at_the_entry_function() {
    // perf and the kernel's unwinder stop at a frame pointer of 0.
    let stack = Mapped::new(64 << 10);
    let mut probe = Probe {
        frame_pointer: 1,
        context: Context::empty(),
        resumer: Context::empty(),
    };
    let arg = (&raw mut probe).cast();
    // SAFETY: the stack is used by nothing else.
    unsafe { probe.context.prepare(stack.top(), umcg_test_entry, arg) };
    // SAFETY: both are valid, and the flow comes back to the resumer.
    unsafe { switch(&raw mut probe.resumer, &raw const probe.context) };
    assert_eq!(black_box(&probe).frame_pointer, 0);
}

#[test]
#[cfg_attr(any(umcg_asan, umcg_tsan), ignore = "switches that are not annotated")]
fn a_switch_out_of_an_injected_function_keeps_the_flow() {
    unsafe extern "C" fn leave_and_come_back(arg: *mut ()) {
        // SAFETY: the test passes a coroutine that is suspended.
        let coroutine = unsafe { &*arg.cast_const().cast::<Coroutine>() };
        for _ in 0..3 {
            // SAFETY: the resumer is suspended.
            unsafe { switch(coroutine.context.get(), coroutine.resumer.get()) };
        }
    }
    let coroutine = Coroutine::new(what_called_it);
    coroutine.resume();
    let arg = (&raw const *coroutine).cast_mut().cast();
    // SAFETY: both are valid; the flow is suspended.
    unsafe {
        umcg_context::inject(
            coroutine.resumer.get(),
            coroutine.context.get(),
            leave_and_come_back,
            arg,
        )
    };
    for _ in 0..3 {
        assert!(!coroutine.finished());
        coroutine.resume();
    }
    assert!(coroutine.finished());
}
