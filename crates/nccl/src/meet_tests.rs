//! Meetings on loopback: processes are threads here.

use super::*;
use crate::wire::tests::hello;
use std::io::{Read, Write};
use std::path::PathBuf;

/// TIMEOUT: for meetings that succeed: as long as a busy machine may keep threads waiting.
const LONG: Duration = Duration::from_secs(60);
/// TIMEOUT: for meetings that fail by their bound alone; where somebody is to come before it, a first bound (see [`in_time`]).
const SHORT: Duration = Duration::from_millis(600);

const BOUNDS: [u64; 3] = [1, 2, 3];

fn attend(place: &Place, hello: &Hello, bound: Duration) -> Result<Met> {
    let host = Host { id: &|| Ok([7; ID_BYTES]), bounds: BOUNDS };
    meet(place, hello, &host, Instant::now() + bound)
}

/// A place on loopback that was free a moment ago.
fn free() -> Place {
    let port = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap().local_addr().unwrap().port();
    Place::Address { host: "127.0.0.1".into(), port }
}

fn address(place: &Place) -> SocketAddr {
    let Place::Address { port, .. } = place else { panic!("an address") };
    SocketAddr::from((Ipv4Addr::LOCALHOST, *port))
}

fn file(name: &str) -> PathBuf {
    std::env::temp_dir().join(format!("rig-nccl-{name}-{}", std::process::id()))
}

/// Connects, where somebody listens.
fn try_connect(place: &Place) -> Option<TcpStream> {
    let stream = TcpStream::connect(address(place)).ok()?;
    (stream.local_addr().unwrap() != address(place)).then_some(stream)
}

/// Connects once somebody listens.
fn connect(place: &Place) -> TcpStream {
    loop {
        if let Some(stream) = try_connect(place) {
            return stream;
        }
        thread::sleep(AGAIN);
    }
}

/// Connects once somebody listens, unless the meeting ends before.
fn connect_before_the_end<T>(place: &Place, meeting: &thread::ScopedJoinHandle<'_, T>) -> Option<TcpStream> {
    loop {
        let over = meeting.is_finished();
        let stream = try_connect(place);
        if stream.is_some() || over {
            return stream;
        }
        thread::sleep(AGAIN);
    }
}

fn why(met: Result<Met>) -> String {
    match met {
        Err(Error::Meeting(why)) => why,
        Err(other) => panic!("{other}"),
        Ok(_) => panic!("the meeting was to fail"),
    }
}

/// All processes of the hellos at one place, each on a thread.
fn all(place: &Place, hellos: Vec<Hello>, bound: Duration) -> Vec<Result<Met>> {
    thread::scope(|scope| {
        let threads: Vec<_> =
            hellos.into_iter().map(|hello| scope.spawn(move || attend(place, &hello, bound))).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    })
}

/// Runs a meeting that fails by its bound once somebody has come: with a longer bound where the machine was too busy for that,
/// which the meeting says by none.
fn in_time<T>(meeting: impl Fn(Duration) -> Option<T>) -> T {
    let bounds = std::iter::successors(Some(SHORT), |bound| Some(*bound * 2)).take_while(|bound| *bound < LONG);
    bounds.into_iter().find_map(meeting).expect("they come before the longest bound")
}

