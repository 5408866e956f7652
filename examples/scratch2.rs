use dhyan::*;
use std::time::Instant;
use std::hint::black_box;
fn time(mut f: impl FnMut()) -> f64 {
    let mut best = f64::MAX; let mut n=1;
    loop { let t=Instant::now(); for _ in 0..n {f()} let d=t.elapsed().as_nanos() as f64; if d>1e5 {break} n*=2; }
    let all=Instant::now(); while all.elapsed().as_millis() < 150 { let t=Instant::now(); for _ in 0..n {f()} best=best.min(t.elapsed().as_nanos() as f64/n as f64); } best }
fn rnd(n:usize,s:u32,scale:f32)->Vec<f32>{ let mut seed=s; (0..n).map(|_|{seed=seed.wrapping_mul(1664525).wrapping_add(1013904223); ((seed>>9) as f32/8388608.0-0.5)*scale}).collect() }
fn naive(x:&[f32],w:[&[f32];4],b:[&[f32];4],n:usize,d:usize,h:usize,causal:bool)->Vec<f64>{
 let lin=|x:&[f64],w:&[f32],b:&[f32]|->Vec<f64>{ let mut y=vec![0.0;n*d]; for i in 0..n{for o in 0..d{ let mut s=b[o] as f64; for k in 0..d{ s+=x[i*d+k]*w[k*d+o] as f64;} y[i*d+o]=s;}} y};
 let x:Vec<f64>=x.iter().map(|&v|v as f64).collect(); let (q,k,v)=(lin(&x,w[0],b[0]),lin(&x,w[1],b[1]),lin(&x,w[2],b[2])); let dk=d/h; let mut c=vec![0.0;n*d];
 for hh in 0..h { for i in 0..n { let m=if causal{i+1}else{n}; let s:Vec<f64>=(0..m).map(|j|(0..dk).map(|e|q[i*d+hh*dk+e]*k[j*d+hh*dk+e]).sum::<f64>()/(dk as f64).sqrt()).collect(); let mx=s.iter().cloned().fold(f64::MIN,f64::max); let p:Vec<f64>=s.iter().map(|s|(s-mx).exp()).collect(); let t:f64=p.iter().sum(); for e in 0..dk { c[i*d+hh*dk+e]=(0..m).map(|j|p[j]*v[j*d+hh*dk+e]).sum::<f64>()/t; } } } lin(&c,w[3],b[3]) }
fn one<const N:usize,const D:usize,const H:usize>(){
  let mut l=MultiHeadAttention::<D,H>::boxed().unwrap(); let mut ws=boxed_ws::<N,D>();
  let w:Vec<Vec<f32>>=(0..4).map(|i|rnd(D*D,i+1,2.0/(D as f32).sqrt())).collect(); let b:Vec<Vec<f32>>=(0..4).map(|i|rnd(D,i+9,0.5)).collect();
  l.query.load(&w[0]).unwrap(); l.key.load(&w[1]).unwrap(); l.value.load(&w[2]).unwrap(); l.output.load(&w[3]).unwrap();
  l.query.load_bias(&b[0]).unwrap(); l.key.load_bias(&b[1]).unwrap(); l.value.load_bias(&b[2]).unwrap(); l.output.load_bias(&b[3]).unwrap();
  let x=rnd(N*D,77,2.0); let x:&[[f32;D]]=x.as_chunks().0; let mut y=vec![[0f32;D];N];
  let check = N*D*D < 40_000_000;
  for causal in [false,true] {
  let r= if check {naive(x.as_flattened(),[&w[0],&w[1],&w[2],&w[3]],[&b[0],&b[1],&b[2],&b[3]],N,D,H,causal)} else {vec![]};
  let mut line=format!("n{N} d{D} h{H} causal {causal}:");
  for isa in Isa::available() { if !check && isa.name().len()>6 {continue} ws.set_isa(isa);
    let mut f=||{ if causal {l.self_attention(black_box(x),&Causal::top_left(),&mut ws,&mut y)} else {l.self_attention(black_box(x),&NoMask,&mut ws,&mut y)}.unwrap() };
    let t=time(&mut f); let y2=y.as_flattened(); let err=r.iter().zip(y2).map(|(a,b)|(a-*b as f64).abs()).fold(0.0,f64::max);
    let h=y2.iter().fold(0u64,|h,x|(h^x.to_bits() as u64).wrapping_mul(0x100000001b3));
    line+=&format!("  {isa:?} {:.1}us {:.1} GF/s err {err:.1e} {:x}", t/1e3, if causal {8.0*(N*D*D) as f64+2.0*(N*(N+1)*D) as f64} else {8.0*(N*D*D) as f64+4.0*(N*N*D) as f64}/t, h&0xffff); }
  println!("{line}"); }
}
fn boxed_ws<const N:usize,const D:usize>()->Box<Workspace<N,D>>{ std::thread::Builder::new().stack_size(1<<30).spawn(||Box::new(Workspace::new())).unwrap().join().unwrap() }
fn main(){ if std::env::args().nth(1).is_some() { one::<1,8,1>(); one::<16,64,4>(); one::<64,128,8>(); one::<10,512,8>(); one::<37,60,5>(); one::<128,384,12>(); return; } one::<1,8,1>(); one::<16,64,4>(); one::<64,128,8>(); one::<10,512,8>(); one::<37,60,5>(); one::<128,384,12>(); one::<600,48,3>(); one::<512,768,12>(); one::<2048,512,8>(); }
