//! A process group, as `/proc` shows it: its processes, and where their threads are.

use std::fmt::Write;
use std::fs;
use std::path::Path;
use std::process::Command;

/// A process that is alive.
pub(crate) struct Process {
    pub(crate) id: u32,
    pub(crate) name: String,
}

/// Ends all processes of the group at once.
pub(crate) fn kill(group: u32) {
    let group = i32::try_from(group).unwrap();
    // SAFETY: kill has no preconditions. The number is that of a group which this process made: its
    // leader's number is not reused while the group has members, and without members nothing is
    // killed.
    unsafe { libc::kill(-group, libc::SIGKILL) };
}

/// The name of a task, and the fields of its `stat` file from the state on.
fn stat(task: &Path) -> Option<(String, Vec<String>)> {
    let text = fs::read_to_string(task.join("stat")).ok()?;
    let (before, after) = text.rsplit_once(") ")?;
    let (_, name) = before.split_once('(')?;
    let fields = after.split_whitespace().map(str::to_owned).collect();
    Some((name.to_owned(), fields))
}

/// Whether a thread of the process has not ended: its first one may have, before the others.
fn is_alive(process: &Path) -> bool {
    let tasks = fs::read_dir(process.join("task"));
    tasks.into_iter().flatten().flatten().any(|task| {
        stat(&task.path()).is_some_and(|(_, fields)| !matches!(fields[0].as_str(), "Z" | "X"))
    })
}

/// The processes of the group that have not ended.
pub(crate) fn processes(group: u32) -> Vec<Process> {
    let group = group.to_string();
    fs::read_dir("/proc")
        .unwrap()
        .filter_map(|entry| {
            let path = entry.ok()?.path();
            let id = path.file_name()?.to_str()?.parse().ok()?;
            let (name, fields) = stat(&path)?;
            (fields[2] == group && is_alive(&path)).then_some(Process { id, name })
        })
        .collect()
}

/// The state of each thread of each process of the group.
pub(crate) fn describe(group: u32) -> String {
    let mut text = String::new();
    for process in processes(group) {
        let folder = Path::new("/proc").join(process.id.to_string());
        let _ = writeln!(text, "process {} ({}):", process.id, process.name);
        let tasks = fs::read_dir(folder.join("task"));
        for task in tasks.into_iter().flatten().flatten() {
            let _ = thread(&mut text, &task.path());
        }
        if std::env::var_os("UMCG_RUN_GDB").is_some() {
            backtraces(&mut text, process.id);
        }
    }
    text
}

/// A line about a thread: its state, its time on a CPU, where it waits, and its system call.
fn thread(text: &mut String, task: &Path) -> Option<()> {
    let (name, fields) = stat(task)?;
    let read = |name: &str| fs::read_to_string(task.join(name)).unwrap_or_default();
    let ticks = |at: usize| fields.get(at).and_then(|field| field.parse::<u64>().ok());
    writeln!(
        text,
        "  thread {} ({name}) {} cpu {} wchan {} syscall {}",
        task.file_name()?.to_str()?,
        fields[0],
        ticks(11)? + ticks(12)?,
        read("wchan"),
        read("syscall").trim_end(),
    )
    .ok()
}

fn backtraces(text: &mut String, id: u32) {
    let output = Command::new("timeout")
        .args([
            "20",
            "gdb",
            "-q",
            "-batch",
            "-ex",
            "thread apply all backtrace 20",
        ])
        .args(["-p", &id.to_string()])
        .output();
    if let Ok(output) = output {
        text.push_str(&String::from_utf8_lossy(&output.stdout));
    }
}
