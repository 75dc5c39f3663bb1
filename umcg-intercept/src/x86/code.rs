//! The code of one object: its functions, and the sites of system calls in them.

use super::decode::{Decoded, decode, is_syscall, start};
use super::image::{Image, symbols};
use super::scan;
use super::unwind::{self, Function};
use core::cell::RefCell;
use std::collections::HashMap;
use std::rc::Rc;

/// The instruction.
const SYSCALL: (u8, u8) = (0x0f, 0x05);

/// An object's functions, decoded when asked for.
pub(crate) struct Code<'a> {
    pub(crate) image: &'a Image,
    /// By ascending start, without overlaps.
    functions: Vec<Function>,
    /// Where bytes look like a site's.
    candidates: Vec<usize>,
    /// Addresses and sizes of functions by name.
    pub(crate) symbols: Vec<(usize, usize)>,
    decoded: RefCell<HashMap<usize, Rc<Decoded<'a>>>>,
}

/// The sites of an object.
#[derive(Default)]
pub(crate) struct Sites {
    /// The function of each, and its address.
    pub(crate) known: Vec<(Function, usize)>,
    /// Instructions of functions whose code could not be decoded.
    pub(crate) undecoded: usize,
    /// Bytes like a site's outside of all functions.
    pub(crate) outside: usize,
}

impl<'a> Code<'a> {
    /// `None` if the object has nothing like a site. Most objects have none.
    pub(crate) fn new(image: &'a Image) -> Option<Code<'a>> {
        let candidates = candidates(image);
        if candidates.is_empty() {
            return None;
        }
        let functions = unwind::functions(|address| image.from(address), image.unwind);
        let mut functions = functions.unwrap_or_default();
        functions.retain(|one| image.bytes(&(one.start..one.end)).is_some());
        let symbols = symbols(image);
        let mut code = Code {
            image,
            functions,
            candidates,
            symbols,
            decoded: RefCell::default(),
        };
        code.add_named();
        for at in 0..code.candidates.len() {
            let address = code.candidates[at];
            if code.around(address).is_none() {
                code.extend(address);
            }
        }
        Some(code)
    }

    /// Functions without unwind tables: from a symbol to its end, or to the next function.
    fn add_named(&mut self) {
        let mut named = Vec::new();
        for (at, &(start, size)) in self.symbols.iter().enumerate() {
            if self.around(start).is_some() {
                continue;
            }
            let after = self.functions.partition_point(|one| one.start <= start);
            let next_function = self
                .functions
                .get(after)
                .map_or(usize::MAX, |one| one.start);
            let next_symbol = self.symbols.get(at + 1).map_or(usize::MAX, |one| one.0);
            let segment = self.image.text().find(|range| range.contains(&start));
            let limit = segment.map_or(start, |range| range.end).min(next_function);
            let end = if size == 0 {
                next_symbol
            } else {
                start.saturating_add(size)
            }
            .min(limit);
            if start < end {
                named.push(Function {
                    start,
                    end,
                    restorer: false,
                });
            }
        }
        self.functions.append(&mut named);
        unwind::sort(&mut self.functions);
    }

    /// Hand-written functions may go on behind the end of their unwind table, such as `clone`. The
    /// one before the address is made longer, up to the next, if it goes on or jumps there.
    fn extend(&mut self, address: usize) {
        let after = self.functions.partition_point(|one| one.start <= address);
        let Some(before) = after.checked_sub(1) else {
            return;
        };
        let function = self.functions[before];
        let decoded = self.decoded(function);
        let Some(segment) = self
            .image
            .text()
            .find(|range| range.contains(&function.start))
        else {
            return;
        };
        let end = self
            .functions
            .get(after)
            .map_or(segment.end, |next| next.start.min(segment.end));
        if decoded.valid && decoded.leads_to(function.end..end) && !function.restorer {
            self.decoded.borrow_mut().remove(&function.start);
            self.functions[before].end = end;
        }
    }

    /// The function with the address in it.
    pub(crate) fn around(&self, address: usize) -> Option<Function> {
        let after = self.functions.partition_point(|one| one.start <= address);
        let function = *self.functions.get(after.checked_sub(1)?)?;
        (address < function.end).then_some(function)
    }

    pub(crate) fn decoded(&self, function: Function) -> Rc<Decoded<'a>> {
        let range = function.start..function.end;
        let new = || {
            let bytes = self.image.bytes(&range).unwrap_or_default();
            Rc::new(decode(range.start, bytes))
        };
        let mut decoded = self.decoded.borrow_mut();
        Rc::clone(decoded.entry(function.start).or_insert_with(new))
    }

    /// All sites.
    pub(crate) fn sites(&self) -> Sites {
        let mut sites = Sites::default();
        for &address in &self.candidates {
            let Some(function) = self.around(address) else {
                sites.outside += 1;
                continue;
            };
            let decoded = self.decoded(function);
            if !decoded.valid {
                sites.undecoded += 1;
                continue;
            }
            let step = decoded.around(address);
            if step.is_some_and(|step| start(&step) == address && is_syscall(&step)) {
                sites.known.push((function, address));
            }
        }
        sites
    }
}

/// Where bytes look like a site's.
fn candidates(image: &Image) -> Vec<usize> {
    let mut found = Vec::new();
    for range in image.text() {
        let bytes = image.bytes(&range).unwrap_or_default();
        let is = |first, second| (first == SYSCALL.0) & (second == SYSCALL.1);
        scan::pairs(bytes, is, |at| found.push(range.start + at));
    }
    found
}
