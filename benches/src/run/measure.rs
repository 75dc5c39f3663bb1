//! One turn of one side: starts the program, has it work for about the given time, and reads off
//! what it did and what that took.

use super::client::{self, Protocol};
use super::entry::{Ask, Count, Entry, Figures, Measure, digest};
use super::process::{Finished, Job, Place, Process, Usage, confine};
use anyhow::{Context, Result, bail, ensure};
use std::ffi::OsString;
use std::fs;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// A program that takes this much longer than it should is ended. Tests share the machine.
const PATIENCE: Duration = Duration::from_secs(if cfg!(test) { 60 } else { 15 });
/// The number of pieces of work grows and shrinks by this at most from one turn to the next.
const STEP: f64 = 8.0;

/// A program that was found or built, beside one side or the other.
#[derive(Clone)]
pub(super) struct Subject {
    pub(super) entry: &'static Entry,
    pub(super) file: PathBuf,
    /// Before those of the entry.
    pub(super) arguments: Vec<OsString>,
    /// Of the client; 0 if it is no server.
    pub(super) connections: usize,
    pub(super) small: bool,
    /// What the program has said the first time, on either side.
    pub(super) said: Arc<Mutex<Option<u64>>>,
}

impl Subject {
    /// `size` is kept from turn to turn of a side; 0 at first.
    pub(super) fn turn(&self, place: &Place, budget: Duration, size: &mut u64) -> Result<Figures> {
        let figures = match self.entry.measure {
            Measure::Timed => Figures::told(self.run(place, &self.ask(place, budget))?),
            Measure::Whole => self.whole(place, budget),
            Measure::Counted { first, figures } => {
                if *size == 0 {
                    *size = first;
                }
                self.counted(place, budget, size, figures)
            }
            Measure::Served { protocol, .. } => self.served(place, budget, protocol),
        }?;
        self.compare(figures.said)?;
        Ok(figures)
    }

    fn ask<'a>(&self, place: &'a Place, budget: Duration) -> Ask<'a> {
        Ask {
            budget,
            servers: place.servers,
            count: 0,
            port: 0,
            folder: &place.folder,
            small: self.small,
        }
    }

    fn start(&self, place: &Place, ask: &Ask<'_>) -> Result<Process> {
        for (name, bytes) in (self.entry.needs)(ask) {
            fs::write(place.folder.join(name), bytes)?;
        }
        let own = (self.entry.arguments)(ask).into_iter().map(OsString::from);
        let job = Job {
            file: self.file.clone(),
            arguments: self.arguments.iter().cloned().chain(own).collect(),
            variables: self.entry.variables,
        };
        Process::start(place, &job)
    }

    fn run(&self, place: &Place, ask: &Ask<'_>) -> Result<Finished> {
        self.start(place, ask)?.finish(PATIENCE + 8 * ask.budget)
    }

    fn whole(&self, place: &Place, budget: Duration) -> Result<Figures> {
        let ask = self.ask(place, budget);
        let (mut runs, mut took, mut usage) = (0.0, Duration::ZERO, Usage::default());
        loop {
            let finished = self.run(place, &ask)?;
            runs += 1.0;
            took += finished.took;
            usage.add(finished.usage);
            let said = digest(&finished.output);
            if took < budget {
                self.compare(said)?;
                continue;
            }
            return Ok(Figures {
                count: Count {
                    operations: runs,
                    seconds: took.as_secs_f64(),
                },
                usage,
                all: runs,
                said,
                errors: finished.errors,
            });
        }
    }

    fn counted(
        &self,
        place: &Place,
        budget: Duration,
        size: &mut u64,
        figures: fn(&str, &Ask<'_>) -> Option<Count>,
    ) -> Result<Figures> {
        let ask = Ask {
            count: *size,
            ..self.ask(place, budget)
        };
        let finished = self.run(place, &ask)?;
        let output = String::from_utf8_lossy(&finished.output);
        let text = output + &*finished.errors;
        let Some(count) = figures(&text, &ask) else {
            // Some round to milliseconds, and say 0 for a short time.
            let is_short = finished.took < Duration::from_secs(1);
            ensure!(is_short && *size < 1 << 32, "no figures in its output");
            *size *= STEP as u64;
            return self.counted(place, budget, size, figures);
        };
        let factor = budget.as_secs_f64() / count.seconds;
        *size = ((*size as f64 * factor.clamp(1.0 / STEP, STEP)) as u64).max(1);
        Ok(Figures {
            count,
            usage: finished.usage,
            all: count.operations,
            said: 0,
            errors: finished.errors,
        })
    }

    fn served(&self, place: &Place, budget: Duration, protocol: Protocol) -> Result<Figures> {
        let port = client::free_port()?;
        let ask = Ask {
            port,
            ..self.ask(place, budget)
        };
        let server = self.start(place, &ask)?;
        confine(place.of_client())?;
        let load = client::await_server(port, || server.has_ended())
            .and_then(|()| client::load(protocol, port, self.connections, budget))
            .with_context(|| format!("the client of its server{}", server.last_words()))?;
        let finished = server.stop(PATIENCE)?;
        Ok(Figures {
            count: load.count,
            usage: finished.usage,
            all: load.all as f64,
            said: 0,
            errors: finished.errors,
        })
    }

    /// Refuses output that is not that of the first run.
    fn compare(&self, said: u64) -> Result<()> {
        let mut expected = self
            .said
            .lock()
            .unwrap_or_else(|broken| broken.into_inner());
        if *expected.get_or_insert(said) != said {
            bail!("its output is not that of the first run (the native side's, if it was there)");
        }
        Ok(())
    }
}
