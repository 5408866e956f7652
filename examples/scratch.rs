use dhyan::{Isa, kernels::*};
use std::time::Instant;
use std::hint::black_box;
fn time(mut f: impl FnMut()) -> f64 {
    let mut best = f64::MAX; let mut n=1;
    loop { let t=Instant::now(); for _ in 0..n {f()} let d=t.elapsed().as_nanos() as f64; if d>1e5 {break} n*=2; }
    let all=Instant::now(); while all.elapsed().as_millis() < 150 { let t=Instant::now(); for _ in 0..n {f()} best=best.min(t.elapsed().as_nanos() as f64/n as f64); } best }
fn main() {
    let mut seed=1u32; let mut rnd=move||{seed=seed.wrapping_mul(1664525).wrapping_add(1013904223); (seed>>9) as f32/8388608.0-0.5};
    for (m,k,n) in [(10,512,512),(12,256,32),(128,768,768),(512,512,512),(1024,1024,1024),(16,64,64),(1,512,512),(37,60,60),(64,128,128),(32,128,128),(16,16,64),(16,64,16),(16,16,16),(32,64,64),(10,512,512)] {
        let a:Vec<f32>=(0..m*k).map(|_|rnd()).collect(); let b:Vec<f32>=(0..k*n).map(|_|rnd()).collect();
        let mut p=vec![0.0;k*n]; pack(&b,k,n,&mut p).unwrap(); let mut c=vec![0.0;m*n];
        let mut line=format!("{m}x{k}x{n}:");
        for isa in Isa::available() {
            let t=time(||{product(isa,black_box(&a),Panels::new(black_box(&p),k,n).unwrap(),None,black_box(&mut c)).unwrap()});
            let h=c.iter().fold(0u64,|h,x|(h^x.to_bits() as u64).wrapping_mul(0x100000001b3));
            line+=&format!("  {isa:?} {:.1} GF/s {:x}", 2.0*(m*k*n) as f64/t, h&0xffff);
        }
        println!("{line}");
    }
}
