//! Compiles the programs, several at a time. Compilers and commands that are not installed are a
//! reason to skip a program; a source that does not compile is a failure.

use crate::program::{Language, Program};
use std::collections::BTreeSet;
use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Mutex;

/// The programs that can run, with their commands; and why others cannot.
pub(crate) fn all(
    programs: Vec<Program>,
    folder: &Path,
    jobs: usize,
) -> (Vec<Program>, Vec<String>) {
    let mut skipped = BTreeSet::new();
    let mut ready = Vec::new();
    for mut program in programs {
        let tool = compiler(program.language);
        let missing = [tool.as_str()]
            .into_iter()
            .chain(program.needs.iter().map(String::as_str))
            .find(|tool| !installed(tool));
        if let Some(tool) = missing {
            skipped.insert(format!("{}: no {tool}", program.name));
            continue;
        }
        program.command = match program.language {
            Language::Python => vec!["python3".into(), "-B".into(), program.source.clone()],
            Language::Shell => vec!["sh".into(), program.source.clone()],
            _ => vec![
                folder
                    .join(program.source.file_name().unwrap())
                    .with_extension(
                        // mutex.c and mutex.rs are two programs.
                        format!("{:?}", program.language).to_lowercase(),
                    ),
            ],
        };
        ready.push(program);
    }
    build(&ready, folder, jobs);
    (ready, skipped.into_iter().collect())
}

fn build(programs: &[Program], folder: &Path, jobs: usize) {
    let mut steps: Vec<(PathBuf, PathBuf, Vec<String>, Language)> = Vec::new();
    for program in programs {
        for library in &program.libraries {
            let source = program.source.with_file_name("libraries").join(library);
            let flags = vec!["-shared".to_owned(), "-fPIC".to_owned()];
            let to = folder.join(library).with_extension("so");
            steps.push((source, to, flags, program.language));
        }
        if !matches!(program.language, Language::Python | Language::Shell) {
            let to = program.command[0].clone();
            steps.push((
                program.source.clone(),
                to,
                program.flags.clone(),
                program.language,
            ));
        }
    }
    steps.dedup_by(|one, other| one.1 == other.1);
    let steps = Mutex::new(steps);
    std::thread::scope(|scope| {
        for _ in 0..jobs {
            scope.spawn(|| {
                loop {
                    let step = steps.lock().unwrap().pop();
                    let Some((source, to, flags, language)) = step else {
                        break;
                    };
                    one(&source, &to, &flags, language);
                }
            });
        }
    });
}

/// The name of the compiler or interpreter.
fn compiler(language: Language) -> String {
    let set = |variable, otherwise: &str| env::var(variable).unwrap_or(otherwise.to_owned());
    match language {
        Language::C => set("CC", "cc"),
        Language::Cxx => set("CXX", "c++"),
        Language::Rust => set("RUSTC", "rustc"),
        Language::Python => "python3".to_owned(),
        Language::Shell => "sh".to_owned(),
    }
}

fn installed(tool: &str) -> bool {
    let folders = env::var_os("PATH").unwrap_or_default();
    tool.contains('/') && Path::new(tool).exists()
        || env::split_paths(&folders).any(|folder| folder.join(tool).is_file())
}

/// Compiles one source, unless the result is newer than the source and the shared headers.
fn one(source: &Path, to: &Path, flags: &[String], language: Language) {
    let changed = |path: &Path| fs::metadata(path).and_then(|data| data.modified()).ok();
    let header = changed(&source.with_file_name("check.h"));
    let built = changed(to);
    if built > changed(source) && built > header {
        return;
    }
    let mut command = Command::new(compiler(language));
    match language {
        Language::C => {
            command.args(["-std=gnu11", "-Wno-deprecated-declarations"]);
        }
        Language::Cxx => {
            command.args(["-std=c++20"]);
        }
        _ => {}
    }
    if language == Language::Rust {
        command.args(["--edition", "2021", "-O", "-g", "-C", "codegen-units=2"]);
    } else {
        command.args([
            "-D_GNU_SOURCE",
            "-O2",
            "-g",
            "-pthread",
            "-Wall",
            "-Wextra",
            "-Werror",
        ]);
    }
    command.args(["-o".as_ref(), to.as_os_str(), source.as_os_str()]);
    command.args(flags);
    if language != Language::Rust {
        command.args(["-lm", "-ldl", "-lrt"]);
    }
    let output = command.output().expect("the compiler starts");
    assert!(
        output.status.success(),
        "{}: {}",
        source.display(),
        String::from_utf8_lossy(&output.stderr)
    );
}
