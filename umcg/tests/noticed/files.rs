//! Calls on files and vectors have the kernel's own results, also where a try has had a part.

use super::runtime;
use std::io::{ErrorKind, IoSlice, IoSliceMut, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::fd::AsRawFd;
use std::os::unix::fs::FileExt;
use std::os::unix::net::{UnixDatagram, UnixStream};
use std::time::{Duration, Instant};

/// More than a pipe or a socket takes at once.
const LARGE: usize = 3 << 20;

/// A file of which the first half is in memory, most likely, and the second is not.
fn half_in_memory(name: &str, bytes: usize) -> std::fs::File {
    let path = std::env::temp_dir().join(format!("umcg-{name}-{}", std::process::id()));
    let mut file = std::fs::File::options()
        .create(true)
        .truncate(true)
        .read(true)
        .write(true)
        .open(&path)
        .unwrap();
    std::fs::remove_file(&path).unwrap();
    file.write_all(&vec![7; bytes]).unwrap();
    file.sync_all().unwrap();
    let half = bytes as libc::off_t / 2;
    // SAFETY: advice about a range of an open file.
    let advised =
        unsafe { libc::posix_fadvise(file.as_raw_fd(), half, half, libc::POSIX_FADV_DONTNEED) };
    assert_eq!(advised, 0);
    file
}

#[test]
fn a_file_that_is_partly_in_memory_is_read_whole() {
    const BYTES: usize = 4 << 20;
    let file = half_in_memory("half", BYTES);
    runtime().run(|| {
        let mut bytes = vec![0; BYTES];
        assert_eq!(file.read_at(&mut bytes, 0).unwrap(), BYTES);
        assert!(bytes.iter().all(|byte| *byte == 7));
    });
    let mut file = half_in_memory("whole", BYTES);
    runtime().run(|| {
        std::io::Seek::rewind(&mut file).unwrap();
        let mut bytes = vec![0; BYTES];
        assert_eq!(file.read(&mut bytes).unwrap(), BYTES);
        assert_eq!(file.read(&mut bytes).unwrap(), 0);
    });
    let mut file = half_in_memory("parts", BYTES);
    runtime().run(|| {
        std::io::Seek::rewind(&mut file).unwrap();
        let mut bytes = vec![0; BYTES + 5];
        let (first, rest) = bytes.split_at_mut(BYTES / 2 + 1);
        let (second, third) = rest.split_at_mut(BYTES / 4);
        let mut parts = [first, second, third].map(IoSliceMut::new);
        assert_eq!(file.read_vectored(&mut parts).unwrap(), BYTES);
        assert!(bytes[..BYTES].iter().all(|byte| *byte == 7));
        assert_eq!(bytes[BYTES..], [0; 5]);
    });
}

#[test]
fn a_read_at_a_negative_position_is_refused() {
    let file = half_in_memory("position", 4096);
    runtime().run(|| {
        let mut byte = [0u8];
        // SAFETY: room for a byte.
        let had = unsafe { libc::pread(file.as_raw_fd(), byte.as_mut_ptr().cast(), 1, -1) };
        let error = std::io::Error::last_os_error();
        assert_eq!((had, error.raw_os_error()), (-1, Some(libc::EINVAL)));
    });
}

#[test]
fn a_vector_that_a_non_blocking_socket_takes_in_part_does_not_wait() {
    runtime().run(|| {
        let (mut near, _far) = UnixStream::pair().unwrap();
        near.set_nonblocking(true).unwrap();
        let bytes = vec![1; LARGE];
        let parts = [IoSlice::new(&bytes), IoSlice::new(&bytes)];
        let written = near.write_vectored(&parts).unwrap();
        assert!(written < LARGE);
        let error = near.write_vectored(&parts).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::WouldBlock);
    });
}

#[test]
fn a_vector_observes_the_sockets_own_time_limit() {
    runtime().run(|| {
        let (mut near, _far) = UnixStream::pair().unwrap();
        let limit = Duration::from_millis(30);
        near.set_write_timeout(Some(limit)).unwrap();
        let bytes = vec![1; LARGE];
        let parts = [IoSlice::new(&bytes), IoSlice::new(&bytes)];
        let began = Instant::now();
        let written = near.write_vectored(&parts).unwrap();
        assert!(written < LARGE && began.elapsed() >= limit);
    });
}

/// Sends parts as one message.
fn send_parts(stream: &UnixStream, parts: &[IoSlice<'_>], flags: i32) -> std::io::Result<usize> {
    // SAFETY: zeros are an empty header.
    let mut header: libc::msghdr = unsafe { std::mem::zeroed() };
    header.msg_iov = parts.as_ptr().cast_mut().cast();
    header.msg_iovlen = parts.len();
    // SAFETY: a header with parts that can be read.
    let sent = unsafe { libc::sendmsg(stream.as_raw_fd(), &header, flags) };
    usize::try_from(sent).map_err(|_| std::io::Error::last_os_error())
}

#[test]
fn a_message_of_parts_keeps_its_flags_to_its_end() {
    runtime().run(|| {
        let (near, mut far) = UnixStream::pair().unwrap();
        let reader = umcg::spawn(move || {
            let mut bytes = vec![0; LARGE / 3];
            far.read_exact(&mut bytes).unwrap();
            // The peer goes in the midst of the message.
        });
        let bytes = vec![1; LARGE];
        let parts = [IoSlice::new(&bytes), IoSlice::new(&bytes)];
        // SAFETY: the default action: a signal would end this process.
        let before = unsafe { libc::signal(libc::SIGPIPE, libc::SIG_DFL) };
        let sent = send_parts(&near, &parts, libc::MSG_NOSIGNAL).unwrap();
        let error = send_parts(&near, &parts, libc::MSG_NOSIGNAL).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::BrokenPipe);
        // SAFETY: as it was.
        unsafe { libc::signal(libc::SIGPIPE, before) };
        assert!((LARGE / 3..2 * LARGE).contains(&sent));
        reader.join().unwrap();
    });
}

