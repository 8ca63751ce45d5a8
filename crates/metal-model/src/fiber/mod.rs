//! Threads of a threadgroup as fibers of one worker's thread.
