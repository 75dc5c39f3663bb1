//! Threads: their pointers, stacks and guards, the room that a signal's frame takes.

use super::{figure, finding, line, refusal, status, tried};
use crate::doctor::{Finding, State};
use std::ptr;

pub(super) fn all() -> Vec<Finding> {
    vec![
        thread_pointer(),
        guard_markers(),
        max_map_count(),
        overcommit(),
        huge_pages(),
        signal_frame(),
        shadow_stack(),
    ]
}

fn thread_pointer() -> Finding {
    let name = "FSGSBASE";
    if !cfg!(target_arch = "x86_64") {
        return finding(
            name,
            State::Yes,
            "the thread pointer is an ordinary register here",
            "thread workers move between servers in user mode",
        );
    }
    const HWCAP2_FSGSBASE: libc::c_ulong = 1 << 1;
    // SAFETY: reads the auxiliary vector.
    if unsafe { libc::getauxval(libc::AT_HWCAP2) } & HWCAP2_FSGSBASE != 0 {
        return finding(
            name,
            State::Yes,
            "AT_HWCAP2 says so",
            "thread workers move between servers in user mode",
        );
    }
    finding(
        name,
        State::No,
        "not in AT_HWCAP2: it takes Linux 5.9 and a CPU since 2012",
        "thread workers stay on their own kernel threads and are handed control by futex: same \
         meaning, slow",
    )
}

fn guard_markers() -> Finding {
    tried(
        "MADV_GUARD_INSTALL",
        mark_a_guard().map_err(|error| error + "; it came with Linux 6.13"),
        "a guard below each stack that costs no mapping: any number of stacks",
        "guards without markers, two mappings a stack: the number of stacks is bounded by a \
         quarter of vm.max_map_count",
    )
}

fn mark_a_guard() -> Result<(), String> {
    const MADV_GUARD_INSTALL: libc::c_int = 102;
    const LENGTH: usize = 1 << 16;
    let access = libc::PROT_READ | libc::PROT_WRITE;
    let kind = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
    // SAFETY: a new mapping, at a place of the kernel's choice.
    let map = unsafe { libc::mmap(ptr::null_mut(), LENGTH, access, kind, -1, 0) };
    if map == libc::MAP_FAILED {
        return Err(refusal());
    }
    // SAFETY: the mapping just made, which no other thread uses.
    let marked = match unsafe { libc::madvise(map, LENGTH, MADV_GUARD_INSTALL) } {
        0 => Ok(()),
        _ => Err(refusal()),
    };
    // SAFETY: as above.
    unsafe { libc::munmap(map, LENGTH) };
    marked
}

fn max_map_count() -> Finding {
    let count = figure("/proc/sys/vm/max_map_count");
    finding(
        "vm.max_map_count",
        State::Info,
        count,
        "stacks are cut from slabs of one mapping each; bounds them only without guard markers",
    )
}

fn overcommit() -> Finding {
    let (name, free) = (
        "vm.overcommit_memory",
        "stacks are reserved whole and cost what they touch",
    );
    match line("/proc/sys/vm/overcommit_memory").as_deref() {
        Some("2") => {
            let effect = "every stack counts with its full size against the commit limit: give \
                smaller stacks where there are many";
            finding(name, State::Limited, "2 (strict)", effect)
        }
        Some("1") => finding(name, State::Yes, "1 (always)", free),
        Some("0") => finding(name, State::Yes, "0 (heuristic)", free),
        _ => finding(name, State::Info, "unknown", free),
    }
}

fn huge_pages() -> Finding {
    let modes = line("/sys/kernel/mm/transparent_hugepage/enabled")
        .unwrap_or_else(|| "not in this kernel".into());
    let effect = "stack slabs opt out (MADV_NOHUGEPAGE), or one touched stack would cost 2 MiB";
    finding("transparent huge pages", State::Info, modes, effect)
}

fn signal_frame() -> Finding {
    const AT_MINSIGSTKSZ: libc::c_ulong = 51;
    // SAFETY: reads the auxiliary vector.
    let size = unsafe { libc::getauxval(AT_MINSIGSTKSZ) };
    let detail = if size == 0 {
        "unknown to this kernel".to_owned()
    } else {
        format!("{size} bytes (AT_MINSIGSTKSZ)")
    };
    let effect = "preemption takes this much of the worker's own stack, vector registers included, \
        and as much or 8 KiB beneath; overflow is told from an alternate stack";
    finding("signal frame", State::Info, detail, effect)
}

fn shadow_stack() -> Finding {
    let name = "shadow stack";
    let features = status("x86_Thread_features").unwrap_or_default();
    if features
        .split_whitespace()
        .any(|feature| feature == "shstk")
    {
        let effect = "switches do not carry it: run with GLIBC_TUNABLES=glibc.cpu.x86_shstk=off";
        return finding(name, State::Limited, "on for this process", effect);
    }
    finding(
        name,
        State::Info,
        "off for this process",
        "nothing to do: a switch need not carry one",
    )
}
