//! The sleep of a waiter for private and shared words: in the kernel, for the shared words and for
//! the state word of its [`Many`], by which wakers of the private ones wake it.

use super::super::many::Many;
use super::vector::{ListEnd, ListWord, MOST};
use crate::rt::time::timespec;
use rustix::io::Errno;
use rustix::thread::futex::{self, WaitFlags, WaitPtr, WaitvFlags};
use rustix::time::ClockId;

/// Waits for the shared words, and for a claim of `many`, which is armed. The caller may sleep in
/// the kernel.
pub(super) fn wait(many: &Many, words: &[ListWord], deadline: u64) -> ListEnd {
    if let Err(index) = many.doze() {
        return ListEnd::Woken(index);
    }
    let slept = sleep(many, words, deadline);
    // V1: a claim that has come meanwhile is reported.
    match (many.wake_up(), slept) {
        (Err(index), _) => ListEnd::Woken(index),
        (Ok(()), Ok(0)) => ListEnd::Cut,
        (Ok(()), Ok(nth)) => {
            let mut shared = words.iter().enumerate().filter(|(_, word)| word.is_shared);
            let woken = shared.nth(nth - 1).map_or(0, |(index, _)| index);
            ListEnd::Woken(woken)
        }
        (Ok(()), Err(Errno::AGAIN)) => ListEnd::Changed,
        (Ok(()), Err(Errno::TIMEDOUT)) => ListEnd::TimedOut,
        (Ok(()), Err(Errno::INTR)) => ListEnd::Cut,
        (Ok(()), Err(error)) => ListEnd::Refused(error),
    }
}

/// Returns the number of the word that was woken, counted from 1 among the shared ones; 0 for
/// another reason.
fn sleep(many: &Many, words: &[ListWord], deadline: u64) -> Result<usize, Errno> {
    let mut list = [futex::Wait::new(); MOST];
    let (address, dozing) = many.dozing();
    list[0] = in_kernel(address.addr(), dozing, WaitFlags::PRIVATE);
    let mut count = 1;
    // One of the words is private, so there is room.
    for word in words.iter().filter(|word| word.is_shared) {
        list[count] = in_kernel(word.address, word.expected, WaitFlags::empty());
        count += 1;
    }
    let until = timespec(deadline);
    futex::waitv(
        &list[..count],
        WaitvFlags::empty(),
        until.as_ref(),
        ClockId::Monotonic,
    )
}

fn in_kernel(address: usize, expected: u32, flags: WaitFlags) -> futex::Wait {
    let mut wait = futex::Wait::new();
    wait.val = expected.into();
    wait.uaddr = WaitPtr::new(std::ptr::with_exposed_provenance_mut(address));
    wait.flags = WaitFlags::SIZE_U32 | flags;
    wait
}
