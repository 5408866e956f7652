//! The roofline as SVG: speed over operations per byte, both by powers of two.

use crate::measure::{Report, Row};
use std::f64::consts::TAU;

const WIDTH: f64 = 1200.0;
const HEIGHT: f64 = 760.0;
const LEFT: f64 = 60.0;
const RIGHT: f64 = WIDTH - 25.0;
const TOP: f64 = 60.0;
const BOTTOM: f64 = HEIGHT - 55.0;

/// One per unit, the best first.
const COLOURS: [&str; 4] = ["#1b5faa", "#c2571a", "#2e8b57", "#8a5ab0"];

/// Logarithms to pixels.
struct Axis {
    first: f64,
    last: f64,
    pixels: (f64, f64),
}

impl Axis {
    /// Powers of two around all of `values`.
    fn over(values: impl Iterator<Item = f64>, pixels: (f64, f64)) -> Self {
        let range = (f64::INFINITY, f64::NEG_INFINITY);
        let (first, last) =
            values.map(f64::log2).fold(range, |(a, b), v| (v.floor().min(a), v.ceil().max(b)));
        Self { first, last, pixels }
    }

    fn at(&self, value: f64) -> f64 {
        let (from, to) = self.pixels;
        from + (to - from) * (value.log2() - self.first) / (self.last - self.first)
    }

    fn ticks(&self) -> impl Iterator<Item = f64> {
        (self.first as i32..=self.last as i32).map(f64::from).map(f64::exp2)
    }
}

fn line((x1, y1): (f64, f64), (x2, y2): (f64, f64), style: &str) -> String {
    format!("<line x1='{x1:.1}' y1='{y1:.1}' x2='{x2:.1}' y2='{y2:.1}' {style}/>\n")
}

fn text((x, y): (f64, f64), style: &str, text: &str) -> String {
    format!("<text x='{x:.1}' y='{y:.1}' {style}>{text}</text>\n")
}

/// Left, top, right, bottom.
type Area = [f64; 4];

/// The free place for a text of that width nearest to a point.
fn place((x, y): (f64, f64), width: f64, taken: &[Area]) -> Area {
    let circle = |radius: u32| (0..24).map(move |i| (f64::from(radius), f64::from(i) * TAU / 24.0));
    let mut areas = (10..300).step_by(6).flat_map(circle).map(|(radius, angle)| {
        // The text begins or ends on the circle, above and below has its middle there.
        let left = x + radius * angle.cos() - width * (1.0 - angle.cos()) / 2.0;
        let top = y + radius * angle.sin() - 7.0;
        [left, top, left + width, top + 14.0]
    });
    let apart = |a: &Area, b: &Area| a[2] < b[0] || b[2] < a[0] || a[3] < b[1] || b[3] < a[1];
    let inside = |a: &Area| a[0] > LEFT && a[1] > TOP && a[2] < RIGHT && a[3] < BOTTOM;
    let found = areas.find(|area| inside(area) && taken.iter().all(|other| apart(area, other)));
    found.unwrap_or([x, y, x + width, y + 14.0])
}

