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

        /// The units that were built, the best first.
        const NAMES: &[&str] = &[$($(#[$when])* $name,)*];

        impl Unit {
            fn named(name: &str) -> Option<Self> {
                match name {
                    $($(#[$when])* $name => $find.map(Self::$unit),)*
                    _ => None,
                }
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

/// The place in `NAMES` of the best unit that may be used, or `UNKNOWN`.
static CHOSEN: AtomicU8 = AtomicU8::new(UNKNOWN);
const UNKNOWN: u8 = u8::MAX;

impl Isa {
    /// The best unit of this processor (and operating system: its saving of the registers is checked), no better than
    /// the [cap](Isa::cap). Found once, kept in a byte.
    pub fn detect() -> Self {
        let chosen = CHOSEN.load(Relaxed);
        if let Some(isa) = NAMES.get(chosen as usize).and_then(|name| Self::named(name)) {
            return isa;
        }
        let best = Self::available().next().unwrap_or(Self(Unit::Scalar(Scalar)));
        best.choose();
        best
    }

    /// The units of this processor, the best first; "scalar" is always the last.
    pub fn available() -> impl Iterator<Item = Self> {
        NAMES.iter().filter_map(|name| Self::named(name))
    }

    /// The unit of that name, if this processor has it: "avx512", "avx2", "neon", "portable", "scalar".
    pub fn named(name: &str) -> Option<Self> {
        Unit::named(name).map(Self)
    }

    /// From now on, [`Isa::detect`] gives `best` in this process, or what is left below it.
    pub fn cap(best: Self) {
        best.choose();
    }

    fn choose(self) {
        let place = NAMES.iter().position(|name| *name == self.name());
        CHOSEN.store(place.map_or(UNKNOWN, |place| place as u8), Relaxed);
    }
}

impl PartialEq for Isa {
    fn eq(&self, other: &Self) -> bool {
        self.name() == other.name()
    }
}

impl Eq for Isa {}

impl fmt::Debug for Isa {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}
