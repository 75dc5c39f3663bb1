//! The children of a side: one for the work that it does by itself, two for a server and the load
//! against it.

use super::load::{Load, Outcome};
use super::request::{Address, Figures, Request, Task};
use crate::harness::{Child, Program};
use anyhow::Result;
use std::time::Duration;

/// A child whose answer is late by this much is given up.
const PATIENCE: Duration = Duration::from_secs(60);

/// How the children of a side are started.
#[derive(Clone)]
pub(super) enum Starter {
    /// By this program, which runs [`super::child`].
    Own(Program),
    /// A program that takes bare requests.
    Foreign(Program),
}

impl Starter {
    pub(super) fn figures(&self, request: &Request, cpus: &[usize]) -> Result<Figures> {
        let mut child = self.start(request, cpus)?;
        let figures = child.answer(PATIENCE + 4 * Duration::from_nanos(request.nanos))?;
        child.finish(PATIENCE)?;
        Ok(figures)
    }

    /// Runs a server, and the load against it.
    pub(super) fn outcome(
        &self,
        own: &Program,
        request: &Request,
        load: Load,
        cpus: [&[usize]; 2],
    ) -> Result<Outcome> {
        let mut server = self.start(request, cpus[0])?;
        let Address { port } = server.answer(PATIENCE)?;
        let load = Load {
            port,
            server: server.id() as i32,
            ..load
        };
        let mut generator = Child::start(own, &Task::Load(load), cpus[1])?;
        generator
            .answer(PATIENCE + 4 * Duration::from_nanos(load.nanos))
            .map_err(|error| match server.last_words() {
                words if words.is_empty() => error,
                words => error.context(format!("the server said{words}")),
            })
    }

    fn start(&self, request: &Request, cpus: &[usize]) -> Result<Child> {
        match self {
            Self::Own(program) => Child::start(program, &Task::Work(request.clone()), cpus),
            Self::Foreign(program) => Child::start(program, request, cpus),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::request::Work;
    use super::*;

    #[test]
    fn a_foreign_program_gets_the_bare_request() {
        // It answers with a request that has the members of figures, too.
        let script = r#"echo "$0" | sed 's/}$/,"operations":7,"before":0,"peak":0}/'"#;
        let shell = Program {
            file: "/bin/sh".into(),
            arguments: vec!["-c".into(), script.into()],
        };
        let request = Request {
            case: "x".into(),
            kind: String::new(),
            servers: 1,
            work: Work::Fib,
            size: 1,
            nanos: 5,
        };
        let cpus = &crate::harness::cpu::allowed().unwrap()[..1];
        let figures = Starter::Foreign(shell.clone())
            .figures(&request, cpus)
            .unwrap();
        assert_eq!((figures.operations, figures.nanos), (7, 5));
        assert!(
            Starter::Own(shell).figures(&request, cpus).is_err(),
            "a task is more than a request"
        );
    }
}