pub fn svg(report: &Report) -> String {
    let peaks = report.peaks();
    let peak = peaks.iter().map(|p| p.1).fold(0.0, f64::max);
    // Room on the left for the names of the slanted roofs, above for those of the flat ones.
    let intensities =
        report.rows.iter().flat_map(|row| [row.intensity() / 3.0, row.intensity() * 1.4]);
    let x = Axis::over(intensities, (LEFT, RIGHT));
    let y = Axis::over(report.rows.iter().map(Row::speed).chain([peak * 1.2]), (BOTTOM, TOP));

    let mut svg = format!(
        "<svg xmlns='http://www.w3.org/2000/svg' width='{WIDTH}' height='{HEIGHT}' font-family='sans-serif' \
         font-size='12'>\n<rect width='100%' height='100%' fill='white'/>\n"
    );
    svg += &text((LEFT, 26.0), "font-size='16'", &format!("{}, one core", report.cpu));
    svg += &text((LEFT, TOP - 12.0), "text-anchor='end'", "GFLOP/s");
    svg +=
        &text(((LEFT + RIGHT) / 2.0, HEIGHT - 12.0), "text-anchor='middle'", "operations per byte");
    for value in x.ticks() {
        let name = if value < 1.0 { format!("1/{}", 1.0 / value) } else { value.to_string() };
        svg += &line((x.at(value), TOP), (x.at(value), BOTTOM), "stroke='#e4e4e4'");
        svg += &text((x.at(value), BOTTOM + 18.0), "text-anchor='middle'", &name);
    }
    for value in y.ticks() {
        svg += &line((LEFT, y.at(value)), (RIGHT, y.at(value)), "stroke='#e4e4e4'");
        svg += &text((LEFT - 8.0, y.at(value) + 4.0), "text-anchor='end'", &value.to_string());
    }

    // Slanted roofs, from where they enter the frame up to the highest peak.
    for (i, level) in report.levels.iter().enumerate() {
        let bandwidth = level.bandwidth();
        let start = x.first.exp2().max(y.first.exp2() / bandwidth);
        let from = (x.at(start), y.at(start * bandwidth));
        let to = (x.at(peak / bandwidth), y.at(peak));
        let angle = (to.1 - from.1).atan2(to.0 - from.0).to_degrees();
        let style =
            format!("fill='#666' transform='rotate({angle:.1} {:.1} {:.1})'", from.0, from.1);
        // Every other name stands further along, for levels that are close together.
        let along = from.0 + if i % 2 == 0 { 6.0 } else { 110.0 };
        svg += &line(from, to, "stroke='#888' stroke-dasharray='6 3'");
        svg +=
            &text((along, from.1 - 3.0), &style, &format!("{}: {bandwidth:.0} GB/s", level.name()));
    }
    let mut taken = Vec::new();
    for (i, ((unit, peak), colour)) in peaks.iter().zip(COLOURS).enumerate() {
        let style = format!("text-anchor='end' fill='{colour}'");
        let (end, level) = (RIGHT - 180.0 * i as f64, y.at(*peak));
        taken.push([end - 170.0, level - 17.0, end, level]);
        svg += &line(
            (LEFT, y.at(*peak)),
            (RIGHT, y.at(*peak)),
            &format!("stroke='{colour}' stroke-width='1.5'"),
        );
        svg += &text((end, level - 5.0), &style, &format!("{unit} peak: {peak:.0} GFLOP/s"));
    }

    // A point for each row; those of the best unit have names.
    let at = |row: &Row| (x.at(row.intensity()), y.at(row.speed()));
    for row in &report.rows {
        let unit = peaks.iter().position(|peak| peak.0 == row.unit).unwrap_or(0);
        let (radius, colour) = (if unit == 0 { 4.0 } else { 2.5 }, COLOURS[unit % COLOURS.len()]);
        let (x, y) = at(row);
        svg += &format!("<circle cx='{x:.1}' cy='{y:.1}' r='{radius}' fill='{colour}'/>\n");
        taken.push([x - radius, y - radius, x + radius, y + radius]);
    }
    for row in report.rows.iter().filter(|row| row.unit == peaks[0].0) {
        let (x, y) = at(row);
        let area = place((x, y), 7.2 * row.case.len() as f64, &taken);
        let end = (x.clamp(area[0], area[2]), y.clamp(area[1], area[3]));
        let middle = ((area[0] + area[2]) / 2.0, area[3] - 3.0);
        svg += &line((x, y), end, &format!("stroke='{}' stroke-width='0.7'", COLOURS[0]));
        svg += &text(middle, "text-anchor='middle'", &row.case);
        taken.push(area);
    }
    svg + "</svg>\n"
}
