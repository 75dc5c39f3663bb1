//! Files.

#[path = "net_support/mod.rs"]
mod support;

use std::io::{ErrorKind, Read, Seek, SeekFrom, Write};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use support::{everywhere, spawn};
use umcg::fs::{self, File, OpenOptions};

/// A folder that is removed at the end.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Folder {
        static NEXT: std::sync::atomic::AtomicU32 = std::sync::atomic::AtomicU32::new(0);
        let next = NEXT.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        let path =
            std::env::temp_dir().join(format!("umcg-fs-{name}-{}-{next}", std::process::id()));
        fs::create_dir_all(&path).unwrap();
        Folder(path)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        std::fs::remove_dir_all(&self.0).unwrap();
    }
}

#[test]
fn contents_come_back() {
    everywhere(|| {
        let folder = Folder::new("contents");
        let path = folder.0.join("file");
        let data: Vec<u8> = (0..1_000_000).map(|at| (at % 253) as u8).collect();
        fs::write(&path, &data).unwrap();
        assert_eq!(fs::read(&path).unwrap(), data);
        assert_eq!(fs::metadata(&path).unwrap().len(), data.len() as u64);
        fs::write(&path, "text").unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), "text");
        fs::write(&path, [0xff]).unwrap();
        assert_eq!(
            fs::read_to_string(&path).unwrap_err().kind(),
            ErrorKind::InvalidData
        );
    });
}

#[test]
fn positions_and_offsets() {
    everywhere(|| {
        let folder = Folder::new("positions");
        let mut file = File::create_new(folder.0.join("file")).unwrap();
        file.write_all(b"0123456789").unwrap();
        assert_eq!(file.write_at(b"AB", 4).unwrap(), 2);
        assert_eq!(file.stream_position().unwrap(), 10);
        let mut buffer = [0; 3];
        assert_eq!(file.read_at(&mut buffer, 3).unwrap(), 3);
        assert_eq!(&buffer, b"3AB");
        assert_eq!(file.read_at(&mut buffer, 100).unwrap(), 0);
        file.write_all_at(b"ab", 0).unwrap();
        file.read_exact_at(&mut buffer, 0).unwrap();
        assert_eq!(&buffer, b"ab2");
        assert_eq!(
            file.read_exact_at(&mut buffer, 8).unwrap_err().kind(),
            ErrorKind::UnexpectedEof
        );
        assert_eq!(
            file.read_at(&mut buffer, u64::MAX).unwrap_err().kind(),
            ErrorKind::InvalidInput
        );
        file.seek(SeekFrom::Start(8)).unwrap();
        let mut rest = String::new();
        file.read_to_string(&mut rest).unwrap();
        assert_eq!(rest, "89");
        file.sync_data().unwrap();
        file.sync_all().unwrap();
        file.set_len(5).unwrap();
        assert_eq!(file.metadata().unwrap().len(), 5);
        let mut copy = file.try_clone().unwrap();
        copy.rewind().unwrap();
        let mut all = Vec::new();
        file.read_to_end(&mut all).unwrap();
        assert_eq!(all, b"ab23A");
        let then = std::time::UNIX_EPOCH + std::time::Duration::from_secs(1_000);
        file.set_modified(then).unwrap();
        assert_eq!(file.metadata().unwrap().modified().unwrap(), then);
    });
}

#[test]
fn ways_of_opening() {
    everywhere(|| {
        let folder = Folder::new("opening");
        let path = folder.0.join("file");
        assert_eq!(File::open(&path).unwrap_err().kind(), ErrorKind::NotFound);
        assert_eq!(
            OpenOptions::new().open(&path).unwrap_err().kind(),
            ErrorKind::InvalidInput
        );
        assert_eq!(
            OpenOptions::new()
                .read(true)
                .create(true)
                .open(&path)
                .unwrap_err()
                .kind(),
            ErrorKind::InvalidInput
        );
        assert_eq!(
            File::open("nul\0byte").unwrap_err().kind(),
            ErrorKind::InvalidInput
        );
        OpenOptions::new()
            .append(true)
            .create(true)
            .open(&path)
            .unwrap()
            .write_all(b"one")
            .unwrap();
        let mut file = OpenOptions::new()
            .read(true)
            .append(true)
            .open(&path)
            .unwrap();
        file.write_all(b"two").unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"onetwo");
        assert_eq!(
            File::create_new(&path).unwrap_err().kind(),
            ErrorKind::AlreadyExists
        );
        File::create(&path).unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"");
        let mut read_only = File::open(&path).unwrap();
        assert!(read_only.write_all(b"x").is_err());
    });
}

