//! Calls of the kernel: group 1.

use super::kit::*;
use crate::{Call, Group, Machine, QueueMemory, Violation, abi, errno};
