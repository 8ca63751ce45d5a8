//! violations
