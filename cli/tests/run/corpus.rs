//! The programs in all ways, several at a time; once more for each choice of refused system calls.

use crate::compare::{self, Compared, Way};
use crate::program::Program;
use crate::refuse::{self, Refusal};
use crate::settings::Settings;
use std::path::Path;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

/// From here on these are the programs of the corpus, not a choice of them.
const MANY: usize = 20;

/// A run of all programs.
pub(crate) struct Pass {
    ways: Vec<Way>,
    refused: Option<Refusal>,
}

/// One pass, or one for each choice of `UMCG_RUN_REFUSED`.
pub(crate) fn passes(ways: Vec<Way>) -> Vec<Pass> {
    let refused = refuse::chosen();
    if refused.is_empty() {
        return vec![Pass {
            ways,
            refused: None,
        }];
    }
    refused
        .into_iter()
        .map(|refusal| Pass {
            ways: ways
                .iter()
                .map(|way| way.clone().without(&refusal))
                .collect(),
            refused: Some(refusal),
        })
        .collect()
}

/// What came of the programs of a pass.
#[derive(Default)]
struct Sum {
    skipped: usize,
    failed: Vec<String>,
}

impl Pass {
    /// Runs the programs. Returns the names of those that fail.
    pub(crate) fn run(
        &self,
        programs: &[Program],
        folder: &Path,
        settings: &Settings,
    ) -> Vec<String> {
        let title = match &self.refused {
            Some(refused) => format!(" without {}", refused.title),
            None => String::new(),
        };
        if let Some(Err(error)) = self.refused.as_ref().map(Refusal::is_possible) {
            println!("SKIPPED: programs{title}: no filter can be installed: {error}");
            return Vec::new();
        }
        let sum = self.compare(programs, folder, settings);
        let Sum { skipped, failed } = sum;
        println!(
            "{} programs{title}, {skipped} skipped, {} failed",
            programs.len(),
            failed.len()
        );
        // Of all programs most are to be compared; a few that were chosen may need what is refused.
        let most = programs.len() >= MANY && skipped * 2 > programs.len();
        let most = most.then(|| "most programs are skipped".to_owned());
        failed
            .into_iter()
            .chain(most)
            .map(|name| name + &title)
            .collect()
    }

    fn compare(&self, programs: &[Program], folder: &Path, settings: &Settings) -> Sum {
        let next = AtomicUsize::new(0);
        let sum = Mutex::new(Sum::default());
        std::thread::scope(|scope| {
            for _ in 0..settings.jobs {
                scope.spawn(|| {
                    while let Some(program) = programs.get(next.fetch_add(1, Relaxed)) {
                        let native_only = !program.known.is_empty();
                        if native_only {
                            println!("KNOWN: {}: {}", program.name, program.known);
                        }
                        let ways = &self.ways[..if native_only { 1 } else { self.ways.len() }];
                        let compared = compare::program(program, ways, folder, settings);
                        sum.lock().unwrap().add(program, compared);
                    }
                });
            }
        });
        sum.into_inner().unwrap()
    }
}

impl Sum {
    fn add(&mut self, program: &Program, compared: Result<Compared, String>) {
        match compared {
            Ok(Compared::Same(line)) => println!("{line}"),
            Ok(Compared::Skipped(reason)) => {
                println!("SKIPPED: {reason}");
                self.skipped += 1;
            }
            Err(failure) => {
                println!("{failure}");
                self.failed.push(program.name.clone());
            }
        }
    }
}
