//! The program beside numpy: arrays that numpy saved go in, and what comes out is held against numpy's own answer.

use std::process::Command;

use crate::common::{compilers, folder, rig, runs, say};

const SAVE: &str = "
import numpy as np
r = np.random.default_rng(1)
np.save('x.npy', r.standard_normal((1009, 1013), dtype=np.float32))
np.save('y.npy', r.standard_normal((1009, 1013), dtype=np.float32))
np.save('a.npy', r.standard_normal((131, 167), dtype=np.float32))
np.save('b.npy', r.standard_normal((167, 203), dtype=np.float32))
np.save('wide.npy', np.zeros(4))
np.save('turned.npy', np.asfortranarray(np.zeros((2, 3), dtype=np.float32)))
";

const COMPARE: &str = "
import numpy as np
def close(name, got, want, bound):
    off = np.abs(got.astype(np.float64) - want)
    assert (off <= bound).all(), f'{name} is off by {off.max()}'
wide = lambda name: np.load(name).astype(np.float64)
x, y, a, b = map(wide, ['x.npy', 'y.npy', 'a.npy', 'b.npy'])
half = np.finfo(np.float32).eps / 2
close('saxpy', np.load('saxpy.npy').reshape(x.shape), 2.5 * x + y, 1.01 * half * (2 * np.abs(2.5 * x) + np.abs(y)))
e = np.exp(x - x.max(axis=1, keepdims=True))
soft = e / e.sum(axis=1, keepdims=True)
close('softmax', np.load('softmax.npy').reshape(x.shape), soft, 1.01 * half * (x.shape[1] + 45) * soft)
close('matmul', np.load('matmul.npy').reshape(131, 203), a @ b, 1.01 * half * 168 * (np.abs(a) @ np.abs(b)))
";

/// A python3 with numpy: the first on the path may be one without, and the system's one with.
fn python() -> Option<&'static str> {
    ["python3", "/usr/bin/python3"].into_iter().find(|python| runs(Command::new(python).args(["-c", "import numpy"])))
}

fn script(python: &str, folder: &std::path::Path, script: &str) {
    let output = Command::new(python).current_dir(folder).args(["-c", script]).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

#[test]
fn arrays_that_numpy_saved_give_what_numpy_computes() {
    let Some(python) = python() else {
        return say("skipped the comparison with numpy, since there is no python3 with numpy here");
    };
    let folder = folder("numpy");
    script(python, &folder, SAVE);
    for compiler in compilers() {
        let run = |kernel: &str, arguments: &str| {
            let object = compiler.kernel(kernel, compiler.variants[0], &folder);
            let out = format!("--out {kernel}.npy");
            rig(&folder, &format!("run {} {kernel} {arguments} {out}", object.display())).done();
        };
        let n = 1009 * 1013;
        run(
            "saxpy",
            &format!("--grid 1023 --group 1000 --in f32:x.npy --inout f32:y.npy --scalar f32:2.5 --scalar u32:{n}"),
        );
        let rows = format!("--in f32:x.npy --zeros f32:{n} --scalar u32:1009 --scalar u32:1013");
        run("softmax", &format!("--grid 253 --group 4 {rows}"));
        let sides = "--scalar u32:131 --scalar u32:203 --scalar u32:167";
        run(
            "matmul",
            &format!("--grid 7,17 --group 32,8 --in f32:a.npy --in f32:b.npy --zeros f32:{} {sides}", 131 * 203),
        );
        script(python, &folder, COMPARE);
        say(&format!("{} agrees with numpy", compiler.program));
    }
    let object = crate::common::rustc().kernel("saxpy", &["-C", "opt-level=2"], &folder);
    let saxpy = format!("run {} saxpy --grid 1 --zeros f32:4 --scalar f32:1 --scalar u32:4", object.display());
    rig(&folder, &format!("{saxpy} --in f32:wide.npy")).failed(1, &["wide.npy", "<f8", "<f4"]);
    rig(&folder, &format!("{saxpy} --in f32:turned.npy")).failed(1, &["turned.npy", "ascontiguousarray"]);
}
