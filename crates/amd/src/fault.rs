//! Faults of the GPU, as the kernel driver's events tell them.

use std::fmt::Write as _;

use crate::abi::{HwException, MemoryException};

/// A fault of memory in words: the address, and what was wrong with it.
pub(crate) fn of_memory(fault: &MemoryException) -> String {
    let mut text = format!("a memory fault of the GPU at the address {:#x}", fault.va);
    let causes = [
        (fault.not_present, "nothing is mapped there"),
        (fault.read_only, "it was written and is read-only"),
        (fault.no_execute, "it was run and is no code"),
    ];
    let mut link = ": ";
    for (_, cause) in causes.iter().filter(|(holds, _)| *holds) {
        let _ = write!(text, "{link}{cause}");
        link = ", and ";
    }
    if fault.imprecise {
        text.push_str(" (the address is near, not exact)");
    }
    match fault.error_type {
        0 => {}
        1 => text.push_str("; its memory has an error that cannot be corrected"),
        2 => text.push_str("; it used memory that has an error"),
        3 => text.push_str("; it hung"),
        other => drop(write!(text, "; kind {other}")),
    }
    text
}

/// A reset in words.
pub(crate) fn of_hardware(fault: &HwException) -> String {
    let what = if fault.reset_type == 0 { "the GPU was reset" } else { "an engine of the GPU was reset" };
    let why = match fault.reset_cause {
        0 => "after it hung",
        1 => "after an error of its memory",
        _ => "for a cause that the kernel does not name",
    };
    let lost = if fault.memory_lost == 0 { "" } else { ", and what its memory held is lost" };
    format!("{what} {why}{lost}")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Promise A12.
    #[test]
    fn a_memory_fault_names_its_address_and_its_causes() {
        let fault = MemoryException { not_present: true, va: 0x7f00_dead_b000, ..MemoryException::default() };
        assert_eq!(
            of_memory(&fault),
            "a memory fault of the GPU at the address 0x7f00deadb000: nothing is mapped there"
        );
        let fault = MemoryException { read_only: true, no_execute: true, imprecise: true, error_type: 2, ..fault };
        let text = of_memory(&MemoryException { not_present: false, ..fault });
        assert!(text.contains("read-only, and it was run") && text.contains("not exact"), "{text}");
        assert!(text.ends_with("memory that has an error"), "{text}");
    }

    /// Promise A12.
    #[test]
    fn a_reset_says_what_was_reset_and_why() {
        let hang = HwException { memory_lost: 1, ..HwException::default() };
        assert_eq!(of_hardware(&hang), "the GPU was reset after it hung, and what its memory held is lost");
        let engine = HwException { reset_type: 1, reset_cause: 1, ..HwException::default() };
        assert_eq!(of_hardware(&engine), "an engine of the GPU was reset after an error of its memory");
    }
}
