//! Functions in assembly.

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
pub(crate) use function;
