//! What all workers are doing, in any state of the process.

use crate::support::{child_command, is_child};
use rustix::pipe::{PipeFlags, pipe_with};
use std::io::Write;
use std::os::fd::AsFd;
use std::time::Duration;

/// A panic that prints its backtrace to a pipe that nobody reads has the lock of all backtraces,
/// for good.
#[test]
fn somebody_keeps_the_lock_of_backtraces() {
    const TEST: &str = "dumps::somebody_keeps_the_lock_of_backtraces";
    if !is_child(TEST) {
        let output = child_command(TEST).env("RUST_BACKTRACE", "1").output().unwrap();
        let (said, complained) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
        assert!(output.status.success() && said.contains("all was said"), "{:?}\n{said}\n{complained}", output.status);
        return;
    }
    let runtime = umcg::Runtime::builder().servers(1).build().unwrap();
    let builder = umcg::Builder::new().name("sleeper");
    let _sleeper = runtime.build(&builder, || umcg::sleep(Duration::from_secs(600))).unwrap();
    while !runtime.dump().contains("sleeper: waits: sleep") {
        std::thread::sleep(Duration::from_millis(1));
    }
    assert!(runtime.dump().contains("dumps::somebody_keeps"), "{}", runtime.dump());

    let (_unread, full) = pipe_with(PipeFlags::CLOEXEC).unwrap();
    fill(&full);
    rustix::stdio::dup2_stderr(&full).unwrap();
    // Its message is said by the hook, which holds the lock.
    let (sender, receiver) = std::sync::mpsc::channel();
    std::thread::spawn(move || {
        sender.send(rustix::thread::gettid().as_raw_nonzero()).unwrap();
        panic!("into a pipe that is full")
    });
    // Not before it has the lock: taken in the middle of a dump, it would be waited for.
    let call = format!("/proc/self/task/{}/syscall", receiver.recv().unwrap());
    while !std::fs::read_to_string(&call).unwrap().starts_with(&format!("{} ", libc::SYS_write)) {
        std::thread::sleep(Duration::from_millis(1));
    }
    let text = runtime.dump();
    assert!(text.contains("no backtraces: "), "{text}");
    assert!(text.contains("sleeper: waits: sleep"), "{text}");
    println!("all was said");
    std::process::exit(0);
}

fn fill(pipe: &impl AsFd) {
    rustix::io::ioctl_fionbio(pipe, true).unwrap();
    let mut file = std::fs::File::from(pipe.as_fd().try_clone_to_owned().unwrap());
    while file.write(&[0; 4096]).is_ok() {}
    while file.write(&[0]).is_ok() {}
    rustix::io::ioctl_fionbio(pipe, false).unwrap();
}
