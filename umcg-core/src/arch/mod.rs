//! The parts that each architecture writes anew: one file per architecture, the same items in each.
//! (The switch itself is in umcg-context.)

/// Defines a function of the library's own: its name, and its instructions and directives line by
/// line. It can be unwound as far as these directives say.
macro_rules! function {
    ($name:literal: $($line:expr),+ $(,)?) => {
        std::arch::global_asm!(
            concat!(".pushsection .text.", $name, ",\"ax\",@progbits"),
            concat!(".hidden ", $name),
            concat!(".globl ", $name),
            concat!(".type ", $name, ",@function"),
            concat!($name, ":"),
            ".cfi_startproc",
            $($line,)+
            ".cfi_endproc",
            concat!(".size ", $name, ", . - ", $name),
            ".popsection",
        );
    };
}

/// Defines a function of this name whose first instruction is an access, and the values that it
/// returns if the access succeeds and if it faults.
macro_rules! access {
    ($name:literal: $access:literal, $right:literal, $failed:literal) => {
        function!($name:
            $access,
            $right,
            "ret",
            concat!(".hidden ", $name, "_failed"),
            concat!(".globl ", $name, "_failed"),
            concat!($name, "_failed:"),
            $failed,
            "ret",
        );
    };
}

cfg_if::cfg_if! {
    if #[cfg(target_arch = "x86_64")] {
        mod x86_64;
        pub(crate) use x86_64::*;
    } else if #[cfg(target_arch = "aarch64")] {
        mod aarch64;
        pub(crate) mod frame_copy;
        pub(crate) use aarch64::*;
    } else if #[cfg(target_arch = "riscv64")] {
        pub(crate) mod frame_copy;
        mod riscv64;
        pub(crate) use riscv64::*;
    }
}
