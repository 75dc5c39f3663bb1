//! The tick's signal and its handler, as `umcg/preempt.rs` has them.

use super::frame::Frame;
use super::server::Server;
use super::tick::Tick;
use super::worker::{Inside, Worker};
use super::{SERVERS, rolls};
use std::ffi::c_int;
use std::sync::OnceLock;
use std::sync::atomic::Ordering::SeqCst;

pub(super) trait StuckHandler: Sync {
    fn stay(&self, tick: &Tick);
    fn leave(&self, inside: Inside, server: &'static Server, tick: &Tick, frame: &mut Frame);
}

pub(super) static STUCK: OnceLock<&'static dyn StuckHandler> = OnceLock::new();

pub(super) fn tick_of(_: &'static Worker, server: &'static Server) -> &'static Tick {
    &server.tick
}

pub(super) fn install_handler() -> Result<(), ()> {
    Ok(())
}

pub(super) fn signal_thread(tid: c_int) -> bool {
    SERVERS[tid as usize].tick.is_pending.store(true, SeqCst);
    true
}

/// A place where the signal may come to the server's kernel thread.
pub(super) fn may_come(server: &'static Server) {
    shuttle::thread::yield_now();
    if server.tick.is_pending.swap(false, SeqCst) {
        on_tick(server);
    }
}

fn on_tick(server: &'static Server) {
    let Some(worker) = server.current.get() else {
        return;
    };
    let (tick, turn) = (&server.tick, server.turns.load(SeqCst));
    if !tick.stuck.take(turn) {
        return;
    }
    let was_asked = server.asked.load(SeqCst) & 1 << turn != 0;
    assert!(was_asked, "a worker that was not seen stuck");
    let Some(handler) = STUCK.get() else {
        return;
    };
    let is_kept = rolls(3);
    if is_kept {
        return handler.stay(tick);
    }
    let mut frame = Frame::new(!rolls(4));
    handler.leave(Inside(worker), server, tick, &mut frame);
    let has_left = worker.has_left.load(SeqCst);
    assert_eq!(
        frame.steps.load(SeqCst),
        has_left,
        "one step, on the helper"
    );
}
