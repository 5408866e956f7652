//! What the readings say: extremes and medians over the rounds, in a table.

use crate::measure::{Level, Reading, Report, Row};

/// Over the rounds.
pub struct Spread {
    pub min: f64,
    pub median: f64,
    pub max: f64,
}

impl Spread {
    fn of(values: impl Iterator<Item = f64>) -> Self {
        let mut sorted: Vec<f64> = values.collect();
        sorted.sort_by(f64::total_cmp);
        let last = sorted.len() - 1;
        let median = (sorted[last / 2] + sorted[last.div_ceil(2)]) / 2.0;
        Self { min: sorted[0], median, max: sorted[last] }
    }
}

impl Level {
    /// GB/s.
    pub fn bandwidth(&self) -> f64 {
        Spread::of(self.gbytes_per_second.iter().copied()).median
    }

    pub fn name(&self) -> String {
        let kilobytes = self.bytes >> 10;
        if kilobytes < 1024 { format!("{kilobytes} KB") } else { format!("{} MB", kilobytes >> 10) }
    }
}

impl Row {
    pub fn spread(&self, of: impl Fn(&Reading) -> f64) -> Spread {
        Spread::of(self.readings.iter().map(of))
    }

    /// GFLOP/s, the median.
    pub fn speed(&self) -> f64 {
        self.flops as f64 / self.spread(|r| r.nanoseconds).median
    }

    /// Operations per byte.
    pub fn intensity(&self) -> f64 {
        self.flops as f64 / self.bytes as f64
    }
}

impl Report {
    /// The units, and the GFLOP/s that each could do.
    pub fn peaks(&self) -> Vec<(&'static str, f64)> {
        let first_case = self.rows.iter().take_while(|row| row.case == self.rows[0].case);
        let rows = |unit| self.rows.iter().filter(move |row| row.unit == unit);
        let peak =
            |unit| Spread::of(rows(unit).flat_map(|row| &row.readings).map(|r| r.peak_gflops));
        first_case.map(|row| (row.unit, peak(row.unit).median)).collect()
    }

    pub fn table(&self) -> String {
        let mut out = format!("{}, one core\n", self.cpu);
        for (unit, speed) in self.peaks() {
            out += &format!("peak {unit:<8} {speed:7.1} GFLOP/s\n");
        }
        for level in &self.levels {
            out += &format!("read {:<8} {:7.1} GB/s\n", level.name(), level.bandwidth());
        }
        let (peak, read) = ("% of peak", "% of a plain read");
        out += &format!("\n{:44}{:^22}{:9}{peak:^16}{:8}{read:^16}\n", "", "time", "", "");
        out += &format!("{:35}{:9}{:>11}{:>11}{:>9}", "case", "unit", "min", "median", "GFLOP/s");
        out += &format!("{:>8}{:>8}{:>8}{:>8}{:>8}\n", "median", "best", "GB/s", "median", "best");
        for row in &self.rows {
            let time = row.spread(|r| r.nanoseconds);
            out += &format!(
                "{:35}{:9}{:>11}{:>11}",
                row.case,
                row.unit,
                show(time.min),
                show(time.median)
            );
            let of_peak = row.spread(|r| 100.0 * row.flops as f64 / r.nanoseconds / r.peak_gflops);
            out += &format!("{:9.1}{:8.1}{:8.1}", row.speed(), of_peak.median, of_peak.max);
            if row.readings[0].read_nanoseconds.is_some() {
                let of_read =
                    row.spread(|r| 100.0 * r.read_nanoseconds.unwrap_or(f64::NAN) / r.nanoseconds);
                let speed = row.bytes as f64 / time.median;
                out += &format!("{speed:8.1}{:8.1}{:8.1}", of_read.median, of_read.max);
            }
            out += "\n";
        }
        out
    }
}

/// Nanoseconds, in a unit that suits them.
fn show(nanoseconds: f64) -> String {
    match nanoseconds {
        t if t < 1e3 => format!("{t:.1} ns"),
        t if t < 1e6 => format!("{:.2} µs", t / 1e3),
        t => format!("{:.2} ms", t / 1e6),
    }
}
