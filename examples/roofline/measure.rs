//! How time is taken. The machine's speed drifts, so a figure is worth only what the machine could do at that moment:
//! all cases take turns, round after round, and each reading of a case stands between two readings of the peak.

use crate::cases::Case;
use crate::machine::Unit;
use dhyan::Error;
use serde::Serialize;
use std::time::Instant;

/// Nanoseconds that a case is given in a round.
const BUDGET: f64 = 2e7;

/// Bytes of the buffers whose reading gives the bandwidth of each cache and of the memory.
const LEVELS: [usize; 5] = [16 << 10, 512 << 10, 4 << 20, 16 << 20, 256 << 20];

/// One case on one unit in one round.
#[derive(Serialize)]
pub struct Reading {
    pub nanoseconds: f64,
    /// What the unit could do.
    pub peak_gflops: f64,
    /// The time of a plain read of as many bytes, where that is the limit.
    pub read_nanoseconds: Option<f64>,
}

/// One case on one unit, a reading per round.
#[derive(Serialize)]
pub struct Row {
    pub case: String,
    pub unit: &'static str,
    pub flops: usize,
    pub bytes: usize,
    pub readings: Vec<Reading>,
}

/// A buffer of one size, and the bandwidth of reading it, per round.
#[derive(Serialize)]
pub struct Level {
    pub bytes: usize,
    pub gbytes_per_second: Vec<f64>,
}

#[derive(Serialize)]
pub struct Report {
    pub cpu: String,
    pub levels: Vec<Level>,
    pub rows: Vec<Row>,
}

/// Nanoseconds of one call: the best of those made in `budget` nanoseconds.
pub fn best_time(budget: f64, mut call: impl FnMut()) -> f64 {
    let nanoseconds = |since: Instant| since.elapsed().as_nanos() as f64;
    let start = Instant::now();
    let (mut calls, mut best) = (1, f64::INFINITY);
    loop {
        let batch = Instant::now();
        (0..calls).for_each(|_| call());
        let time = nanoseconds(batch);
        best = best.min(time / f64::from(calls));
        if nanoseconds(start) > budget {
            return best;
        }
        if time < 2e4 {
            calls *= 2; // Until the clock's own time does not count.
        }
    }
}

/// Measures all cases on all units, `rounds` times.
pub fn measure(rounds: usize, units: &[Unit], cases: &mut [Case]) -> Result<Report, Error> {
    // Of zeros it would be one page, mapped again and again. Loads across two cache lines would be slower.
    let memory = vec![1.0; LEVELS[LEVELS.len() - 1] / 4 + 15];
    let memory = &memory[memory.as_ptr().align_offset(64)..];
    let mut levels = LEVELS.map(|bytes| Level { bytes, gbytes_per_second: Vec::new() });
    let row = |case: &Case, unit: &Unit| Row {
        case: case.name.clone(),
        unit: unit.isa.name(),
        flops: case.flops,
        bytes: case.bytes,
        readings: Vec::new(),
    };
    let mut rows: Vec<Row> =
        cases.iter().flat_map(|case| units.iter().map(|unit| row(case, unit))).collect();
    for round in 1..=rounds {
        eprintln!("round {round} of {rounds}");
        for Level { bytes, gbytes_per_second } in &mut levels {
            let time = units[0].read_time(&memory[..*bytes / 4], BUDGET);
            gbytes_per_second.push(*bytes as f64 / time);
        }
        for (case, rows) in cases.iter_mut().zip(rows.chunks_mut(units.len())) {
            for (unit, row) in units.iter().zip(rows) {
                let before = unit.peak();
                let mut result = Ok(());
                let nanoseconds = best_time(BUDGET, || result = case.run(unit.isa));
                result?;
                let peak_gflops = before.max(unit.peak());
                let read = || unit.read_time(&memory[..case.bytes / 4], BUDGET);
                let read_nanoseconds = case.is_read.then(read);
                row.readings.push(Reading { nanoseconds, peak_gflops, read_nanoseconds });
            }
        }
    }
    // The processor's name, where the system tells it.
    let info = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let name = info.lines().find_map(|line| line.strip_prefix("model name")?.split_once(": "));
    let cpu = name.map_or(std::env::consts::ARCH, |(_, name)| name).into();
    Ok(Report { cpu, levels: levels.into(), rows })
}
