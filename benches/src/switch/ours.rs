//! A server and one worker, on the public interface: the worker waits, the server runs it again.

use crate::harness::{Sample, cpu, measure};
use anyhow::{Context, Result, anyhow, bail};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread;
use std::time::Duration;
use umcg::{Event, Ready, Server, Worker, WorkerId};

const ID: WorkerId = WorkerId::from_index(1);
/// How long a worker may take to register before something is wrong.
const PATIENCE: Duration = Duration::from_secs(10);

/// The body of either kind of worker.
#[inline(always)]
fn give_back(stop: &AtomicBool) {
    // The switches order this load after the store that precedes the last one.
    while !stop.load(Relaxed) && umcg::wait().is_ok() {}
}

/// The server's loop. Afterwards `stop` is set, and the worker has exited.
fn serve(server: &Server, first: Ready, stop: &AtomicBool, budget: Duration) -> Result<Sample> {
    let mut slot = Some(first);
    let mut stray = None;
    let sample = measure(budget, |n| {
        let Some(mut ready) = slot.take() else { return };
        for _ in 0..n {
            match server.switch_to(ready) {
                Event::Wait(again) => ready = again,
                other => return stray = Some(other),
            }
        }
        slot = Some(ready);
    });
    stop.store(true, Relaxed);
    let ready = slot.with_context(|| format!("the worker did not wait: {stray:?}"))?;
    match server.switch_to(ready) {
        Event::Exit(ID) => Ok(sample),
        other => bail!("the worker did not exit: {other:?}"),
    }
}

/// A thread worker; its home thread is on the given CPU.
pub(super) fn thread_worker(worker_cpu: usize, budget: Duration) -> Result<Sample> {
    let server = Server::register()?;
    let stop = AtomicBool::new(false);
    thread::scope(|scope| {
        let worker = thread::Builder::new()
            .name("worker".into())
            .spawn_scoped(scope, || {
                cpu::pin(worker_cpu)?;
                let _worker = Worker::register(ID)?;
                give_back(&stop);
                anyhow::Ok(())
            })?;
        let sample = match server.wait_timeout(PATIENCE) {
            Ok(Event::Wake(ready)) => serve(&server, ready, &stop, budget),
            other => Err(anyhow!("the worker did not register: {other:?}")),
        };
        worker
            .join()
            .map_err(|_| anyhow!("the worker panicked"))??;
        sample
    })
}

/// A light worker.
pub(super) fn light_worker(_worker_cpu: usize, budget: Duration) -> Result<Sample> {
    let server = Server::register()?;
    let stop = Arc::new(AtomicBool::new(false));
    let seen = Arc::clone(&stop);
    // SAFETY: `give_back` keeps nothing of the thread's across its waits.
    let first = unsafe { umcg::light(ID).spawn(move || give_back(&seen)) }?;
    serve(&server, first, &stop, budget)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_kinds_come_back_and_exit() {
        let cpus = cpu::allowed().unwrap();
        for side in [thread_worker, light_worker] {
            for cpu in [cpus[0], cpus[cpus.len() - 1]] {
                let turn = move || side(cpu, Duration::from_millis(2)).unwrap().operations;
                assert!(thread::spawn(turn).join().unwrap() > 0);
            }
        }
    }
}
