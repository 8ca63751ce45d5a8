//! The Mac's GPU for rig, through Apple's Metal.
