//! Reads handwritten digits with a trained transformer, and shows where its heads look.
//!
//!     cargo run --release --example digits -- [IMAGE] [--svg FILE] [--unit NAME]

mod model;
mod picture;

use dhyan::{Aligned, Isa, from_bytes};
use model::{HASH_START, HEADS, LAYERS, Model, Scratch, TOKENS, digit, hash};
use std::time::Instant;

static WEIGHTS: &Aligned<[u8]> = &Aligned(*include_bytes!("weights.bin"));
static IMAGES: &[u8] = include_bytes!("images.bin");
static LABELS: &[u8] = include_bytes!("labels.bin");

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let (mut image, mut svg, mut unit) = (0, None, Isa::detect());
    let mut arguments = std::env::args().skip(1);
    while let Some(argument) = arguments.next() {
        let mut value = || arguments.next().ok_or(format!("{argument} wants a value"));
        match argument.as_str() {
            "--svg" => svg = Some(value()?),
            "--unit" => {
                let name = value()?;
                unit = Isa::named(&name).ok_or(format!("this machine has no unit {name}"))?;
            }
            _ => image = argument.parse().map_err(|_| format!("what is {argument}?"))?,
        }
    }

    let model: &Model = from_bytes(WEIGHTS)?;
    let images: &[[u8; 64]] = IMAGES.as_chunks().0;
    let shown = images.get(image).ok_or(format!("there are images 0 to {}", images.len() - 1))?;
    let mut scratch = Scratch::new();
    scratch.set_isa(unit);

    let (mut right, mut bits) = (0, HASH_START);
    let start = Instant::now();
    for (pixels, &label) in images.iter().zip(LABELS) {
        let logits = model.read(pixels, &mut scratch)?;
        right += usize::from(digit(&logits) == label as usize);
        bits = hash(bits, &logits);
    }
    let time = start.elapsed() / images.len() as u32;
    println!(
        "{right} of {} held-out images read right ({:.1} %), {:.1} µs an image on {unit:?} ({}), \
         {} parameters",
        images.len(),
        100.0 * right as f64 / images.len() as f64,
        time.as_secs_f64() * 1e6,
        if unit.is_fused() { "fused" } else { "unfused" },
        size_of::<Model>() / 4,
    );
    println!("hash of all output bits: {bits:016x}\n");

    let read = digit(&model.read(shown, &mut scratch)?);
    let mut weights = [[0.0; HEADS * TOKENS * TOKENS]; LAYERS];
    for (layer, weights) in weights.iter_mut().enumerate() {
        model.attention_weights(shown, layer, &mut scratch, weights)?;
    }
    println!("image {image}: a {}, read as {read}", LABELS[image]);
    print!("{}", picture::text(shown, &weights));
    if let Some(file) = svg {
        std::fs::write(&file, picture::svg(shown, LABELS[image], read, &weights))?;
        println!("written: {file}");
    }
    Ok(())
}
