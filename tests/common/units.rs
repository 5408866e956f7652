//! Which units a test runs on.

use dhyan::Isa;
use std::io::Write;
use std::sync::Once;

/// The units of this processor. Says once which they are, past the capture of test output, and panics where one that
/// `DHYAN_REQUIRE_ISA` (names with commas between) asks for is missing: a test that runs nothing must not pass.
pub fn units() -> impl Iterator<Item = Isa> {
    static SAY: Once = Once::new();
    SAY.call_once(|| {
        let names: Vec<_> = Isa::available().map(Isa::name).collect();
        let _ = writeln!(std::io::stderr(), "units: {}", names.join(", "));
    });
    let required = std::env::var("DHYAN_REQUIRE_ISA").unwrap_or_default();
    for name in required.split(',').map(str::trim).filter(|name| !name.is_empty()) {
        assert!(Isa::named(name).is_some(), "DHYAN_REQUIRE_ISA: no {name} here");
    }
    Isa::available()
}
