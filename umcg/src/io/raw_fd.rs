//! The traits for descriptors as numbers, for types that have those for descriptors as values.

/// Implements these of `AsRawFd`, `IntoRawFd` and `FromRawFd`.
macro_rules! raw_fd {
    ($type:ty: $($number:ident),+) => {
        $(crate::io::raw_fd::raw_fd!(@$number $type);)+
    };
    (@AsRawFd $type:ty) => {
        impl std::os::fd::AsRawFd for $type {
            fn as_raw_fd(&self) -> std::os::fd::RawFd {
                std::os::fd::AsFd::as_fd(self).as_raw_fd()
            }
        }
    };
    (@IntoRawFd $type:ty) => {
        impl std::os::fd::IntoRawFd for $type {
            fn into_raw_fd(self) -> std::os::fd::RawFd {
                std::os::fd::OwnedFd::from(self).into_raw_fd()
            }
        }
    };
    (@FromRawFd $type:ty) => {
        impl std::os::fd::FromRawFd for $type {
            unsafe fn from_raw_fd(fd: std::os::fd::RawFd) -> Self {
                // SAFETY: passed on.
                Self::from(unsafe { std::os::fd::OwnedFd::from_raw_fd(fd) })
            }
        }
    };
}

pub(crate) use raw_fd;
