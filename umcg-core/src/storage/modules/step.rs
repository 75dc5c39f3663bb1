//! The steps that reset the storage of a library.

use super::survey::Module;
use umcg_context::local;

/// One step of a reset, for a part of a block.
#[derive(Debug)]
pub(super) enum ResetStep {
    Copy {
        to: isize,
        from: *const u8,
        bytes: usize,
    },
    Zero {
        at: isize,
        bytes: usize,
    },
}

/// The steps that reset the storage of a library: its image, then zeros, without our own words.
pub(super) fn steps(module: &Module, tp: usize) -> impl Iterator<Item = ResetStep> + use<> {
    let start = module.data.addr().wrapping_sub(tp) as isize;
    let (middle, end) = (
        start + module.image_bytes as isize,
        start + module.bytes as isize,
    );
    let (words, words_end) = (local::offset(), local::offset() + local::BYTES as isize);
    let image = module.image;
    let around = move |from: isize, to: isize| [(from, to.min(words)), (from.max(words_end), to)];
    let parts = move |from: isize, to: isize| {
        let overlaps = words < to && from < words_end;
        around(from, to)
            .into_iter()
            .skip(usize::from(!overlaps))
            .map(move |part| if overlaps { part } else { (from, to) })
    };
    let copies = parts(start, middle)
        .filter(|(from, to)| from < to)
        .map(move |(from, to)| ResetStep::Copy {
            to: from,
            from: image.wrapping_offset(from - start),
            bytes: (to - from) as usize,
        });
    let zeros = parts(middle, end).filter(|(from, to)| from < to);
    copies.chain(zeros.map(|(from, to)| ResetStep::Zero {
        at: from,
        bytes: (to - from) as usize,
    }))
}

impl ResetStep {
    /// # Safety
    /// The step stays within the storage that `tp` names, and the image is there.
    #[inline(always)]
    pub(super) unsafe fn perform(&self, tp: usize) {
        let place =
            |at: isize| std::ptr::with_exposed_provenance_mut::<u8>(tp.wrapping_add_signed(at));
        match *self {
            // SAFETY: passed on; an image and a storage do not overlap.
            ResetStep::Copy { to, from, bytes } => unsafe {
                place(to).copy_from_nonoverlapping(from, bytes)
            },
            // SAFETY: passed on.
            ResetStep::Zero { at, bytes } => unsafe { place(at).write_bytes(0, bytes) },
        }
    }
}
