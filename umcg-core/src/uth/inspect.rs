//! Calling a function on the stack of a suspended flow.

use umcg_context::Context;
use umcg_context::annotate::Flow;

/// Calls `f` on the stack of a suspended flow, below its frames, and leaves the flow as it was.
/// `flows` are the caller's and the suspended flow's names for sanitizers.
///
/// # Safety
/// The flow of `context` is suspended by the assembly, no other thread resumes it meanwhile, and
/// its stack has room for `f`, which does not unwind. If sanitizers are told, `flows` are the right
/// ones.
pub(crate) unsafe fn inspect(
    flows: (*mut Flow, *mut Flow),
    context: *const Context,
    f: &mut dyn FnMut(),
) {
    struct Inspection<'a> {
        f: &'a mut dyn FnMut(),
        flows: (*mut Flow, *mut Flow),
        back: *const Context,
        there: Context,
    }
    unsafe extern "C" fn run(call: *mut ()) {
        // SAFETY: `inspect` passed the call, and waits.
        let call = unsafe { &mut *call.cast::<Inspection<'_>>() };
        // SAFETY: first thing on the stack of the suspended flow.
        unsafe { Flow::arrive(call.flows.1) };
        (call.f)();
        // SAFETY: the inspector is suspended.
        unsafe { Flow::leave(call.flows.1, call.flows.0) };
        // Switch back, and leave this frame suspended on that stack. It is simply forgotten:
        // nothing ever resumes it.
        // SAFETY: `back` holds the inspector, which waits.
        unsafe { umcg_context::switch(&raw mut call.there, call.back) };
    }
    let mut back = Context::empty();
    let mut call = Inspection {
        f,
        flows,
        back: &raw const back,
        there: Context::empty(),
    };
    // SAFETY: the flow is suspended.
    unsafe { Flow::leave(flows.0, flows.1) };
    // SAFETY: passed on. The context is only read, so its flow later continues from where it was.
    unsafe { umcg_context::inject(&raw mut back, context, run, (&raw mut call).cast()) };
    // SAFETY: back on the inspector's stack.
    unsafe { Flow::arrive(flows.0) };
}
