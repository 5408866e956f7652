//! The worked example, with all its assertions, on every vector unit of this machine.

#[path = "../examples/textbook.rs"]
mod textbook;

use dhyan::{Error, Isa};

#[test]
fn the_layer_agrees_with_the_textbook() -> Result<(), Error> {
    for isa in Isa::available() {
        println!("on {isa:?}:");
        Isa::cap(isa);
        textbook::main()?;
    }
    Ok(())
}