#[test]
fn parts_arrive_in_order_whatever_their_sizes() {
    runtime().run(|| {
        let (near, mut far) = UnixStream::pair().unwrap();
        let bytes: Vec<u8> = (0..LARGE).map(|index| (index % 251) as u8).collect();
        let expected = bytes.clone();
        let writer = umcg::spawn(move || {
            let (first, rest) = bytes.split_at(LARGE / 2);
            let (second, third) = rest.split_at(1);
            let parts = [&first[..0], first, &first[..0], second, third, &first[..0]];
            let parts = parts.map(IoSlice::new);
            assert_eq!((&near).write_vectored(&parts).unwrap(), LARGE);
            assert_eq!(send_parts(&near, &parts, 0).unwrap(), LARGE);
        });
        let mut all = Vec::new();
        far.read_to_end(&mut all).unwrap();
        writer.join().unwrap();
        assert_eq!(all.len(), 2 * LARGE);
        assert!(all[..LARGE] == expected && all[LARGE..] == expected);
    });
}

#[test]
fn epoll_with_a_mask_waits_for_what_is_asked() {
    runtime().run(|| {
        // SAFETY: makes a descriptor.
        let set = unsafe { libc::epoll_create1(libc::EPOLL_CLOEXEC) };
        assert!(set >= 0);
        let (near, mut far) = UnixStream::pair().unwrap();
        let mut event = libc::epoll_event {
            events: libc::EPOLLIN as u32,
            u64: 5,
        };
        // SAFETY: open descriptors and an event.
        let added =
            unsafe { libc::epoll_ctl(set, libc::EPOLL_CTL_ADD, near.as_raw_fd(), &mut event) };
        assert_eq!(added, 0);
        let writer = umcg::spawn(move || {
            std::thread::sleep(Duration::from_millis(10));
            far.write_all(b"x").unwrap();
            far
        });
        // SAFETY: zeros are an empty mask.
        let mask: libc::sigset_t = unsafe { std::mem::zeroed() };
        // SAFETY: room for an event, and a mask.
        let had = unsafe { libc::epoll_pwait(set, &mut event, 1, 5000, &mask) };
        assert_eq!((had, { event.u64 }), (1, 5));
        drop(writer.join().unwrap());
        // SAFETY: no other user has it.
        unsafe { libc::close(set) };
    });
}

#[test]
fn an_error_after_a_part_is_for_the_next_call() {
    runtime().run(|| {
        let bytes = vec![7u8; 16 << 20];
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let mut near = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (far, _) = listener.accept().unwrap();
        let resetter = std::thread::spawn(move || {
            std::thread::sleep(Duration::from_millis(20));
            let at_once = libc::linger {
                l_onoff: 1,
                l_linger: 0,
            };
            // SAFETY: a value of the right size.
            let result = unsafe {
                libc::setsockopt(
                    far.as_raw_fd(),
                    libc::SOL_SOCKET,
                    libc::SO_LINGER,
                    (&raw const at_once).cast(),
                    size_of_val(&at_once) as libc::socklen_t,
                )
            };
            assert_eq!(result, 0);
        });
        let had = near.write(&bytes).unwrap();
        assert!(had > 0 && had < bytes.len());
        let error = near.read(&mut [0]).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::ConnectionReset);
        resetter.join().unwrap();
    });
}

#[test]
fn empty_messages_are_sent_and_lengths_that_no_call_accepts_are_refused() {
    runtime().run(|| {
        let (near, far) = UnixDatagram::pair().unwrap();
        let mut bytes = [0; 8];
        let send = |count: usize| {
            // SAFETY: the kernel refuses a buffer that ends beyond the program's addresses.
            unsafe { libc::write(near.as_raw_fd(), [7u8; 8].as_ptr().cast(), count) }
        };
        assert_eq!(send(0), 0);
        assert_eq!(send(4), 4);
        assert_eq!(far.recv(&mut bytes).unwrap(), 0);
        assert_eq!(far.recv(&mut bytes).unwrap(), 4);
        assert_eq!(send(isize::MAX as usize), -1);
        let error = std::io::Error::last_os_error();
        assert_eq!(error.raw_os_error(), Some(libc::EFAULT));
        // SAFETY: no precondition.
        let counter = unsafe { libc::eventfd(1, 0) };
        // SAFETY: nothing is stored.
        let result = unsafe { libc::read(counter, bytes.as_mut_ptr().cast(), 0) };
        assert_eq!(result, -1);
        let error = std::io::Error::last_os_error();
        assert_eq!(error.raw_os_error(), Some(libc::EINVAL));
        // SAFETY: this function's.
        unsafe { libc::close(counter) };
    });
}
