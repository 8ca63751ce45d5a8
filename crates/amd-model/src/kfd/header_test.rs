//! The structs against the kernel's header.
