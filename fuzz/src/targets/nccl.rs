//! What processes of rig-nccl say to one another over connections that anybody may have made.

use crate::wire::{Bad, Frame};

/// A stream is frames up to what is none; each frame takes the bytes that it says and no more, and written anew it is those
/// bytes, but for a reason that is longer than what travels.
pub fn frames(bytes: &[u8]) {
    let mut rest = bytes;
    loop {
        let before = rest;
        match Frame::read(&mut rest) {
            Ok(frame) => {
                let taken = &before[..before.len() - rest.len()];
                let written = frame.bytes();
                if let Frame::Fail(why) | Frame::Refuse(why) = &frame {
                    assert!(written.len() <= taken.len() && taken.len() == 13 + why.len());
                } else {
                    assert_eq!(written, taken);
                }
            }
            Err(Bad::Ended(_)) => return assert!(rest.is_empty(), "it ended with bytes left"),
            Err(Bad::Garbage(what)) => return assert!(!what.is_empty()),
        }
    }
}
