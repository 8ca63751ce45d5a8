//! `rig bench`: its numbers, as a table, as JSON and as a chart.

use std::path::Path;

use serde_json::Value;

use crate::common::{folder, rig};

/// What every device has numbers of, in their order.
const TIMES: [&str; 3] = ["launch", "launch-in-a-row", "round-trip"];
const COPIES: [&str; 3] = ["to-device", "to-host", "within"];

#[test]
fn json_has_each_number_with_its_quarters_and_its_rounds() {
    let folder = folder("bench_json");
    let line = "bench cores MEMORY --quick --json --chart chart.svg";
    let report: Value = serde_json::from_str(&rig(&folder, line).done()).unwrap();
    let devices = report["devices"].as_array().unwrap();
    assert_eq!([&devices[0]["name"], &devices[1]["name"]], ["CORES", "MEMORY"]);
    for device in devices {
        assert_eq!(device["left_out"].as_array().unwrap().len(), 0, "{device}");
        let measured = device["measured"].as_array().unwrap();
        let of = |what: &str| measured.iter().filter(|measured| measured["what"] == what).count();
        assert_eq!(TIMES.map(of), [1; 3]);
        assert_eq!((of("cached"), COPIES.map(of)), (2, [4; 3]), "four sizes with --quick");
        for measured in measured {
            let ns = |name: &str| measured[name].as_f64().unwrap_or_else(|| panic!("{name}: {measured}"));
            let quarters = ["quarter_ns", "median_ns", "three_quarters_ns"].map(ns);
            assert!(quarters[0] > 0.0 && quarters.is_sorted(), "{measured}");
            assert!(measured["rounds"].as_u64().unwrap() >= 7, "{measured}");
            let rate = measured["bytes_per_second"].as_f64();
            match measured["what"].as_str() {
                Some("to-device" | "to-host" | "within") => {
                    let bytes = measured["bytes"].as_f64().unwrap();
                    assert!((rate.unwrap() * quarters[1] / 1e9 / bytes - 1.0).abs() < 1e-9, "{measured}");
                }
                _ => assert_eq!(rate, None, "{measured}"),
            }
        }
        // Of one round, the launches return before their work has ended; so it is with each part of the rounds.
        let quarters = |what: &str| {
            let measured = measured.iter().find(|measured| measured["what"] == what).unwrap();
            ["quarter_ns", "median_ns", "three_quarters_ns"].map(|name| measured[name].as_f64().unwrap())
        };
        let (launch, in_a_row) = (quarters("launch"), quarters("launch-in-a-row"));
        assert!(launch.iter().zip(&in_a_row).all(|(launch, in_a_row)| launch <= in_a_row), "{launch:?}, {in_a_row:?}");
    }
    chart(&std::fs::read_to_string(folder.join("chart.svg")).unwrap());
}

/// A chart is well-formed, names everything, and leaves nothing outside its frame.
fn chart(svg: &str) {
    for words in
        ["CORES (", "MEMORY (", "launch and wait", "cached buffer, 256 bytes", "host to device", "16 MiB", "GB/s"]
    {
        assert!(svg.contains(words), "{words} is not in the chart");
    }
    let open = svg.matches("<text ").count();
    assert_eq!((open, svg.matches("</text>").count()), (svg.matches("</text>").count(), open));
    assert!(!svg.contains("NaN") && !svg.contains("inf"), "{svg}");
    let height: f64 = svg.split("height=\"").nth(1).unwrap().split('"').next().unwrap().parse().unwrap();
    for (name, most) in [(" x=\"", 960.0), (" x2=\"", 960.0), (" cx=\"", 960.0), (" y=\"", height), (" cy=\"", height)]
    {
        for number in svg.split(name).skip(1).map(|rest| rest.split('"').next().unwrap().parse::<f64>().unwrap()) {
            assert!((0.0..=most).contains(&number), "{name}{number} is outside of {most}");
        }
    }
}

#[test]
fn the_table_has_a_column_for_each_device_and_the_reasons_of_the_others() {
    let out = rig(Path::new("."), "bench --quick").done();
    for words in [
        "CORES",
        "MEMORY",
        "launch in a row",
        "cached buffer, 1 MiB",
        "within the device, 16 MiB",
        "GB/s ±",
        "medians of rounds",
    ] {
        assert!(out.contains(words), "{words} is not in\n{out}");
    }
    assert!(out.contains("CUDA does not open: CUDA cannot be opened: ") || out.contains(" CUDA "), "{out}");
    assert!(out.lines().all(|line| line.chars().count() <= 100 || line.contains("does not open")), "{out}");
}

#[test]
fn a_device_that_is_not_there_and_a_file_that_cannot_be_written_are_told() {
    let folder = folder("bench_wrong");
    rig(&folder, "bench WARP --quick").failed(2, &["no device WARP", "CORES, MEMORY"]);
    rig(&folder, "bench MEMORY --quick --chart absent/a.svg").failed(1, &["cannot write absent/a.svg"]);
}
