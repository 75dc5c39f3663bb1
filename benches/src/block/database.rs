//! A redis server for the time of a turn.

use crate::harness::{Child, Program};
use crate::run::{await_server, free_port};
use anyhow::{Context, Result};
use std::cell::RefCell;
use std::ffi::OsString;
use std::path::Path;

/// It ends with this, or with the thread that started it.
pub(super) struct Database {
    pub(super) port: u16,
    _server: Child,
}

impl Database {
    /// Starts one on these CPUs. It keeps nothing on a disk.
    pub(super) fn start(file: &Path, cpus: &[usize]) -> Result<Self> {
        let port = free_port()?;
        let fixed = "--bind 127.0.0.1 --appendonly no --daemonize no --loglevel warning \
                     --tcp-backlog 4096 --maxclients 10000 --port";
        let mut arguments: Vec<OsString> = fixed.split(' ').map(OsString::from).collect();
        arguments.extend([port.to_string(), "--save".to_owned(), String::new()].map(Into::into));
        let program = Program {
            file: file.to_owned(),
            arguments,
        };
        let server = RefCell::new(Child::spawn(&program, cpus)?);
        await_server(port, || server.borrow_mut().has_ended())
            .with_context(|| format!("redis-server{}", server.borrow().last_words()))?;
        Ok(Self {
            port,
            _server: server.into_inner(),
        })
    }
}
