//! VOP3P: two halves a register.

use super::inst::Row;

/// Halves in pairs.
pub(super) static VOP3P: &[Row] = &[];
