//! What numpy makes of the same inputs.
//!
//! One python process computes all cases of a test, in float64: each an expression over arrays that it reads from files.

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::case::Case;

/// Reads a case a line: the expression, the file of its result, and each array's name, shape and file.
const PROGRAM: &str = "
import sys, numpy as np
for line in sys.stdin:
    expression, out, *arrays = line.rstrip('\\n').split('\\t')
    names = {'np': np}
    for array in arrays:
        name, shape, path = array.split('|')
        names[name] = np.fromfile(path, dtype='<f8').reshape([int(n) for n in shape.split(',')])
    with np.errstate(all='ignore'):
        result = eval(expression, names)
    np.ascontiguousarray(result, dtype='<f8').tofile(out)
";

/// A python3 with numpy: the first on the path may be one without, and the system's one with.
fn python() -> Option<&'static str> {
    let has_numpy = |python: &&&str| {
        let mut import = Command::new(python);
        import.args(["-c", "import numpy"]).stdout(Stdio::null()).stderr(Stdio::null());
        import.status().is_ok_and(|status| status.success())
    };
    ["python3", "/usr/bin/python3"].iter().find(has_numpy).copied()
}

/// The results of all cases, in their order; or why there are none.
pub fn expected(cases: &[Case]) -> Result<Vec<Vec<f64>>, String> {
    let python = python().ok_or("skipped: there is no python3 with numpy here")?;
    let folder = std::env::temp_dir().join(format!("rig-mlx-{}-{}", std::process::id(), cases[0].name));
    std::fs::create_dir_all(&folder).unwrap();
    let answers = ask(python, &folder, cases);
    std::fs::remove_dir_all(&folder).unwrap();
    Ok(answers)
}

fn ask(python: &str, folder: &Path, cases: &[Case]) -> Vec<Vec<f64>> {
    let mut child = Command::new(python).args(["-c", PROGRAM]).stdin(Stdio::piped()).spawn().unwrap();
    let mut lines = child.stdin.take().unwrap();
    let result = |case: usize| folder.join(format!("{case}-result"));
    for (number, case) in cases.iter().enumerate() {
        let mut line = format!("{}\t{}", case.expression, result(number).display());
        for (name, shape, values) in &case.arrays {
            let path = folder.join(format!("{number}-{name}"));
            write(&path, values);
            let shape: Vec<String> = shape.iter().map(usize::to_string).collect();
            line += &format!("\t{name}|{}|{}", shape.join(","), path.display());
        }
        writeln!(lines, "{line}").unwrap();
    }
    drop(lines);
    assert!(child.wait().unwrap().success(), "numpy failed");
    (0..cases.len()).map(|case| read(&result(case))).collect()
}

fn write(path: &PathBuf, values: &[f64]) {
    let bytes: Vec<u8> = values.iter().flat_map(|value| value.to_le_bytes()).collect();
    std::fs::write(path, bytes).unwrap();
}

fn read(path: &PathBuf) -> Vec<f64> {
    let bytes = std::fs::read(path).unwrap();
    bytes.as_chunks().0.iter().map(|&value| f64::from_le_bytes(value)).collect()
}