#[test]
fn processes_meet_at_an_address_and_each_gets_its_ranks_the_id_and_the_bounds() {
    let hellos = vec![hello(2, 3, &["a", "b"]), hello(0, 3, &["a"]), hello(1, 3, &["a", "b", "c"])];
    // By a file, processes of one machine find one another whatever its name leads to.
    let near = |hello: &Hello| {
        let devices = hello.devices.iter().map(|device| format!("{device}{}", hello.process)).collect();
        Hello { machine: "boot".into(), devices, ..hello.clone() }
    };
    let together = hellos.iter().map(near).collect();
    for (place, hellos) in [(free(), hellos.clone()), (Place::File(file("met")), together)] {
        let met = all(&place, hellos.clone(), LONG);
        let firsts: Vec<u32> = met.iter().map(|met| met.as_ref().unwrap().welcome.first).collect();
        assert_eq!(firsts, [4, 0, 1]);
        for met in met.iter().flatten() {
            assert_eq!((met.welcome.ranks, met.welcome.id, met.welcome.bounds), (6, [7; ID_BYTES], BOUNDS));
        }
        let zero = met[1].as_ref().unwrap();
        let others: Vec<(u32, u32)> = zero.others.iter().map(|(hello, _, first)| (hello.process, *first)).collect();
        assert_eq!(others, [(1, 1), (2, 4)], "connections by process, with their first ranks");
        let one = met[0].as_ref().unwrap();
        assert_eq!((one.others.len(), one.others[0].0.name()), (1, hellos[1].name()));
    }
    assert!(!file("met").exists(), "the file goes once all have met");
}

#[test]
fn who_does_not_come_is_named_at_the_bound() {
    let (zero, two) = in_time(|bound| {
        let met = all(&free(), vec![hello(0, 4, &["a"]), hello(2, 4, &["a"])], bound);
        let mut met = met.into_iter().map(why);
        let (zero, two) = (met.next().unwrap(), met.next().unwrap());
        (!zero.starts_with("processes 1, 2, 3 did not come")).then_some((zero, two))
    });
    assert!(zero.starts_with("processes 1, 3 did not come"), "{zero}");
    assert!(two.contains("processes 1, 3 did not come") || two.contains("did not reach process 0"), "{two}");
    let alone = why(attend(&free(), &hello(1, 2, &["a"]), SHORT));
    assert!(alone.contains("process 1 (host1, pid 101) did not reach process 0 at 127.0.0.1"), "{alone}");
}

#[test]
fn garbage_and_silence_on_the_port_hold_nobody_up() {
    let place = free();
    let met = thread::scope(|scope| {
        let zero = scope.spawn(|| attend(&place, &hello(0, 2, &["a"]), LONG));
        // One says nothing and stays, one speaks another language, one says that a gigabyte comes, one ends at once.
        let _silent = connect(&place);
        connect(&place).write_all(b"GET / HTTP/1.1\r\n\r\n").unwrap();
        let mut long = Frame::Lost.bytes();
        long[5..9].copy_from_slice(&(1_u32 << 30).to_le_bytes());
        connect(&place).write_all(&long).unwrap();
        drop(connect(&place));
        let one = attend(&place, &hello(1, 2, &["a"]), LONG);
        (zero.join().unwrap(), one)
    });
    assert!(met.0.is_ok() && met.1.is_ok());
}

#[test]
fn a_meeting_that_fails_says_what_else_came() {
    let zero = in_time(|bound| {
        let place = free();
        let zero = thread::scope(|scope| {
            let zero = scope.spawn(|| attend(&place, &hello(0, 2, &["a"]), bound));
            connect_before_the_end(&place, &zero)?.write_all(b"GET / HTTP/1.1\r\n\r\n").ok()?;
            Some(why(zero.join().unwrap()))
        })?;
        assert!(zero.contains("process 1 did not come"), "{zero}");
        (!zero.ends_with("process 1 did not come")).then_some(zero)
    });
    assert!(zero.contains("is none of the processes"), "{zero}");
}

#[test]
fn processes_that_do_not_fit_learn_why_at_once_and_so_does_everyone_who_waits() {
    let other_size = hello(2, 4, &["a"]);
    let twin = Hello { pid: 999, ..hello(1, 3, &["a"]) };
    for (wrong, says) in [(other_size, "is one of 4 processes"), (twin, "is there already")] {
        let [zero, one, wrong] = in_time(|bound| {
            let place = free();
            let whys = thread::scope(|scope| {
                let zero = scope.spawn(|| attend(&place, &hello(0, 3, &["a"]), LONG));
                let one = scope.spawn(|| attend(&place, &hello(1, 3, &["a"]), bound));
                let wrong = scope.spawn(|| attend(&place, &wrong, bound));
                [zero, one, wrong].map(|thread| why(thread.join().unwrap()))
            });
            // Who comes long after the meeting has failed, or is not told of it, finds nobody until its bound.
            whys.iter().all(|why| !why.contains("did not reach process 0")).then_some(whys)
        });
        // Who waits for its bound says that somebody did not come.
        assert!(zero.contains(says) && wrong.contains(says) && one.contains(says), "{zero}; {one}; {wrong}");
    }
}

