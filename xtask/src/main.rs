//! rig

fn main() {}
