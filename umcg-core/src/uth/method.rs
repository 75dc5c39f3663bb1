//! The methods of switching, by their names.

use super::UthError;

/// How a virtual processor switches between uths.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Method {
    /// The architecture's own switch, in assembly. Nanoseconds.
    Asm,
    /// `_setjmp` and `_longjmp` (the paper's SJLJ). Feature `portable`.
    Sjlj,
    /// `makecontext` and `swapcontext` (the paper's MCSC): also saves the signal mask, by a system
    /// call. Feature `portable`.
    Mcsc,
}

impl Method {
    pub(crate) fn from_u8(method: u8) -> Method {
        match method {
            1 => Method::Sjlj,
            2 => Method::Mcsc,
            _ => Method::Asm,
        }
    }

    pub(crate) fn check(self) -> Result<(), UthError> {
        if self == Method::Asm || cfg!(feature = "portable") {
            Ok(())
        } else {
            Err(UthError::MethodMissing)
        }
    }
}
