//! The state of all workers, in any state of the process.

use crate::support::{child_command, is_child};
use rustix::pipe::{PipeFlags, pipe_with};
use std::io::Write;
use std::os::fd::AsFd;
use std::sync::mpsc::channel;
use std::time::Duration;

/// Runs `scene` in a process of its own, given a runtime with a worker that sleeps; it must come to
/// its end.
fn plays(test: &str, scene: fn(&umcg::Runtime)) {
    if !is_child(test) {
        let output = child_command(test)
            .env("RUST_BACKTRACE", "1")
            .output()
            .unwrap();
        let (said, complained) = (
            String::from_utf8_lossy(&output.stdout),
            String::from_utf8_lossy(&output.stderr),
        );
        assert!(
            output.status.success() && said.contains("all was said"),
            "{:?}\n{said}\n{complained}",
            output.status
        );
        return;
    }
    // A failure does not wait for the sleeper.
    let runtime = Box::leak(Box::new(
        umcg::Runtime::builder().servers(1).build().unwrap(),
    ));
    let builder = umcg::Builder::new().name("sleeper");
    let _sleeper = runtime.build(&builder, sleeps_for_the_dump).unwrap();
    while !runtime.dump().contains("sleeper: waits: sleep") {
        std::thread::sleep(Duration::from_millis(1));
    }
    let text = runtime.dump();
    assert!(
        text.contains("dumps::sleeps_for_the_dump") && text.contains("dumps.rs:"),
        "{text}"
    );
    scene(runtime);
    println!("all was said");
    std::process::exit(0);
}

#[inline(never)]
fn sleeps_for_the_dump() {
    umcg::sleep(Duration::from_secs(600));
    std::hint::black_box(());
}

/// A panic that prints its backtrace to a pipe without a reader has the lock that Rust has for all
/// backtraces, for good. A dump does without.
#[test]
fn somebody_keeps_the_lock_of_backtraces() {
    plays("dumps::somebody_keeps_the_lock_of_backtraces", |runtime| {
        let (_unread, full) = pipe_with(PipeFlags::CLOEXEC).unwrap();
        fill(&full);
        rustix::stdio::dup2_stderr(&full).unwrap();
        // Its message is said by the hook, which holds the lock.
        let (sender, receiver) = channel();
        std::thread::spawn(move || {
            sender
                .send(rustix::thread::gettid().as_raw_nonzero())
                .unwrap();
            panic!("into a pipe that is full")
        });
        let call = format!("/proc/self/task/{}/syscall", receiver.recv().unwrap());
        while !std::fs::read_to_string(&call)
            .unwrap()
            .starts_with(&format!("{} ", libc::SYS_write))
        {
            std::thread::sleep(Duration::from_millis(1));
        }
        let text = runtime.dump();
        assert!(
            text.contains("sleeper: waits: sleep") && text.contains("dumps::sleeps_for_the_dump"),
            "{text}"
        );
    });
}

/// Where the names of functions cannot be asked for, there are their addresses.
#[test]
fn somebody_keeps_the_lock_of_symbols() {
    plays("dumps::somebody_keeps_the_lock_of_symbols", |runtime| {
        let (sender, receiver) = channel();
        std::thread::spawn(move || {
            // As a return address, which is looked for before it.
            backtrace::resolve((plays as *mut u8).wrapping_add(1).cast(), |_| {
                let _ = sender.send(());
                std::thread::sleep(Duration::from_secs(600));
            });
        });
        receiver.recv().unwrap();
        let text = runtime.dump();
        assert!(
            text.contains("sleeper: waits: sleep") && text.contains("no names of functions: "),
            "{text}"
        );
        assert!(text.lines().any(|line| line.starts_with("  0x")), "{text}");
    });
}

fn fill(pipe: &impl AsFd) {
    rustix::io::ioctl_fionbio(pipe, true).unwrap();
    let mut file = std::fs::File::from(pipe.as_fd().try_clone_to_owned().unwrap());
    while file.write(&[0; 4096]).is_ok() {}
    while file.write(&[0]).is_ok() {}
    rustix::io::ioctl_fionbio(pipe, false).unwrap();
}
