//! The processor of SDMA packets.

#[derive(Debug, Default)]
pub(crate) struct SdmaState {}
