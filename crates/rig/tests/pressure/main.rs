//! Memory under pressure: random traces at nine tenths of the budget and beyond it, against an oracle that knows only what
//! was asked for and dropped.
//!
//! Every trace has a fixed seed and a length that a debug build plays in well under a second. `RIG_TRACES=N` plays `N`
//! traces of each kind, with other seeds, each ten times as long; with `--nocapture` each says what it measured.
#![expect(clippy::unwrap_used, reason = "a helper of tests fails its test")]

mod alone;
mod flight;
mod oracle;
mod player;
mod shared;
mod small;
mod threads;
mod trace;
