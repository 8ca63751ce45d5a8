//! What the model has, finds, can be made to do wrong, and leaves out.
#![doc = include_str!("../README.md")]
