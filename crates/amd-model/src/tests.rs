//! The model against a small driver of the tests' own: what it does right, and every violation with its correct twin.

#![expect(unsafe_code, reason = "the tests make the kernel's calls with pointers, and share memory with the model")]

mod access;
mod bounds;
mod calls;
mod events;
mod garbage;
mod kit;
mod order;
mod packets;
mod publication;
mod random;
mod scratch;
mod visibility;
mod work;
