//! Each kernel on each vector unit beside the textbook's version: `cargo bench`, or `cargo bench -- softmax`.
//!
//! The shapes are tables at the top of each file. How near the roof a shape comes tells `--example roofline`.

mod attention;
mod decode;
mod inputs;
mod layer;
mod product;
mod softmax;
mod textbook;

use criterion::measurement::WallTime;
use criterion::{BenchmarkGroup, BenchmarkId, Criterion, SamplingMode, Throughput};
use dhyan::{Error, Isa};
use std::time::Duration;

type Group<'a> = BenchmarkGroup<'a, WallTime>;
type Bench = fn(&mut Group<'_>);

/// Times `run` on each unit of this processor, and the textbook's version; "elem/s" are operations a second.
fn compare(
    group: &mut Group<'_>,
    shape: &str,
    flops: usize,
    mut run: impl FnMut(Isa) -> Result<(), Error>,
    mut textbook: impl FnMut(),
) {
    group.throughput(Throughput::Elements(flops as u64));
    for isa in Isa::available() {
        run(isa).expect("sizes that fit");
        group.bench_function(BenchmarkId::new(isa.name(), shape), |bencher| {
            bencher.iter(|| run(isa))
        });
    }
    group
        .bench_function(BenchmarkId::new("textbook", shape), |bencher| bencher.iter(&mut textbook));
}

fn main() {
    let mut criterion = Criterion::default()
        .warm_up_time(Duration::from_millis(100))
        .measurement_time(Duration::from_millis(400))
        .sample_size(10)
        .configure_from_args();
    let groups: [(&str, Bench); 5] = [
        ("product", product::bench),
        ("softmax", softmax::bench),
        ("attention", attention::bench),
        ("layer", layer::bench),
        ("decode", decode::bench),
    ];
    for (name, bench) in groups {
        let mut group = criterion.benchmark_group(name);
        group.sampling_mode(SamplingMode::Flat);
        bench(&mut group);
    }
    criterion.final_summary();
}
