//! System calls as text: `futex(0x7f…, WAIT_PRIVATE, 3)`.

use super::class::ROWS;
use std::fmt::Write;

/// How many arguments calls have that wait often. Of others the first three are printed.
const COUNTS: [(&str, usize); 24] = [
    ("accept", 3),
    ("accept4", 4),
    ("clock_nanosleep", 4),
    ("close", 1),
    ("connect", 3),
    ("epoll_pwait", 6),
    ("epoll_wait", 4),
    ("exit", 1),
    ("fsync", 1),
    ("nanosleep", 2),
    ("openat", 4),
    ("pause", 0),
    ("poll", 3),
    ("ppoll", 5),
    ("pread64", 4),
    ("read", 3),
    ("recvfrom", 6),
    ("recvmsg", 3),
    ("rt_sigsuspend", 2),
    ("rt_sigtimedwait", 4),
    ("sched_yield", 0),
    ("select", 5),
    ("wait4", 4),
    ("write", 3),
];

/// The operations of futex(2), without flags.
const OPERATIONS: [&str; 14] = [
    "WAIT",
    "WAKE",
    "FD",
    "REQUEUE",
    "CMP_REQUEUE",
    "WAKE_OP",
    "LOCK_PI",
    "UNLOCK_PI",
    "TRYLOCK_PI",
    "WAIT_BITSET",
    "WAKE_BITSET",
    "WAIT_REQUEUE_PI",
    "CMP_REQUEUE_PI",
    "LOCK_PI2",
];

/// The name of a call.
pub(super) fn name(number: usize) -> Option<&'static str> {
    let rows = ROWS.iter().flat_map(|rows| rows.iter());
    let mut calls = rows.flat_map(|row| row.calls.iter());
    Some(calls.find(|(known, _)| *known == number)?.1)
}

/// The call with its arguments.
pub(super) fn call(number: usize, arguments: &[usize; 6]) -> String {
    let Some(name) = name(number) else {
        return format!("system call {number}");
    };
    let mut text = format!("{name}(");
    if name == "futex" {
        futex(&mut text, arguments);
        text.push(')');
        return text;
    }
    let known = COUNTS.iter().find(|(known, _)| *known == name);
    let count = known.map_or(3, |known| known.1);
    for (index, argument) in arguments.iter().take(count).enumerate() {
        text.push_str(if index > 0 { ", " } else { "" });
        value(&mut text, *argument);
    }
    text.push_str(if known.is_some() { ")" } else { ", …)" });
    text
}

fn futex(text: &mut String, arguments: &[usize; 6]) {
    const COMMAND: usize = 127;
    const PRIVATE: usize = libc::FUTEX_PRIVATE_FLAG as usize;
    const REALTIME: usize = libc::FUTEX_CLOCK_REALTIME as usize;
    let [word, operation, expected, time, ..] = *arguments;
    value(text, word);
    let operation_name = OPERATIONS.get(operation & COMMAND).unwrap_or(&"?");
    let is_private = operation & PRIVATE != 0;
    let has_clock = operation & REALTIME != 0;
    let _ = write!(
        text,
        ", {operation_name}{}{}, {}",
        if is_private { "_PRIVATE" } else { "" },
        if has_clock { "|CLOCK_REALTIME" } else { "" },
        expected as u32,
    );
    if time != 0 && operation_name.starts_with("WAIT") {
        text.push_str(", ");
        value(text, time);
    }
}

fn value(text: &mut String, value: usize) {
    const SMALL: usize = 1 << 16;
    let signed = value as isize;
    let narrow = value as u32 as i32;
    let _ = match (value, signed, narrow) {
        (..SMALL, ..) => write!(text, "{value}"),
        (_, -4096..=-1, _) => write!(text, "{signed}"),
        // A C int in a wider register.
        (_, 1.., -4096..=-1) if value >> 32 == 0 => write!(text, "{narrow}"),
        _ => write!(text, "{value:#x}"),
    };
}

#[cfg(test)]
mod tests {
    #[test]
    fn calls_read_as_in_a_program() {
        let text = |name: &str, arguments: [usize; 6]| {
            let number = (0..512).find(|number| super::name(*number) == Some(name));
            super::call(number.unwrap(), &arguments)
        };
        assert_eq!(
            text("futex", [0x7000_0000, 128, 3, 0, 0, 0]),
            "futex(0x70000000, WAIT_PRIVATE, 3)"
        );
        assert_eq!(
            text("futex", [0x7000_0000, 137 | 256, 0, 0x1_0000, 0, !0]),
            "futex(0x70000000, WAIT_BITSET_PRIVATE|CLOCK_REALTIME, 0, 0x10000)"
        );
        assert_eq!(
            text("read", [5, 0x10_0000, 1, 9, 9, 9]),
            "read(5, 0x100000, 1)"
        );
        assert_eq!(
            text("poll", [0x10_0000, 1, 0xffff_ffff, 0, 0, 0]),
            "poll(0x100000, 1, -1)"
        );
        assert_eq!(text("mmap", [0; 6]), "mmap(0, 0, 0, …)");
        assert_eq!(super::call(510, &[0; 6]), "system call 510");
    }
}
