//! `rig doctor` on this machine, whatever it has; the systems that are played stand beside the code.

use std::path::Path;

use serde_json::Value;

use crate::common::rig;

fn report(line: &str) -> (Option<i32>, Value) {
    let answer = rig(Path::new("."), line);
    assert_eq!(answer.error, "");
    (answer.code, serde_json::from_str(&answer.out).unwrap())
}

#[test]
fn each_driver_is_said_to_open_or_why_not_and_the_devices_are_those_that_rig_lists() {
    let (code, report) = report("doctor --json");
    let drivers = report["drivers"].as_array().unwrap();
    let names: Vec<&str> = drivers.iter().map(|driver| driver["driver"].as_str().unwrap()).collect();
    assert_eq!(names, ["host", "cuda", "amd", "metal"]);
    let listed: Value = serde_json::from_str(&rig(Path::new("."), "devices --json").done()).unwrap();
    let listed: Vec<&Value> = listed["devices"].as_array().unwrap().iter().map(|device| &device["name"]).collect();
    let mut opened = Vec::new();
    for driver in drivers {
        let devices = driver["devices"].as_array().unwrap();
        let open: Vec<&Value> =
            devices.iter().filter(|device| device["arch"].is_string()).map(|device| &device["name"]).collect();
        match driver["state"].as_str().unwrap() {
            "opens" => assert!(!open.is_empty(), "{driver}"),
            state @ ("absent" | "unsupported" | "broken") => {
                assert!(open.is_empty() && devices.iter().all(|device| device["why"].is_string()), "{driver}");
                let findings = driver["findings"].as_array().unwrap();
                assert!(!findings.is_empty() && findings.iter().all(|finding| finding["what"].is_string()), "{driver}");
                assert!(state != "broken" || findings.iter().all(|finding| finding["mend"].is_string()), "{driver}");
            }
            other => panic!("{other}"),
        }
        opened.extend(open);
    }
    assert!(listed.iter().all(|name| opened.contains(name)) && listed.len() == opened.len(), "{listed:?} {opened:?}");
    let broken = drivers.iter().any(|driver| driver["state"] == "broken");
    assert_eq!(report["beyond_the_host"], opened.len() > 2);
    assert_eq!(report["healthy"], opened.len() > 2 || !broken);
    assert_eq!(code, Some(i32::from(report["healthy"] == false)));
}

#[test]
fn the_text_says_the_same_a_driver_a_line() {
    let answer = rig(Path::new("."), "doctor");
    let (code, report) = report("doctor --json");
    assert_eq!(answer.code, code);
    assert!(answer.out.starts_with("host   opens: CORES ("), "{}", answer.out);
    for finding in
        report["drivers"].as_array().unwrap().iter().flat_map(|driver| driver["findings"].as_array().unwrap())
    {
        assert!(answer.out.contains(finding["what"].as_str().unwrap()), "{finding} is not in\n{}", answer.out);
    }
    assert!(answer.out.lines().last().unwrap().contains("beyond the host"), "{}", answer.out);
}

#[test]
fn drivers_that_are_named_have_to_open() {
    assert_eq!(rig(Path::new("."), "doctor HOST").done().lines().count(), 1);
    let (code, report) = report("doctor host cuda --json");
    let state = |at: usize| report["drivers"][at]["state"].as_str().unwrap();
    assert_eq!(state(0), "opens");
    assert_eq!(code, Some(i32::from(state(1) != "opens")));
    rig(Path::new("."), "doctor warp").failed(2, &["no driver warp", "host, cuda, amd, metal"]);
}
