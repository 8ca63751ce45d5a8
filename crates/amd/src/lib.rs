//! AMD GPUs for rig, through the interface of Linux's kernel driver.
