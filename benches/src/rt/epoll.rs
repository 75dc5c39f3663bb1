//! The server in C, `peers/epoll.c`, which only echoes.

use super::side::{Ready, Side};
use anyhow::{Context, Result, bail};
use std::io;
use std::net::{Ipv4Addr, TcpListener};
use std::os::fd::AsRawFd;
use std::time::Duration;

unsafe extern "C" {
    /// Returns only if it fails, an error number.
    fn umcg_bench_epoll_serve(listener: libc::c_int, servers: libc::c_int) -> libc::c_int;
}

pub(super) struct Epoll {
    pub(super) servers: usize,
}

const ONLY: &str = "the C server only echoes";

impl Side for Epoll {
    fn yields(&self, _workers: usize, _each: u64) -> Result<Duration> {
        bail!(ONLY)
    }

    fn ring(&self, _workers: usize, _hops: u64) -> Result<Duration> {
        bail!(ONLY)
    }

    fn spawn_join(&self, _times: u64) -> Result<Duration> {
        bail!(ONLY)
    }

    fn skynet(&self, _leaves: u64) -> Result<Duration> {
        bail!(ONLY)
    }

    fn sleepers(&self, _workers: u64, _nap: Duration) -> Result<Duration> {
        bail!(ONLY)
    }

    fn fib(&self, _n: u64) -> Result<Duration> {
        bail!(ONLY)
    }

    fn serve(&self, batch: usize, ready: Ready) -> Result<()> {
        if batch != 0 {
            bail!(ONLY);
        }
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
        listener.set_nonblocking(true)?;
        ready(listener.local_addr()?.port());
        let servers = self.servers.try_into()?;
        // SAFETY: an open socket, which stays open until the call returns.
        let error = unsafe { umcg_bench_epoll_serve(listener.as_raw_fd(), servers) };
        Err(io::Error::from_raw_os_error(error)).context("the C server ended")
    }
}
