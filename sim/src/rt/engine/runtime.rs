//! A runtime: the state that its servers share, and how a worker that is ready reaches one.

use super::active::Active;
use super::driver::Driver;
use super::poller::Poller;
use super::server::ServerState;
use super::sleepers::Sleepers;
use crate::machine;
use crate::rt::base::here::Here;
use crate::rt::base::sync::{full_fence, light};
use crate::rt::run::watch::Watch;
use crate::rt::scheduler::{Chosen, RuntimeNamed, Wake, Why};
use crate::rt::task::runnable::Runnable;
use std::cell::{Cell, OnceCell};
use std::sync::atomic::{AtomicBool, Ordering::*};
use umcg_core::raw;

/// No worker has a deadline.
pub(crate) struct Timers;

impl Timers {
    pub(crate) fn next(&self) -> u64 {
        u64::MAX
    }
}

pub(crate) struct SharedServer {
    pub(crate) timers: Timers,
    local: OnceCell<Box<ServerState>>,
}

impl SharedServer {
    pub(crate) fn enter(&self, local: Box<ServerState>, _server: raw::Server) -> &ServerState {
        self.local.get_or_init(|| local)
    }

    pub(crate) fn local(&self) -> Option<&ServerState> {
        self.local.get().map(|local| &**local)
    }
}

/// What a simulation counts.
#[derive(Default)]
pub(crate) struct Counts {
    /// Workers that are ready, and those that run.
    pub(crate) ready: Cell<u64>,
    pub(crate) running: Cell<u64>,
    /// How often there was one worker more for which there is a server: a worker became ready when
    /// fewer were ready or running than there are servers.
    pub(crate) rises: Cell<u64>,
    pub(crate) turns: Cell<u64>,
    /// Turns on another server than the worker's last one.
    pub(crate) moves: Cell<u64>,
}

pub(crate) fn add(count: &Cell<u64>, more: u64) {
    count.set(count.get() + more);
}

pub(crate) struct RuntimeState {
    pub(crate) scheduler: Chosen,
    pub(crate) has_slots: bool,
    pub(crate) ranked: bool,
    pub(crate) servers: Box<[SharedServer]>,
    pub(crate) active: Active,
    pub(crate) sleepers: Sleepers,
    pub(crate) driver: Box<dyn Poller>,
    pub(crate) watch: Watch,
    pub(crate) group: Group,
    pub(crate) closing: AtomicBool,
    over: Cell<bool>,
    pub(crate) counts: Counts,
}

/// No worker blocks.
pub(crate) struct Group;

impl Group {
    pub(crate) fn has_events(&self) -> bool {
        false
    }
}

impl RuntimeState {
    pub(crate) fn new(mut scheduler: Chosen, servers: usize, has_sources: bool) -> RuntimeState {
        let name = String::new();
        let number = 0;
        scheduler.start(RuntimeNamed {
            name,
            number,
            servers,
        });
        let server = |_| SharedServer {
            timers: Timers,
            local: OnceCell::new(),
        };
        RuntimeState {
            has_slots: scheduler.has_slots(),
            ranked: false,
            scheduler,
            servers: (0..servers).map(server).collect(),
            active: Active::new(servers, servers, false),
            sleepers: Sleepers::new(servers),
            driver: Box::new(Driver::new(has_sources)),
            watch: Watch::new(),
            group: Group,
            closing: AtomicBool::new(false),
            over: Cell::new(false),
            counts: Counts::default(),
        }
    }

    pub(crate) fn is_over(&self) -> bool {
        self.over.get()
    }

    pub(crate) fn attention(&self) -> bool {
        self.over.get()
    }

    pub(crate) fn is_stopping(&self) -> bool {
        false
    }

    pub(crate) fn wants_spares(&self) -> bool {
        false
    }

    /// Read when a runtime is closing, which none is.
    pub(crate) fn live(&self) -> u64 {
        1
    }

    /// The work is done, or given up.
    pub(crate) fn end(&self) {
        self.over.set(true);
        self.sleepers.wake_all(&*self.driver);
        self.watch.rouse();
        self.messages().end();
    }

    /// The driver, as the thing that brings messages.
    pub(crate) fn messages(&self) -> &Driver {
        let driver = self.driver.as_any().downcast_ref();
        driver.expect("made as one")
    }

    /// There are no ranks.
    pub(crate) fn call_again(&self) {}

    pub(crate) fn tell(&self, server: usize) {
        if let Some(local) = self.servers[server].local() {
            local.countdown.end_from_outside();
        }
    }

    /// Counts a worker that becomes ready.
    pub(crate) fn count_ready(&self) {
        let counts = &self.counts;
        add(&counts.ready, 1);
        if counts.ready.get() + counts.running.get() <= self.servers.len() as u64 {
            add(&counts.rises, 1);
        }
    }

    pub(crate) fn ready_at(&self, worker: Runnable, why: Why, here: &Here) {
        match self.scheduler.ready(worker, why, Some(here)) {
            Wake::Nobody => {}
            wake => self.wake(wake),
        }
    }

    pub(crate) fn ready_outside(&self, worker: Runnable, why: Why) {
        let wake = self.scheduler.ready(worker, why, None);
        self.wake_from_outside(wake);
    }

    pub(crate) fn wake_from_outside(&self, wake: Wake) {
        full_fence();
        self.wake(wake);
    }

    fn wake(&self, wake: Wake) {
        light();
        if self.sleepers.asleep() == 0 && !matches!(wake, Wake::Server(_)) {
            return;
        }
        match wake {
            Wake::Server(index) => self.sleepers.wake(&*self.driver, index),
            Wake::UnlessNapping if self.scheduler.will_look() => {}
            Wake::One | Wake::UnlessNapping if self.sleepers.is_one_needed() => {
                self.sleepers.wake_one(&*self.driver);
            }
            Wake::One | Wake::UnlessNapping | Wake::Nobody => {}
        }
    }

    /// The server that the caller is.
    pub(crate) fn here(&self) -> Option<&ServerState> {
        self.servers.get(machine::current()?)?.local()
    }

    /// A worker is ready.
    pub(crate) fn ready(&self, worker: Runnable, why: Why) {
        self.count_ready();
        match self.here() {
            Some(local) => local.make_ready(worker, why),
            None => self.ready_outside(worker, why),
        }
    }
}
