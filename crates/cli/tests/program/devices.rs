//! `rig devices`.

use std::path::Path;

use crate::common::rig;
use serde_json::Value;

/// Promise E40.
#[test]
fn every_device_is_listed_with_its_facts() {
    let out = rig(Path::new("."), "devices").done();
    for word in [
        "CORES",
        "MEMORY",
        "driver",
        "architecture",
        std::env::consts::ARCH,
        "budget",
        "queues",
        "launch",
        "cache line",
    ] {
        assert!(out.contains(word), "{word} is not in\n{out}");
    }
    // The GPU stands with the others, or with the reason why it does not.
    assert!(out.contains("CUDA"), "{out}");
}

/// Promise E40.
#[test]
fn json_holds_each_fact_by_name() {
    let report: Value = serde_json::from_str(&rig(Path::new("."), "devices --json").done()).unwrap();
    let devices = report["devices"].as_array().unwrap();
    let names: Vec<&str> = devices.iter().map(|device| device["name"].as_str().unwrap()).collect();
    assert_eq!(names[..2], ["CORES", "MEMORY"]);
    if names.len() == 2 {
        let closed = &report["closed"][0];
        assert_eq!((closed["name"].as_str(), closed["driver"].as_str()), (Some("CUDA"), Some("cuda")));
        assert!(closed["why"].as_str().unwrap().contains("CUDA cannot be opened: "), "{closed}");
    }
    for device in &devices[..2] {
        assert_eq!(device["driver"], "host");
        assert!(device["budget_bytes"].as_u64().unwrap() > 0);
        assert!(device["alignment_bytes"].as_u64().unwrap().is_power_of_two());
        assert_eq!(device["host_addresses"], true);
        for fact in ["arch", "queues", "copy_engine", "completion", "waits_most", "may_block", "hang_ms", "bus", "word"]
        {
            assert!(device.get(fact).is_some(), "{fact}");
        }
    }
    let runs = |device: &Value| device["queues"][0]["runs"].to_string();
    assert!(runs(&devices[0]).contains("launch"), "{}", devices[0]);
}
