//! Which vector unit runs a call.

#[cfg(all(target_arch = "aarch64", target_feature = "neon"))]
use crate::simd::Neon;
#[cfg(portable)]
use crate::simd::Portable;
#[cfg(all(target_arch = "x86_64", target_feature = "sse2"))]
use crate::simd::{Avx2, Avx512};
use crate::simd::{Kernel, Scalar, Simd};
use core::fmt;
use core::sync::atomic::{AtomicU8, Ordering::Relaxed};

/// A vector unit that this processor has; to hold the value is the proof.
///
/// Every unit gives the same bits within its class ([`Isa::is_fused`]).
///
/// ```
/// use dhyan::Isa;
/// let best = Isa::detect();
/// assert!(Isa::available().any(|isa| isa == best));
/// assert_eq!(Isa::named("scalar").unwrap().name(), "scalar");
/// ```
#[derive(Clone, Copy)]
pub struct Isa(Unit);

/// One line per unit, the best first: its name, its condition, how it is found.
macro_rules! units {
    ($($(#[$when:meta])* $unit:ident, $name:literal, $find:expr;)*) => {
        #[derive(Clone, Copy)]
        enum Unit {
            $($(#[$when])* $unit($unit),)*
        }

        impl Unit {
            /// The unit at a place of the list, if this processor has it.
            #[allow(unused_assignments, irrefutable_let_patterns)] // with one unit
            fn at(place: u8) -> Option<Self> {
                let mut this = 0;
                $($(#[$when])* {
                    if place == this {
                        return $find.map(Self::$unit);
                    }
                    this += 1;
                })*
                None
            }

            /// Its place in the list.
            #[allow(unused_assignments, irrefutable_let_patterns)] // with one unit
            const fn place(self) -> u8 {
                let mut this = 0;
                $($(#[$when])* {
                    if let Self::$unit(_) = self {
                        return this;
                    }
                    this += 1;
                })*
                this
            }
        }

        impl Isa {
            /// The unit's name, in lower case.
            pub const fn name(self) -> &'static str {
                match self.0 {
                    $($(#[$when])* Unit::$unit(_) => $name,)*
                }
            }

            /// Whether a multiply-add of this unit rounds once. All fused units give the same bits, and all unfused
            /// ones do; between the two classes only the error bounds hold.
            pub const fn is_fused(self) -> bool {
                match self.0 {
                    $($(#[$when])* Unit::$unit(_) => $unit::FUSED,)*
                }
            }

            /// Runs a kernel compiled for this unit.
            pub(crate) fn run<K: Kernel>(self, kernel: K) -> K::Output {
                match self.0 {
                    $($(#[$when])* Unit::$unit(simd) => simd.run(kernel),)*
                }
            }
        }
    };
}

units! {
    #[cfg(all(target_arch = "x86_64", target_feature = "sse2"))]
    Avx512, "avx512", Avx512::new();
    #[cfg(all(target_arch = "x86_64", target_feature = "sse2"))]
    Avx2, "avx2", Avx2::new();
    #[cfg(all(target_arch = "aarch64", target_feature = "neon"))]
    Neon, "neon", Neon::new();
    #[cfg(portable)]
    Portable, "portable", Some(Portable);
    Scalar, "scalar", Some(Scalar);
}

/// The place of the best unit that may be used, or `UNKNOWN`.
static CHOSEN: AtomicU8 = AtomicU8::new(UNKNOWN);
const UNKNOWN: u8 = u8::MAX;

impl Isa {
    /// The best unit of this processor (and operating system: its saving of the registers is checked), no better than
    /// the [cap](Isa::cap). Found once, kept in a byte.
    pub fn detect() -> Self {
        if let Some(isa) = Self::at(CHOSEN.load(Relaxed)) {
            return isa;
        }
        let best = Self::available().next().unwrap_or(Self(Unit::Scalar(Scalar)));
        Self::cap(best);
        best
    }

    /// The units of this processor, the best first; "scalar" is always the last.
    pub fn available() -> impl Iterator<Item = Self> {
        (0..=Unit::Scalar(Scalar).place()).filter_map(Self::at)
    }

    /// The unit of that name, if this processor has it: "avx512", "avx2", "neon", "portable", "scalar".
    pub fn named(name: &str) -> Option<Self> {
        Self::available().find(|isa| isa.name() == name)
    }

    /// From now on, [`Isa::detect`] gives `best` in this process.
    pub fn cap(best: Self) {
        CHOSEN.store(best.place(), Relaxed);
    }

    /// The unit at a place of the list, if this processor has it.
    pub(crate) fn at(place: u8) -> Option<Self> {
        Unit::at(place).map(Self)
    }

    /// Its place in the list, the best first.
    pub(crate) const fn place(self) -> u8 {
        self.0.place()
    }
}

impl PartialEq for Isa {
    fn eq(&self, other: &Self) -> bool {
        self.place() == other.place()
    }
}

impl Eq for Isa {}

impl fmt::Debug for Isa {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}
