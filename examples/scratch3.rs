use dhyan::*; use std::hint::black_box;
fn rnd(n:usize,s:u32,scale:f32)->Vec<f32>{ let mut seed=s; (0..n).map(|_|{seed=seed.wrapping_mul(1664525).wrapping_add(1013904223); ((seed>>9) as f32/8388608.0-0.5)*scale}).collect() }
fn one<const N:usize,const D:usize,const H:usize>(isa:&str,ms:u128){
  let mut l=MultiHeadAttention::<D,H>::boxed().unwrap(); let mut ws=std::thread::Builder::new().stack_size(1<<30).spawn(||Box::new(Workspace::<N,D>::new())).unwrap().join().unwrap();
  let w:Vec<Vec<f32>>=(0..4).map(|i|rnd(D*D,i+1,2.0/(D as f32).sqrt())).collect();
  l.query.load(&w[0]).unwrap(); l.key.load(&w[1]).unwrap(); l.value.load(&w[2]).unwrap(); l.output.load(&w[3]).unwrap();
  let x=rnd(N*D,77,2.0); let x:&[[f32;D]]=x.as_chunks().0; let mut y=vec![[0f32;D];N]; ws.set_isa(Isa::named(isa).unwrap());
  let t=std::time::Instant::now(); while t.elapsed().as_millis()<ms { l.self_attention(black_box(x),&NoMask,&mut ws,&mut y).unwrap(); } }
fn main(){ let a:Vec<String>=std::env::args().collect(); let isa=a.get(2).map_or("avx512",|s|s.as_str()); match a[1].as_str() { "1"=>one::<1,8,1>(isa,1500), "16"=>one::<16,64,4>(isa,1500), "64"=>one::<64,128,8>(isa,1500), "10"=>one::<10,512,8>(isa,1500), "128"=>one::<128,384,12>(isa,1500), "2048"=>one::<2048,512,8>(isa,2000), "512"=>one::<512,768,12>(isa,2000),_=>{} } }