#[test]
fn a_process_of_another_run_is_sent_away_and_the_run_goes_on() {
    let place = free();
    let [zero, one, other] = thread::scope(|scope| {
        let zero = scope.spawn(|| attend(&place, &hello(0, 2, &["a"]), LONG));
        let other = Hello { job: "another".into(), ..hello(1, 2, &["a"]) };
        let other = attend(&place, &other, LONG);
        let one = attend(&place, &hello(1, 2, &["a"]), LONG);
        [zero.join().unwrap(), one, other]
    });
    assert!(zero.is_ok() && one.is_ok());
    assert!(why(other).contains("\"another\""));
}

#[test]
fn a_port_where_something_else_answers_is_an_error_that_says_so() {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let place = Place::Address { host: "127.0.0.1".into(), port: listener.local_addr().unwrap().port() };
    let met = thread::scope(|scope| {
        let one = scope.spawn(|| attend(&place, &hello(1, 2, &["a"]), LONG));
        let (mut stream, _) = listener.accept().unwrap();
        let mut some = [0; 16];
        stream.read_exact(&mut some).unwrap();
        stream.write_all(b"HTTP/1.1 400 Bad Request\r\n\r\n").unwrap();
        one.join().unwrap()
    });
    assert!(why(met).contains("something answers that is not process 0"));
}

#[test]
fn a_port_that_another_program_has_is_an_error_of_process_0() {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let place = Place::Address { host: "127.0.0.1".into(), port: listener.local_addr().unwrap().port() };
    let zero = why(attend(&place, &hello(0, 2, &["a"]), SHORT));
    assert!(zero.contains("process 0 cannot listen at 127.0.0.1"), "{zero}");
}

#[test]
fn a_file_of_an_earlier_run_is_named_where_nobody_answers_and_replaced_where_process_0_comes() {
    let path = file("stale");
    let place = Place::File(path.clone());
    let Place::Address { port, .. } = free() else { panic!("an address") };
    let stale = format!("{FILE_HEAD}\nhost0\nboot1\n{port}\n1\n");
    std::fs::write(&path, &stale).unwrap();
    let alone = why(attend(&place, &hello(1, 2, &["a"]), SHORT));
    assert!(alone.contains("may be left from an earlier run: remove it"), "{alone}");
    // The same file, and process 0 comes later than process 1.
    let met = thread::scope(|scope| {
        let one = scope.spawn(|| attend(&place, &Hello { machine: "boot1".into(), ..hello(1, 2, &["a"]) }, LONG));
        let zero = attend(&place, &Hello { machine: "boot1".into(), ..hello(0, 2, &["b"]) }, LONG);
        (zero, one.join().unwrap())
    });
    assert!(met.0.is_ok() && met.1.is_ok());
    std::fs::write(&path, "a shopping list\n".repeat(1000)).unwrap();
    let other = why(attend(&place, &hello(1, 2, &["a"]), SHORT));
    std::fs::remove_file(&path).unwrap();
    assert!(other.contains("is no file of rig-nccl's"), "{other}");
}

#[test]
fn an_error_of_nccls_id_reaches_everyone() {
    let place = free();
    let (zero, one) = thread::scope(|scope| {
        let zero = scope.spawn(|| {
            let host = Host { id: &|| Err(Error::Connect("no network".into())), bounds: BOUNDS };
            meet(&place, &hello(0, 2, &["a"]), &host, Instant::now() + LONG).err()
        });
        let one = attend(&place, &hello(1, 2, &["a"]), LONG);
        (zero.join().unwrap(), one)
    });
    assert_eq!(zero, Some(Error::Connect("no network".into())));
    assert!(why(one).contains("no network"));
}
