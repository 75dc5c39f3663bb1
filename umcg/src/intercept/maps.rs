//! The code that the process has mapped, and the return addresses on a stack that lead to it.
//!
//! Nothing unwinds here: the courier looks at stacks of threads that may run, and must not ask the
//! dynamic linker, whose lock a thread may have that is off its server.

use super::memory;
use super::stand::Site;
use std::ops::Range;
use umcg_core::raw;

/// Executable mappings.
pub(super) struct Code(Vec<Object>);

/// The site of a call that the kernel makes.
pub(super) struct FoundSite {
    /// Behind its `syscall`.
    pub(super) next: usize,
    pub(super) stack_pointer: usize,
    /// The number as the program gave it, if it is known.
    pub(super) number: Option<usize>,
}

struct Object {
    range: Range<usize>,
    path: String,
}

impl Code {
    pub(super) fn read() -> Code {
        let text = std::fs::read_to_string("/proc/self/maps").unwrap_or_default();
        Code(text.lines().filter_map(object).collect())
    }

    fn object(&self, pc: usize) -> Option<&Object> {
        self.0.iter().find(|object| object.range.contains(&pc))
    }

    /// The first return address above the stack pointer that leads to another file than the one of
    /// `pc`: where the program has called the C library, mostly. By a look at the words, not by
    /// unwinding: rarely one that is left over from an earlier call.
    pub(super) fn caller(&self, pc: usize, stack_pointer: usize) -> Option<usize> {
        const LOOKED_AT: usize = 512;
        let found = self.elsewhere(pc, stack_pointer, LOOKED_AT, follows_call)?;
        Some(found.0)
    }

    /// The site of a call that the kernel makes for this instruction, with the stack pointer there:
    /// for one of the engine's stub, those of the program.
    pub(super) fn site(&self, pc: usize, stack_pointer: usize) -> Option<FoundSite> {
        /// The most of the stub's frame; and its words if it calls no hook.
        const HOOKED: usize = 1024;
        const FRAME: usize = 8;
        /// From the return address to the program's frame.
        const RED_ZONE: usize = 136;
        let ours = maps_anchor as *const () as usize;
        if self.object(pc)?.path != self.object(ours)?.path {
            return Some(FoundSite {
                next: pc,
                stack_pointer,
                number: None,
            });
        }
        // The stub's stack pointer is the address of the call.
        if let Some(site) = Site::read(stack_pointer) {
            let above = site.stack_pointer.wrapping_sub(stack_pointer);
            if above < HOOKED && self.object(site.next).is_some() {
                return Some(FoundSite {
                    next: site.next,
                    stack_pointer: site.stack_pointer,
                    number: Some(site.number),
                });
            }
        }
        // Without a hook, the number lies below the return address.
        let (next, at) = self.elsewhere(pc, stack_pointer, FRAME, |_| true)?;
        let mut number = [0; 1];
        let is_there = memory::fetch(at.wrapping_sub(size_of::<usize>()), &mut number);
        Some(FoundSite {
            next,
            stack_pointer: at + RED_ZONE,
            number: is_there.then_some(number[0] as u32 as usize),
        })
    }

    /// The first of so many words of a stack that leads to another file than the one of `pc`, and
    /// its address.
    fn elsewhere(
        &self,
        pc: usize,
        stack_pointer: usize,
        count: usize,
        accepts: fn(usize) -> bool,
    ) -> Option<(usize, usize)> {
        const PART: usize = 8;
        let own = &self.object(pc)?.path;
        let mut words = [0; PART];
        for part in 0..count / PART {
            let from = stack_pointer.wrapping_add(part * size_of_val(&words));
            if !memory::fetch(from, &mut words) {
                return None;
            }
            let leads_elsewhere = |word: &usize| {
                let object = self.object(*word);
                object.is_some_and(|object| object.path != *own && accepts(*word))
            };
            if let Some(index) = words.iter().position(leads_elsewhere) {
                return Some((words[index], from + index * size_of::<usize>()));
            }
        }
        None
    }
}

/// Lies in the library's own code.
extern "C" fn maps_anchor() {}

/// A line of `/proc/self/maps`: `start-end rights offset device inode      path`.
fn object(line: &str) -> Option<Object> {
    // A path may have spaces. There are more before it.
    let mut words = line.splitn(6, ' ');
    let (start, end) = words.next()?.split_once('-')?;
    let number = |text| usize::from_str_radix(text, 16).ok();
    if !words.next()?.contains('x') {
        return None;
    }
    Some(Object {
        range: number(start)?..number(end)?,
        path: Some(words.nth(3)?.trim_start())
            .filter(|path| !path.is_empty())?
            .to_owned(),
    })
}

/// Whether the instruction before this address is a call.
fn follows_call(address: usize) -> bool {
    let mut bytes = [0; 1];
    if !memory::fetch(address.wrapping_sub(8), &mut bytes) {
        return false;
    }
    let [.., sixth, fifth, _, third, second, first] = bytes[0].to_le_bytes();
    // Of the group of opcode 0xff, the second is the call.
    let calls = |opcode: u8, operand: u8| opcode == 0xff && operand >> 3 & 7 == 2;
    fifth == 0xe8 || calls(sixth, fifth) || calls(third, second) || calls(second, first)
}

/// A function, as `name+0x12 (file)`, or the place in the file.
pub(super) fn symbol(pc: usize) -> String {
    let mut text = String::new();
    raw::find_symbol(pc, |path, place, symbol| {
        let file = path.rsplit('/').next().unwrap_or(path);
        text = match symbol {
            Some((name, into)) => format!("{name}+{into:#x} ({file})"),
            None => format!("{place:#x} ({file})"),
        };
    });
    text
}

#[cfg(test)]
mod tests {
    #[test]
    fn objects_with_spaces_in_their_paths_are_told_apart() {
        let path = |line| super::object(line).map(|object| object.path);
        assert_eq!(
            path("7f00-8f00 r-xp 00026000 fe:01 4711       /lib/a b.so"),
            Some("/lib/a b.so".to_owned())
        );
        assert_eq!(
            path("7f00-8f00 rw-p 00026000 fe:01 4711       /lib/a"),
            None
        );
        assert_eq!(path("7f00-8f00 r-xp 00000000 00:00 0 "), None);
        let object = super::object("7f00-8f00 r-xp 00000000 00:00 0                  [vdso]");
        assert_eq!(object.unwrap().range, 0x7f00..0x8f00);
    }
}
