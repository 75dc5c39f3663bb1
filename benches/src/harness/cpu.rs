//! Which CPUs there are for us, and staying on one of them.

use anyhow::{Context, Result};
use std::io;
use std::mem;

/// The CPUs this thread may run on, in ascending order.
pub fn allowed() -> Result<Vec<usize>> {
    // SAFETY: a set of bits, for which all zeroes is a value.
    let mut set: libc::cpu_set_t = unsafe { mem::zeroed() };
    // SAFETY: the set is writable and its size is given.
    let rc = unsafe { libc::sched_getaffinity(0, mem::size_of_val(&set), &mut set) };
    if rc != 0 {
        return Err(io::Error::last_os_error()).context("sched_getaffinity");
    }
    // SAFETY: every index is below the set's size.
    Ok((0..libc::CPU_SETSIZE as usize)
        .filter(|&cpu| unsafe { libc::CPU_ISSET(cpu, &set) })
        .collect())
}

/// Binds the calling thread to `cpu`. Threads it creates afterwards start out bound to it too.
pub fn pin(cpu: usize) -> Result<()> {
    spread(&[cpu])
}

/// The same with several CPUs.
pub fn spread(cpus: &[usize]) -> Result<()> {
    // SAFETY: a set of bits, for which all zeroes is a value.
    let mut set: libc::cpu_set_t = unsafe { mem::zeroed() };
    for cpu in cpus {
        // SAFETY: it came from `allowed`, so it is below the set's size.
        unsafe { libc::CPU_SET(*cpu, &mut set) };
    }
    // SAFETY: the set is readable and its size is given.
    let rc = unsafe { libc::sched_setaffinity(0, mem::size_of_val(&set), &set) };
    if rc != 0 {
        return Err(io::Error::last_os_error())
            .with_context(|| format!("cannot pin a thread to the CPUs {cpus:?}"));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pinned_thread_has_one_cpu() {
        let all = allowed().unwrap();
        assert!(!all.is_empty());
        let last = *all.last().unwrap();
        let seen = std::thread::spawn(move || pin(last).and_then(|()| allowed()))
            .join()
            .unwrap()
            .unwrap();
        assert_eq!(seen, [last]);
        assert_eq!(
            allowed().unwrap(),
            all,
            "pinning is the thread's own business"
        );
    }
}
