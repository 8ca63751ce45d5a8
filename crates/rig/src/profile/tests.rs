//! The format of traces, read back by a parser of JSON, and the text.

use std::time::Duration;

use serde_json::Value;

use super::{HostSpan, HostWork, Interval, PartRan, Profile, ValueSpan};
use crate::CopyPath;

fn interval(start: u64, end: u64) -> Interval {
    Interval { start: Duration::from_nanos(start), end: Duration::from_nanos(end) }
}

/// Two devices of one name; the second's value follows the first's. Names with what JSON must escape.
fn profile() -> Profile {
    let part = |name: &str, queue, ran| PartRan { name: name.into(), queue, ran, bytes: 4096 };
    let value = |timeline, value, ran, parts, follows| ValueSpan {
        device: "A \"GPU\"".into(),
        timeline,
        value,
        submit: interval(0, 900),
        ran,
        error: Duration::from_nanos(40),
        parts,
        follows,
        lost: false,
    };
    let first = vec![part("add\n", 0, Some(interval(1_000, 1_500))), part("copy", 1, Some(interval(1_500, 2_001)))];
    Profile {
        took: Duration::from_micros(9),
        values: vec![
            value(0, 1, Some(interval(1_000, 2_001)), first, vec![]),
            value(3, 7, Some(interval(2_500, 8_000)), vec![part("scale", 0, None)], vec![(0, 1), (5, 9)]),
            value(3, 8, None, vec![part("lost", 0, None)], vec![]),
        ],
        host: vec![HostSpan {
            work: HostWork::Copy(CopyPath::Host),
            thread: "main".into(),
            device: "A \"GPU\"".into(),
            ran: interval(100, 350),
            bytes: 64,
        }],
    }
}

fn events() -> Vec<Value> {
    let mut bytes = Vec::new();
    profile().write_chrome_trace(&mut bytes).unwrap();
    let trace: Value = serde_json::from_slice(&bytes).unwrap();
    trace["traceEvents"].as_array().unwrap().clone()
}

/// Promise C22.
#[test]
fn a_trace_is_json_of_complete_events_on_the_threads_of_queues() {
    let events = events();
    let spans: Vec<&Value> = events.iter().filter(|event| event["ph"] == "X").collect();
    let names: Vec<&str> = spans.iter().map(|span| span["name"].as_str().unwrap()).collect();
    assert_eq!(names, ["add\n, copy", "add\n", "copy", "scale", "copy by the host A \"GPU\""]);
    let copy = spans[2];
    assert_eq!((copy["ts"].as_f64(), copy["dur"].as_f64()), (Some(1.5), Some(0.501)), "microseconds");
    assert_eq!(
        (copy["pid"].as_u64(), copy["tid"].as_u64(), copy["args"]["bytes"].as_u64()),
        (Some(1), Some(2), Some(4096))
    );
    assert_eq!(spans[0]["args"]["value"], 1);
    assert_eq!(spans[0]["args"]["error_ns"], 40);
    assert_eq!(spans[4]["pid"], 0, "the host");
    for span in spans {
        let named = |what: &str, thread: &Value| {
            let mut names = events.iter().filter(|event| event["ph"] == "M" && event["name"] == what);
            names.any(|event| event["pid"] == span["pid"] && (what == "process_name" || event["tid"] == *thread))
        };
        assert!(named("process_name", &span["tid"]) && named("thread_name", &span["tid"]), "{span}");
    }
}

#[test]
fn what_follows_is_an_arrow_from_the_end_of_one_span_to_the_start_of_the_other() {
    let events = events();
    let ends: Vec<&Value> = events.iter().filter(|event| event["ph"] == "s" || event["ph"] == "f").collect();
    let [start, finish] = ends[..] else { panic!("one arrow: what is not in the profile has none: {ends:?}") };
    assert_eq!((start["ph"].as_str(), finish["ph"].as_str()), (Some("s"), Some("f")));
    assert_eq!(start["id"], finish["id"]);
    assert_eq!((start["pid"].as_u64(), start["ts"].as_f64()), (Some(1), Some(2.001)));
    assert_eq!((finish["pid"].as_u64(), finish["ts"].as_f64()), (Some(4), Some(2.5)));
}

#[test]
fn a_page_holds_the_trace_and_no_name_ends_its_script() {
    let mut profile = profile();
    profile.values[0].parts[0].name = "</script><b>".into();
    let mut bytes = Vec::new();
    profile.write_html(&mut bytes).unwrap();
    let page = String::from_utf8(bytes).unwrap();
    let (_, rest) = page.split_once("id=\"trace\">").unwrap();
    let (trace, _) = rest.split_once("</script>").unwrap();
    let trace: Value = serde_json::from_str(trace).unwrap();
    let names = trace["traceEvents"].as_array().unwrap().iter().map(|event| event["name"].as_str().unwrap());
    assert!(names.into_iter().any(|name| name == "</script><b>"));
    assert!(!page.contains("://"), "it fetches nothing");
}

#[test]
fn an_empty_profile_is_a_trace_too() {
    let mut bytes = Vec::new();
    Profile::default().write_chrome_trace(&mut bytes).unwrap();
    let trace: Value = serde_json::from_slice(&bytes).unwrap();
    assert_eq!(trace["traceEvents"].as_array().unwrap().len(), 1, "the host's name");
}

#[test]
fn the_summary_adds_up_parts_by_name_and_what_the_host_did() {
    let text = profile().to_string();
    let line =
        |of: &str| text.lines().find(|line| line.trim_start().starts_with(of)).unwrap_or_else(|| panic!("{text}"));
    assert!(text.starts_with("9µs in all"), "{text}");
    assert!(line("scale").contains("5.5µs"), "a value of one part took what the part did: {text}");
    assert!(line("copy by the host").contains("64 bytes"), "{text}");
    assert!(line("lost").contains("1 times"), "{text}");
}

#[test]
fn intervals_overlap_where_both_are_under_way() {
    assert!(interval(0, 10).overlaps(&interval(9, 20)));
    assert!(!interval(0, 10).overlaps(&interval(10, 20)));
}
