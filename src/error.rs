//! The one error type: what was wrong, and by how much.

use core::fmt;

/// Why a call was refused. Nothing was written: outputs and caches are as they were.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Error {
    /// A slice or a row count is not what the other arguments ask for.
    Length {
        /// The argument.
        what: &'static str,
        /// What it must be.
        expected: usize,
        /// What it is.
        found: usize,
    },
    /// More than there is room for.
    Capacity {
        /// What is too small.
        what: &'static str,
        /// How much it holds.
        capacity: usize,
        /// How much was asked of it.
        needed: usize,
    },
    /// The address of a byte slice is not a multiple of what its contents ask for.
    Alignment {
        /// The argument.
        what: &'static str,
        /// The alignment that it must have, in bytes.
        expected: usize,
        /// How many bytes the address is beyond a multiple of it.
        off_by: usize,
    },
    /// A number that no result is defined for.
    Value {
        /// The argument.
        what: &'static str,
        /// What it must be.
        must: &'static str,
    },
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Error::Length { what, expected, found } => {
                write!(f, "{what}: expected {expected}, found {found}")
            }
            Error::Capacity { what, capacity, needed } => {
                write!(f, "{what}: room for {capacity}, needed {needed}")
            }
            Error::Alignment { what, expected, off_by } => {
                write!(f, "{what}: must be aligned to {expected} bytes, is {off_by} beyond")
            }
            Error::Value { what, must } => write!(f, "{what}: must be {must}"),
        }
    }
}

impl core::error::Error for Error {}

/// `Ok` when `found` is `expected`.
pub(crate) fn check_length(what: &'static str, expected: usize, found: usize) -> Result<(), Error> {
    if found == expected { Ok(()) } else { Err(Error::Length { what, expected, found }) }
}

/// `Ok` when `needed` fits `capacity`.
pub(crate) fn check_capacity(
    what: &'static str,
    capacity: usize,
    needed: usize,
) -> Result<(), Error> {
    if needed <= capacity { Ok(()) } else { Err(Error::Capacity { what, capacity, needed }) }
}