#[test]
fn folders() {
    everywhere(|| {
        let folder = Folder::new("folders");
        let deep = folder.0.join("a/b/c");
        fs::create_dir_all(&deep).unwrap();
        fs::write(deep.join("file"), "x").unwrap();
        assert_eq!(fs::copy(deep.join("file"), deep.join("copy")).unwrap(), 1);
        fs::rename(deep.join("copy"), deep.join("renamed")).unwrap();
        let mut names: Vec<_> = fs::read_dir(&deep)
            .unwrap()
            .map(|entry| entry.unwrap().file_name())
            .collect();
        names.sort();
        assert_eq!(names, ["file", "renamed"]);
        assert!(fs::remove_dir(&deep).is_err());
        fs::remove_file(deep.join("file")).unwrap();
        fs::remove_file(deep.join("renamed")).unwrap();
        fs::remove_dir(&deep).unwrap();
        assert!(!fs::exists(&deep).unwrap());
        fs::remove_dir_all(folder.0.join("a")).unwrap();
        assert_eq!(fs::read_dir(&deep).unwrap_err().kind(), ErrorKind::NotFound);
    });
}

#[test]
fn many_files_at_once() {
    everywhere(|| {
        let folder = Folder::new("many");
        let workers: Vec<_> = (0..16_u8)
            .map(|index| {
                let path = folder.0.join(index.to_string());
                spawn(move || {
                    for round in 0..20 {
                        let data = vec![index ^ round; 10_000];
                        fs::write(&path, &data).unwrap();
                        assert_eq!(fs::read(&path).unwrap(), data);
                    }
                })
            })
            .collect();
        workers
            .into_iter()
            .for_each(|worker| worker.join().unwrap());
    });
}

/// A file that is not plain: a pipe has no position and is not in the page cache.
#[test]
fn a_pipe_is_waited_for() {
    everywhere(|| {
        let (reader, writer) = rustix::pipe::pipe().unwrap();
        let mut reader = File::from(reader);
        let mut writer = File::from(writer);
        let reading = spawn(move || {
            let mut text = String::new();
            reader.read_to_string(&mut text).unwrap();
            text
        });
        umcg::sleep(std::time::Duration::from_millis(20));
        writer.write_all(b"through").unwrap();
        drop(writer);
        assert_eq!(reading.join().unwrap(), "through");
    });
}

/// A thread that opens a file may hand the kernel other workers' reads along with that; when it
/// ends, the kernel cancels them.
#[test]
fn operations_outlive_the_threads_that_handed_them_over() {
    let stop = Arc::new(AtomicBool::new(false));
    let stopped = stop.clone();
    let passers_by = std::thread::spawn(move || {
        while !stopped.load(Relaxed) {
            let threads: Vec<_> = (0..4)
                .map(|_| std::thread::spawn(|| drop(File::open("/dev/null").unwrap())))
                .collect();
            threads
                .into_iter()
                .for_each(|thread| thread.join().unwrap());
        }
    });
    for _ in 0..40 {
        // In the global runtime, which is the threads' too.
        let readers: Vec<_> = (0..50)
            .map(|_| {
                let (reader, writer) = rustix::pipe::pipe().unwrap();
                (
                    umcg::spawn(move || File::from(reader).read(&mut [0; 8])),
                    writer,
                )
            })
            .collect();
        std::thread::sleep(std::time::Duration::from_millis(2));
        for (reader, writer) in readers {
            rustix::io::write(writer, b"x").unwrap();
            assert_eq!(reader.join().unwrap().unwrap(), 1);
        }
    }
    stop.store(true, Relaxed);
    passers_by.join().unwrap();
}
