//! Hashes of a fixed set of runs: every unit of every target gives the bits of its class.
//!
//! `golden.txt` has a line for each run: its name, the hash of the fused class, the hash of the unfused class. After a
//! wanted change of the arithmetic, `DHYAN_GOLDEN=write cargo test --test golden` writes the columns of the classes
//! that the machine has; a machine with both (x86-64 with FMA) writes the whole file.

#[path = "golden/random.rs"]
mod random;
#[path = "golden/runs.rs"]
mod runs;
#[path = "common/units.rs"]
mod units;

use dhyan::Isa;
use std::collections::HashMap;
use std::fmt::Write;

const FILE: &str = include_str!("golden.txt");

/// Name and the two hashes of each line.
fn lines() -> impl Iterator<Item = (&'static str, [&'static str; 2])> {
    let lines = FILE.lines().filter(|line| !line.starts_with('#'));
    lines.map(|line| {
        let mut words = line.split_whitespace();
        let mut word = || words.next().unwrap_or("");
        (word(), [word(), word()])
    })
}

fn run(isa: Isa) -> Vec<(String, String)> {
    let mut found = Vec::new();
    runs::all(isa, &mut |name, hash| found.push((name.to_string(), format!("{hash:016x}"))))
        .expect("the runs are valid calls");
    found
}

fn check() {
    let golden: HashMap<_, _> = lines().collect();
    for isa in units::units() {
        let class = usize::from(!isa.is_fused());
        let found = run(isa);
        assert_eq!(found.len(), golden.len(), "runs and lines of golden.txt");
        let differ: Vec<&str> = (found.iter())
            .filter(|(name, hash)| golden.get(&name[..]).is_none_or(|hashes| hashes[class] != hash))
            .map(|(name, _)| &name[..])
            .collect();
        assert!(
            differ.is_empty(),
            "{isa:?}: {} of {} runs differ: {differ:#?}",
            differ.len(),
            found.len()
        );
    }
}

/// Each class by its best unit; the column of a class that is not here stays as it is.
fn write() {
    let mut hashes: HashMap<String, [String; 2]> =
        lines().map(|(name, hashes)| (name.into(), hashes.map(String::from))).collect();
    let mut names = Vec::new();
    for class in [0, 1] {
        let Some(isa) = Isa::available().find(|isa| usize::from(!isa.is_fused()) == class) else {
            continue;
        };
        let found = run(isa);
        names = found.iter().map(|(name, _)| name.clone()).collect();
        for (name, hash) in found {
            hashes.entry(name).or_default()[class] = hash;
        }
    }
    let mut file =
        String::from("# name, hash of the fused class, hash of the unfused class: see golden.rs\n");
    for name in names {
        let [fused, unfused] = hashes.remove(&name).unwrap_or_default();
        writeln!(file, "{name} {fused} {unfused}").unwrap();
    }
    std::fs::write(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/golden.txt"), file).unwrap();
}

/// On a thread with room for the arrays of all runs.
#[test]
fn golden() {
    let writes = std::env::var("DHYAN_GOLDEN").is_ok_and(|value| value == "write");
    let thread = std::thread::Builder::new().stack_size(16 << 20);
    let run = thread.spawn(if writes { write } else { check }).expect("a thread");
    if let Err(panic) = run.join() {
        std::panic::resume_unwind(panic);
    }
}

/// FNV-1a of "" and of the four bytes of 1.0, and one NaN for all.
#[test]
fn hash() {
    assert_eq!(runs::hash(&[]), 0xcbf2_9ce4_8422_2325);
    let bytes = [0x00u8, 0x00, 0x80, 0x3f];
    let step = |hash: u64, byte: &u8| (hash ^ u64::from(*byte)).wrapping_mul(1_099_511_628_211);
    assert_eq!(runs::hash(&[1.0]), bytes.iter().fold(14_695_981_039_346_656_037, step));
    assert_eq!(runs::hash(&[f32::NAN]), runs::hash(&[-f32::NAN]));
}
