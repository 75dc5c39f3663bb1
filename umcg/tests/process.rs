//! Child processes.

#[path = "net_support/mod.rs"]
mod support;

use std::io::{ErrorKind, Read, Write};
use std::time::{Duration, Instant};
use support::everywhere;
use umcg::process::{Command, Stdio};

fn shell(script: &str) -> Command {
    let mut command = Command::new("sh");
    command.arg("-c").arg(script);
    command
}

#[test]
fn output_and_status() {
    everywhere(|| {
        let output = shell("echo out; echo err >&2; exit 3").output().unwrap();
        assert_eq!(
            (output.stdout, output.stderr, output.status.code()),
            (b"out\n".to_vec(), b"err\n".to_vec(), Some(3))
        );
        assert!(shell("true").status().unwrap().success());
        assert_eq!(
            Command::new("/no/such/program").spawn().unwrap_err().kind(),
            ErrorKind::NotFound
        );
        let output = shell("echo $A-$B; pwd")
            .env("A", "1")
            .env_remove("B")
            .current_dir("/")
            .output()
            .unwrap();
        assert_eq!(output.stdout, b"1-\n/\n");
        // Its input ends at once, and a choice is kept.
        assert!(Command::new("cat").output().unwrap().stdout.is_empty());
        assert!(
            shell("echo away")
                .stdout(Stdio::null())
                .output()
                .unwrap()
                .stdout
                .is_empty()
        );
    });
}

#[test]
fn much_output_on_both_pipes() {
    everywhere(|| {
        let output = shell(
            "head -c 300000 /dev/zero; head -c 300000 /dev/zero >&2; head -c 100000 /dev/zero",
        )
        .output()
        .unwrap();
        assert_eq!(
            (output.stdout.len(), output.stderr.len()),
            (400_000, 300_000)
        );
    });
}

#[test]
fn a_conversation() {
    everywhere(|| {
        let mut child = Command::new("cat")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let (mut to, mut from) = (child.stdin.take().unwrap(), child.stdout.take().unwrap());
        for round in 0..50_u8 {
            to.write_all(&[round; 9]).unwrap();
            let mut answer = [0; 9];
            from.read_exact(&mut answer).unwrap();
            assert_eq!(answer, [round; 9]);
        }
        assert!(child.try_wait().unwrap().is_none());
        drop(to);
        assert_eq!(from.read(&mut [0; 1]).unwrap(), 0);
        assert!(child.wait().unwrap().success());
        assert!(child.wait().unwrap().success(), "the status is kept");
    });
}

#[test]
fn a_deadline_and_a_kill() {
    everywhere(|| {
        let mut child = Command::new("sleep").arg("100").spawn().unwrap();
        let began = Instant::now();
        assert_eq!(
            child
                .wait_timeout(Duration::from_millis(30))
                .unwrap_err()
                .kind(),
            ErrorKind::TimedOut
        );
        assert!(began.elapsed() >= Duration::from_millis(30));
        child.kill().unwrap();
        let status = child
            .wait_deadline(Instant::now() + Duration::from_secs(100))
            .unwrap();
        assert!(!status.success() && status.code().is_none());
    });
}

/// A shell reports by its status whether its standard input is ours.
#[test]
fn what_output_chooses_is_not_kept() {
    everywhere(|| {
        let mut command =
            shell("test \"$(readlink /proc/$$/fd/0)\" = \"$(readlink /proc/$PPID/fd/0)\"");
        assert!(!command.output().unwrap().status.success(), "a pipe");
        assert!(command.status().unwrap().success(), "its parent's");
    });
}

#[test]
fn the_output_of_one_is_the_input_of_another() {
    everywhere(|| {
        let variables = [("A", "a pipe"), ("B", "blocks")];
        let mut first = shell("sleep 0.05; echo $A that $B")
            .envs(variables)
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        // A pipe that does not block would be an error of `cat`, for nothing is there yet.
        let output = Command::new("cat")
            .stdin(first.stdout.take().unwrap())
            .output()
            .unwrap();
        assert_eq!(
            (output.stdout, output.stderr),
            (b"a pipe that blocks\n".to_vec(), vec![])
        );
        assert!(first.wait().unwrap().success());
    });
}

/// The process number that a shell has written into a file before it replaced itself by a
/// long-running program.
fn number_in(path: &std::path::Path) -> i32 {
    let began = Instant::now();
    loop {
        if let Ok(text) = std::fs::read_to_string(path)
            && text.ends_with('\n')
        {
            return text.trim().parse().unwrap();
        }
        assert!(began.elapsed() < Duration::from_secs(100), "no child began");
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// No other process could end it, or wait for it.
#[test]
fn a_cancelled_status_or_output_leaves_no_child() {
    type Run = fn(&mut Command) -> bool;
    let ways: [Run; 2] = [
        |command| command.status().is_ok(),
        |command| command.output().is_ok(),
    ];
    for kind in support::drivers() {
        let runtime = umcg::Runtime::builder()
            .servers(2)
            .driver(kind)
            .build()
            .unwrap();
        for (way, run) in ways.into_iter().enumerate() {
            let path = std::env::temp_dir()
                .join(format!("umcg-process-{}-{kind}-{way}", std::process::id()));
            let script = format!("echo $$ > {}; exec sleep 1000", path.display());
            let worker = runtime.spawn(move || run(&mut shell(&script)));
            let child = number_in(&path);
            std::fs::remove_file(path).unwrap();
            worker.abort();
            assert!(matches!(worker.join(), Err(umcg::JoinError::Cancelled)));
            // Neither running nor a zombie.
            let child = rustix::process::Pid::from_raw(child).unwrap();
            assert_eq!(
                rustix::process::test_kill_process(child),
                Err(rustix::io::Errno::SRCH)
            );
        }
    }
}
