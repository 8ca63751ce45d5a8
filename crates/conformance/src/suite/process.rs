//! A test that runs again in a process of its own: for what ends a process, and for what is counted over a whole one.
//!
//! The child is the same program with the same test as its filter, and an environment variable that names the test. The
//! parent kills a child that does not end.

use std::cell::Cell;
use std::io::Read;
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

/// Names the test that a child is to run.
const CHILD: &str = "RIG_CONFORMANCE_CHILD";

/// What a child prints once the test's body has run through.
const DONE: &str = "the child's part is done";

/// TIMEOUT: how long a child may take. The longest takes some seconds alone, and the machine may do much else.
const CHILD_TIME: Duration = Duration::from_secs(120);

thread_local! {
    /// The test that this thread runs, as a filter of its program names it.
    static TEST: Cell<Option<&'static str>> = const { Cell::new(None) };
}

/// Runs a test, whose path begins with its program's crate as [`module_path!`] has it, or whose name is the filter itself.
pub fn of_test<R>(path: &'static str, test: impl FnOnce() -> R) -> R {
    let name = match path.split_once("::") {
        Some((_, inside)) if inside.contains("::") => inside,
        _ => path,
    };
    TEST.set(Some(name));
    let answer = test();
    TEST.set(None);
    answer
}

/// Runs `body` in a child that runs this test alone, and sees that it runs through and that the process ends. Gives what
/// the child printed; `None` in the child itself, and where nobody said which test this is ([`of_test`]).
///
/// # Panics
///
/// If the child fails or does not end.
pub fn in_child(body: impl FnOnce()) -> Option<String> {
    let Some(test) = TEST.get() else {
        println!("nothing to do: this runs as no test of its own, which a child could run alone");
        return None;
    };
    if std::env::var(CHILD).is_ok_and(|child| child == test) {
        body();
        println!("{DONE}");
        return None;
    }
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args([test, "--exact", "--nocapture", "--test-threads=1"]).env(CHILD, test);
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let (ended, printed) = watched(command);
    assert!(
        ended == Some(true),
        "{}:\n{printed}",
        if ended.is_none() { "the child does not end" } else { "it failed" }
    );
    assert!(printed.contains(DONE), "the child ran no test:\n{printed}");
    Some(printed)
}

/// Runs a process; gives whether it succeeded, or nothing where it had to be killed, and what it printed.
fn watched(mut command: Command) -> (Option<bool>, String) {
    let mut child = command.spawn().unwrap();
    let (mut out, mut err) = (child.stdout.take().unwrap(), child.stderr.take().unwrap());
    let drained = thread::spawn(move || {
        let mut text = String::new();
        let _ = err.read_to_string(&mut text);
        text
    });
    let printed = thread::spawn(move || {
        let mut text = String::new();
        let _ = out.read_to_string(&mut text);
        text
    });
    let start = Instant::now();
    let ended = loop {
        if let Some(status) = child.try_wait().unwrap() {
            break Some(status.success());
        }
        if start.elapsed() > CHILD_TIME {
            child.kill().unwrap();
            child.wait().unwrap();
            break None;
        }
        // TIMEOUT: a look every few milliseconds costs nothing beside a process.
        thread::sleep(Duration::from_millis(5));
    };
    (ended, format!("{}{}", printed.join().unwrap(), drained.join().unwrap()))
}
