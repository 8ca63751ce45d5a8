//! Tests of the order that slots ask for. A part is written as what it reads, a `>`, and what it writes: `ab>c`.

use super::*;

/// A number below `bound`, of the `n`th turn: Knuth's multiplicative hash is mixed enough for a test's cases.
fn pick(n: &mut u64, bound: u64) -> u64 {
    *n += 1;
    (n.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 33) % bound
}

fn uses(part: &str) -> Vec<(u32, Access)> {
    let (reads, writes) = part.split_once('>').unwrap();
    let slots =
        |names: &str, access| names.chars().map(move |name| (name as u32 - 'a' as u32, access)).collect::<Vec<_>>();
    [slots(reads, Access::Read), slots(writes, Access::Write)].concat()
}

fn edges(parts: &str) -> Edges {
    let mut edges = Edges::of_uses(parts.split_whitespace().map(uses));
    edges.reduce();
    edges
}

fn before(parts: &str) -> Vec<Vec<usize>> {
    edges(parts).before
}

/// Promise N05.
#[test]
fn parts_that_share_no_written_slot_wait_for_nothing() {
    assert_eq!(before("a>b c>d"), [vec![], vec![]]);
    assert_eq!(before("a>b a>c ab> ad>"), [vec![], vec![], vec![0], vec![]], "reading together is no order");
    assert_eq!(before("> >"), [vec![], vec![]]);
}

/// Promise N05.
#[test]
fn a_chain_is_a_line_and_is_not_wide() {
    for chain in ["a>b b>c c>d d>a", "a>b b>c bc>d ad>c", ">a >a >a", "a>b >b b>c"] {
        let edges = edges(chain);
        assert_eq!(edges, Edges::line(edges.before.len()), "{chain}");
        assert!(!edges.is_wide(), "{chain}");
    }
    assert!(edges("a>b b>c a>d").is_wide());
}

/// Promise N05.
#[test]
fn a_diamond_forks_and_joins() {
    assert_eq!(before(">a a>b a>c bc>d"), [vec![], vec![0], vec![0], vec![1, 2]]);
    assert_eq!(edges(">a a>b a>c bc>d").depth(), 3);
    assert_eq!(edges(">a a>b a>c bc>d").leaves(), [3]);
    assert_eq!(edges(">a a>b a>c").leaves(), [1, 2]);
}

/// Promise N05.
#[test]
fn a_write_waits_for_every_reader_since_the_last_write() {
    assert_eq!(before("a>b a>c >a"), [vec![], vec![], vec![0, 1]]);
    assert_eq!(before(">a a>b a>c >a a>d"), [vec![], vec![0], vec![0], vec![1, 2], vec![3]]);
    assert_eq!(before(">a >b a> >a"), [vec![], vec![], vec![0], vec![2]]);
}

/// Promise N05.
#[test]
fn a_write_waits_for_a_write_that_nobody_read() {
    assert_eq!(before(">a b>c >a"), [vec![], vec![], vec![0]]);
}

/// Promise N05.
#[test]
fn a_slot_that_a_part_reads_and_writes_is_written() {
    assert_eq!(before("a>a a>a"), [vec![], vec![0]]);
    assert_eq!(before("a>b aa>a a>c"), [vec![], vec![0], vec![1]]);
}

/// Promise N05.
#[test]
fn what_launches_copies_and_memsets_use_is_read_from_the_parts() {
    use rig_edge::{Copy, Launch, Memset, Ref};
    let refs = [(0, Access::Read), (1, Access::Write)];
    let refs = refs.map(|(slot, access)| Ref { slot, at: 8 * slot, access });
    let launch = Launch { entry: crate::code::Entry::of_params(16), refs: refs.into() };
    let parts = [
        Part::Memset(Memset { slot: 0, byte: 1 }),
        Part::Memset(Memset { slot: 3, byte: 1 }),
        Part::Launch(launch),
        Part::Copy(Copy { from: 1, to: 2 }),
        Part::Copy(Copy { from: 0, to: 3 }),
        Part::Memset(Memset { slot: 0, byte: 2 }),
    ];
    assert_eq!(Edges::of_slots(&parts).before, [vec![], vec![], vec![0], vec![2], vec![0, 1], vec![2, 4]]);
}

/// Whether two parts must not run at once.
fn conflict(a: &[(u32, Access)], b: &[(u32, Access)]) -> bool {
    a.iter().any(|x| b.iter().any(|y| x.0 == y.0 && (x.1 == Access::Write || y.1 == Access::Write)))
}

