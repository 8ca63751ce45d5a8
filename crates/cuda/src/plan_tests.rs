//! Tests of what a run changes in a graph, on a graph that writes down what it is asked.

use rig_edge::{Access, Copy, Launch, Memset};

use super::*;
use crate::code::Entry;
use crate::sys::abi::Code;

/// Writes every call down, and fails those on one node.
#[derive(Default)]
struct Calls {
    calls: Vec<String>,
    fails: Option<usize>,
}

impl Calls {
    fn note(&mut self, node: usize, call: String) -> Result<(), Failure> {
        self.calls.push(format!("{node}: {call}"));
        if self.fails == Some(node) { Err(Failure { call: "test", code: Code::INVALID_VALUE }) } else { Ok(()) }
    }

    fn take(&mut self) -> Vec<String> {
        std::mem::take(&mut self.calls)
    }
}

impl Patch for Calls {
    fn launch(&mut self, node: usize, _: Function, shape: &Shape, params: &mut [u8]) -> Result<(), Failure> {
        let words: Vec<u64> = params.chunks(8).map(|word| u64::from_ne_bytes(word.try_into().unwrap())).collect();
        self.note(node, format!("launch {:?} {:?} {} {words:x?}", shape.groups, shape.threads, shape.group_bytes))
    }

    fn copy(&mut self, node: usize, from: u64, to: u64, len: u64) -> Result<(), Failure> {
        self.note(node, format!("copy {len} from {from:x} to {to:x}"))
    }

    fn memset(&mut self, node: usize, at: u64, byte: u8, len: u64) -> Result<(), Failure> {
        self.note(node, format!("memset {len} at {at:x} to {byte}"))
    }

    fn enable(&mut self, node: usize, enabled: bool) -> Result<(), Failure> {
        self.note(node, format!("enable {enabled}"))
    }
}

/// Two launches of two refs and a word, a copy and a memset, over three slots.
struct Case {
    parts: Vec<Part<Cuda>>,
    blocks: Vec<Block>,
    params: Vec<u64>,
    slots: Vec<Slot>,
    held: Held,
    asked: Calls,
}

fn slot(device: u64, len: u64) -> Slot {
    Slot { device, host: std::ptr::null_mut(), len, handle: std::ptr::null(), handle_offset: 0 }
}

impl Case {
    fn new() -> Case {
        let launch = |a: u32, b: u32| {
            let one = |slot, at| Ref { slot, at, access: Access::Write };
            Part::Launch(Launch { entry: Entry::of_params(24), refs: vec![one(a, 0), one(b, 16)].into() })
        };
        let parts = vec![
            launch(0, 1),
            launch(1, 2),
            Part::Copy(Copy { from: 0, to: 2 }),
            Part::Memset(Memset { slot: 1, byte: 9 }),
        ];
        let block = |at| Block { groups: [1; 3], threads: [32, 1, 1], group_bytes: 0, params_at: at, params_len: 24 };
        let none = Block { params_len: 0, ..block(48) };
        let blocks = vec![block(0), block(24), none, none];
        let slots = vec![slot(0x1000, 64), slot(0x2000, 64), slot(0x3000, 64)];
        let held = Held::new(&parts);
        Case { parts, blocks, params: vec![0, 7, 4, 8, 5, 0], slots, held, asked: Calls::default() }
    }

    fn patch(&mut self) -> Result<(), Refusal> {
        let bytes: Vec<u8> = self.params.iter().flat_map(|word| word.to_ne_bytes()).collect();
        let work = Work {
            blocks: &self.blocks,
            params: &bytes,
            slots: &self.slots,
            apart: true,
            waits: &[],
            scratch: &mut [],
            times: None,
        };
        self.held.patch(&self.parts, &work, &mut self.asked)
    }

    /// What a patch asks for.
    fn asks(&mut self) -> Vec<String> {
        self.patch().unwrap();
        self.asked.take()
    }
}

/// Promises C12, N04.
#[test]
fn the_first_run_sets_every_node_with_the_addresses_at_its_refs() {
    let asked = Case::new().asks();
    assert_eq!(
        asked,
        [
            "0: launch [1, 1, 1] [32, 1, 1] 0 [1000, 7, 2004]",
            "1: launch [1, 1, 1] [32, 1, 1] 0 [2008, 5, 3000]",
            "2: copy 64 from 1000 to 3000",
            "3: memset 64 at 2000 to 9",
        ]
    );
}

/// Promise N04.
#[test]
fn a_run_that_asks_for_the_same_changes_nothing() {
    let mut case = Case::new();
    case.asks();
    assert!(case.asks().is_empty());
}

/// Promise N04.
#[test]
fn each_change_is_one_call_on_its_own_node() {
    let mut case = Case::new();
    case.asks();
    case.params[4] = 6;
    assert_eq!(case.asks(), ["1: launch [1, 1, 1] [32, 1, 1] 0 [2008, 6, 3000]"]);
    case.blocks[0].groups[1] = 3;
    assert_eq!(case.asks(), ["0: launch [1, 3, 1] [32, 1, 1] 0 [1000, 7, 2004]"]);
    case.blocks[0].group_bytes = 99;
    assert_eq!(case.asks(), ["0: launch [1, 3, 1] [32, 1, 1] 99 [1000, 7, 2004]"]);
    case.slots[0] = slot(0x9000, 64);
    assert_eq!(case.asks(), ["0: launch [1, 3, 1] [32, 1, 1] 99 [9000, 7, 2004]", "2: copy 64 from 9000 to 3000"]);
    assert!(case.asks().is_empty());
}

#[test]
fn nodes_of_no_bytes_are_left_out_until_they_have_some() {
    let mut case = Case::new();
    case.asks();
    case.slots[0].len = 0;
    case.slots[2].len = 0;
    assert_eq!(case.asks(), ["2: enable false"]);
    assert!(case.asks().is_empty());
    case.slots[0].len = 64;
    case.slots[2].len = 64;
    assert_eq!(case.asks(), ["2: enable true"], "the node still holds the same bytes");
    case.slots[1] = slot(0, 0);
    case.patch().unwrap();
    case.asked.take();
    case.slots[1] = slot(0x7000, 5);
    case.patch().unwrap();
    assert!(case.asked.take().ends_with(&["3: memset 5 at 7000 to 9".into(), "3: enable true".into()]));
}

#[test]
fn a_node_whose_change_failed_is_set_again_whatever_it_held() {
    let mut case = Case::new();
    case.asks();
    case.asked.fails = Some(1);
    case.params[4] = 6;
    let refusal = case.patch().unwrap_err();
    assert!(refusal.part == 1 && refusal.is_launch);
    case.asked = Calls::default();
    // What the node held before the failure: nobody knows whether it still does.
    case.params[4] = 5;
    assert_eq!(case.asks(), ["1: launch [1, 1, 1] [32, 1, 1] 0 [2008, 5, 3000]"]);
    case.asked.fails = Some(2);
    case.slots[2] = slot(0x8000, 64);
    let refusal = case.patch().unwrap_err();
    assert!(refusal.part == 2 && !refusal.is_launch);
}
