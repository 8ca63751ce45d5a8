//! The program that libFuzzer drives: `rig-fuzz TARGET`, and libFuzzer's own arguments. `cargo xtask fuzz` builds it.

#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
mod driver {
    use std::ffi::{CString, c_char, c_int};
    use std::process::exit;
    use std::sync::OnceLock;

    use rig_fuzz::heap::Heap;
    use rig_fuzz::{TARGETS, Target};

    #[global_allocator]
    static ALLOCATOR: Heap = Heap;

    /// The target that this process fuzzes.
    static TARGET: OnceLock<Target> = OnceLock::new();

    #[expect(unsafe_code, reason = "libFuzzer is a library of C")]
    unsafe extern "C" {
        /// libFuzzer's main function (compiler-rt, FuzzerInterface.h): it takes the arguments over and calls `one` with inputs.
        fn LLVMFuzzerRunDriver(
            count: *mut c_int,
            arguments: *mut *mut *mut c_char,
            one: extern "C" fn(*const u8, usize) -> c_int,
        ) -> c_int;
    }

    /// One input. A panic prints its place, and the process ends by the signal that libFuzzer keeps the input at: no panic may
    /// leave an extern "C" function.
    extern "C" fn one(bytes: *const u8, len: usize) -> c_int {
        let bytes = match len {
            0 => &[],
            // SAFETY: libFuzzer hands `len` bytes, which stay as they are until this returns.
            #[expect(unsafe_code, reason = "the bytes come as an address and a length")]
            _ => unsafe { std::slice::from_raw_parts(bytes, len) },
        };
        if let Some(target) = TARGET.get() {
            target.check(bytes);
        }
        0
    }

    /// Fuzzes the target that the first argument names.
    pub fn run() -> ! {
        let mut arguments = std::env::args();
        let program = arguments.next().unwrap_or_default();
        let Some(target) = arguments.next().and_then(|name| Target::find(&name)) else {
            // The first column is what a script reads.
            TARGETS.iter().for_each(|target| println!("{} {}", target.name, target.longest));
            exit(2);
        };
        TARGET.get_or_init(|| target);
        let rest: Vec<CString> =
            [program].into_iter().chain(arguments).filter_map(|text| CString::new(text).ok()).collect();
        let mut pointers: Vec<*mut c_char> = rest.iter().map(|text| text.as_ptr().cast_mut()).collect();
        let mut count = pointers.len() as c_int;
        pointers.push(std::ptr::null_mut());
        let mut list = pointers.as_mut_ptr();
        // SAFETY: the arguments are texts that end with a zero byte and stay until the process ends, `count` of them and a null
        // pointer after them, as a main function gets them; libFuzzer writes none of the texts.
        #[expect(unsafe_code, reason = "libFuzzer is a library of C")]
        let code = unsafe { LLVMFuzzerRunDriver(&raw mut count, &raw mut list, one) };
        exit(code)
    }
}

#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
fn main() {
    driver::run()
}

#[cfg(not(all(target_os = "linux", target_arch = "x86_64")))]
fn main() {}