/// For each part, whether a path leads to it from each other, by what leads there at once.
fn paths(count: usize, direct: impl Fn(usize, usize) -> bool) -> Vec<Vec<bool>> {
    let mut paths: Vec<Vec<bool>> = Vec::new();
    for later in 0..count {
        let leads = |earlier: usize| {
            direct(later, earlier)
                || (earlier + 1..later).any(|between| direct(later, between) && paths[between][earlier])
        };
        paths.push((0..count).map(|earlier| earlier < later && leads(earlier)).collect());
    }
    paths
}

/// What some parts use, from few slots to many.
fn some_parts(turn: &mut u64) -> Vec<Vec<(u32, Access)>> {
    let (count, slots) = (1 + pick(turn, 24), 1 + pick(turn, 9));
    let access = |write| if write { Access::Write } else { Access::Read };
    let of_part = |_| {
        let uses = 0..pick(turn, 4);
        uses.map(|_| (pick(turn, slots) as u32, access(pick(turn, 2) == 0))).collect()
    };
    (0..count).map(of_part).collect()
}

/// Promise N05.
#[test]
fn parts_have_a_path_between_them_exactly_where_conflicts_lead_from_one_to_the_other() {
    let mut turn = 0;
    for _ in 0..300 {
        let parts = some_parts(&mut turn);
        let mut edges = Edges::of_uses(parts.clone());
        edges.reduce();
        let by_edges = paths(parts.len(), |later, earlier| edges.before(later).contains(&earlier));
        let due = paths(parts.len(), |later, earlier| conflict(&parts[earlier], &parts[later]));
        assert_eq!(by_edges, due, "{parts:?}");
        let is_end = |part: &usize| by_edges.iter().all(|before| !before[*part]);
        assert_eq!(edges.leaves(), (0..parts.len()).filter(is_end).collect::<Vec<_>>());
        // No edge is there in vain.
        for later in 0..parts.len() {
            let before = edges.before(later);
            let vain = |part: &usize| before.iter().any(|between| by_edges[*between][*part]);
            assert!(!before.iter().any(vain), "{parts:?}: {before:?}");
        }
    }
}

/// Promise N05.
#[test]
fn lanes_keep_every_path_and_leave_no_more_parts_without_an_order() {
    let mut turn = 1000;
    for round in 0..300 {
        let parts = some_parts(&mut turn);
        let lanes = 1 + round % 3;
        let mut edges = Edges::of_uses(parts.clone());
        edges.narrow(lanes);
        edges.reduce();
        let by_edges = paths(parts.len(), |later, earlier| edges.before(later).contains(&earlier));
        let due = paths(parts.len(), |later, earlier| conflict(&parts[earlier], &parts[later]));
        let kept = due.iter().zip(&by_edges).all(|(due, by)| due.iter().zip(by).all(|(due, by)| by >= due));
        assert!(kept, "{parts:?}: {edges:?}");
        assert!(!unordered(&by_edges, &mut Vec::new(), lanes + 1), "{lanes}: {parts:?}: {edges:?}");
    }
}

/// Whether `count` parts more, after the chosen ones, have no path among them and to these.
fn unordered(paths: &[Vec<bool>], chosen: &mut Vec<usize>, count: usize) -> bool {
    let first = chosen.last().map_or(0, |last| last + 1);
    count == 0
        || (first..paths.len()).any(|part| {
            let free = chosen.iter().all(|&other| !paths[part][other]);
            chosen.push(part);
            let found = free && unordered(paths, chosen, count - 1);
            chosen.pop();
            found
        })
}

/// Promise N05.
#[test]
fn parts_without_an_order_fill_the_lanes_evenly() {
    for (count, depth) in [(1, 1), (2, 1), (4, 1), (5, 2), (8, 2), (16, 4), (100, 25), (1000, 250)] {
        let memset = |slot| Part::Memset(rig_edge::Memset { slot, byte: 0 });
        let parts: Vec<_> = (0..count).map(memset).collect();
        let edges = Edges::of_slots(&parts);
        assert_eq!(edges.depth(), depth, "{count}");
        assert_eq!(edges.is_wide(), count > 1);
    }
}

#[test]
fn more_parts_than_are_reduced_keep_their_order() {
    let memset = || Part::Memset(rig_edge::Memset { slot: 0, byte: 0 });
    let parts: Vec<_> = (0..=REDUCED_MOST).map(|_| memset()).collect();
    assert_eq!(Edges::of_slots(&parts), Edges::line(parts.len()));
}
