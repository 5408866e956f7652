//! An image and, for each head, how much the class token takes from each patch: as text, and as SVG.

use crate::model::{HEADS, LAYERS, TOKENS};
use std::fmt::Write;

/// `[HEADS][TOKENS][TOKENS]` of each layer.
type AllWeights = [[f32; HEADS * TOKENS * TOKENS]; LAYERS];

/// The class token's weights on the 16 patches, the largest made 1.
fn looks(weights: &AllWeights, layer: usize, head: usize) -> [f32; TOKENS - 1] {
    let row = &weights[layer][head * TOKENS * TOKENS..][..TOKENS];
    let most = row[1..].iter().fold(f32::MIN_POSITIVE, |a, &b| a.max(b));
    std::array::from_fn(|patch| row[1 + patch] / most)
}

/// Two characters of ink.
fn shade(ink: f32) -> &'static str {
    ["  ", "░░", "▒▒", "▓▓", "██"][(ink * 4.0).round() as usize]
}

pub fn text(image: &[u8; 64], weights: &AllWeights) -> String {
    let mut out = String::new();
    for row in image.chunks(8) {
        let line: String = row.iter().map(|&pixel| shade(pixel as f32 / 16.0)).collect();
        let _ = writeln!(out, "  {line}");
    }
    let _ = writeln!(out, "\nwhere the class token looks (patches of 2 × 2 pixels):");
    for layer in 0..LAYERS {
        let names: String = (1..=HEADS).map(|h| format!("  head {h}          ")).collect();
        let _ = writeln!(out, "\n  layer {} {}", layer + 1, names.trim_end());
        for row in 0..4 {
            let mut line = String::new();
            for head in 0..HEADS {
                let looks = looks(weights, layer, head);
                let cells: String =
                    looks[4 * row..][..4].iter().map(|&w| shade(w).repeat(2)).collect();
                let _ = write!(line, "  {cells}");
            }
            let _ = writeln!(out, "          {line}");
        }
    }
    out
}

pub fn svg(image: &[u8; 64], label: u8, read: usize, weights: &AllWeights) -> String {
    const SIDE: usize = 96;
    const STEP: usize = SIDE + 24;
    let (width, height) = (STEP * (HEADS + 1) + 24, STEP * LAYERS + 24);
    let mut out = format!(
        "<svg xmlns='http://www.w3.org/2000/svg' width='{width}' height='{height}' \
         font-family='sans-serif' font-size='12'>\n<rect width='100%' height='100%' fill='white'/>\n"
    );
    // The digit's pixels at (x, y), with a sheet of color over each patch.
    let mut draw = |x: usize, y: usize, title: &str, looks: Option<[f32; 16]>| {
        let _ = writeln!(out, "<text x='{x}' y='{}'>{title}</text>", y - 4);
        for (i, &pixel) in image.iter().enumerate() {
            let ink = 255 - u32::from(pixel) * 255 / 16;
            let (px, py, size) = (x + i % 8 * SIDE / 8, y + i / 8 * SIDE / 8, SIDE / 8);
            let _ = writeln!(
                out,
                "<rect x='{px}' y='{py}' width='{size}' height='{size}' fill='rgb({ink},{ink},{ink})'/>"
            );
        }
        for (i, look) in looks.into_iter().flatten().enumerate() {
            let (px, py, size) = (x + i % 4 * SIDE / 4, y + i / 4 * SIDE / 4, SIDE / 4);
            let _ = writeln!(
                out,
                "<rect x='{px}' y='{py}' width='{size}' height='{size}' fill='crimson' \
                 fill-opacity='{:.2}'/>",
                0.8 * look
            );
        }
        let _ = writeln!(
            out,
            "<rect x='{x}' y='{y}' width='{SIDE}' height='{SIDE}' fill='none' stroke='gray'/>"
        );
    };
    draw(24, 24, &format!("a {label}, read as {read}"), None);
    for layer in 0..LAYERS {
        for head in 0..HEADS {
            let title = format!("layer {} head {}", layer + 1, head + 1);
            let looks = Some(looks(weights, layer, head));
            draw(24 + STEP * (head + 1), 24 + STEP * layer, &title, looks);
        }
    }
    out.push_str("</svg>\n");
    out
}
