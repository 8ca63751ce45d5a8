//! The processor of AQL packets.

#[derive(Debug, Default)]
pub(crate) struct AqlState {
    pub(crate) flights: Vec<()>,
}
