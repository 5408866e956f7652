//! How near this core's roof the kernels come.
//!
//! `cargo run --release --example roofline -- [--rounds N] [--filter TEXT] [--units a,b] [--json FILE] [--svg FILE]`
//!
//! Measures the peak of multiply-adds of each vector unit and the bandwidth of plain reads, and each case as a
//! percentage of them (Williams, Waterman and Patterson 2009, "Roofline").

mod cases;
mod chart;
#[path = "../../benches/kernels/inputs.rs"]
mod inputs;
mod machine;
mod measure;
mod report;
#[path = "../../benches/kernels/textbook.rs"]
mod textbook;

use dhyan::Isa;
use std::error::Error;

struct Options {
    rounds: usize,
    filter: String,
    units: Vec<Isa>,
    json: Option<String>,
    svg: Option<String>,
}

fn options() -> Result<Options, String> {
    let units = Isa::available().collect();
    let mut options = Options { rounds: 5, filter: String::new(), units, json: None, svg: None };
    let mut arguments = std::env::args().skip(1);
    while let Some(name) = arguments.next() {
        let value = arguments.next().ok_or(format!("{name} needs a value"))?;
        match name.as_str() {
            "--rounds" => {
                options.rounds = value.parse().map_err(|e| format!("--rounds {value}: {e}"))?
            }
            "--filter" => options.filter = value,
            "--units" => {
                let unit =
                    |name| Isa::named(name).ok_or(format!("this processor has no unit {name:?}"));
                options.units = value.split(',').map(unit).collect::<Result<_, _>>()?;
            }
            "--json" => options.json = Some(value),
            "--svg" => options.svg = Some(value),
            _ => return Err(format!("no such option: {name}")),
        }
    }
    Ok(options)
}

fn main() -> Result<(), Box<dyn Error>> {
    let options = options()?;
    let mut cases = cases::all()?;
    cases.retain(|case| case.name.contains(&options.filter));
    if cases.is_empty() || options.rounds == 0 {
        return Err("nothing to measure".into());
    }
    for case in &mut cases {
        case.check(&options.units)?;
    }
    let units: Vec<_> = options.units.into_iter().map(machine::unit).collect();
    let report = measure::measure(options.rounds, &units, &mut cases)?;
    print!("{}", report.table());
    if let Some(file) = options.json {
        std::fs::write(file, serde_json::to_string_pretty(&report)?)?;
    }
    if let Some(file) = options.svg {
        std::fs::write(file, chart::svg(&report))?;
    }
    Ok(())
}
