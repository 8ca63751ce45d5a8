//! Calls on modules and their functions. The unsafe ones owe that the module is alive.

use std::ffi::{CStr, c_void};

use super::abi::{Function, JIT_ERROR_LOG, JIT_ERROR_LOG_BYTES, Module};
use super::{Api, Failure, Result, ok};

/// The most bytes of a compiler's log: enough for the first errors, which matter.
const LOG_BYTES: usize = 16 << 10;

impl Api {
    /// Loads a module in the current context. A failure comes with the compiler's log, which is empty where nothing was
    /// compiled.
    ///
    /// # Safety
    ///
    /// CUDA reads the image to its end, which the image itself states: every range that it names lies inside, and a text
    /// ends with a zero byte.
    pub unsafe fn module_load(&self, image: &[u8]) -> std::result::Result<Module, (Failure, String)> {
        let mut log = vec![0_u8; LOG_BYTES];
        let mut module = Module::NULL;
        let mut options = [JIT_ERROR_LOG, JIT_ERROR_LOG_BYTES];
        // CUDA reads the length from the pointer's own bits.
        let mut values: [*mut c_void; 2] = [log.as_mut_ptr().cast(), std::ptr::without_provenance_mut(LOG_BYTES)];
        let count = options.len() as u32;
        let bytes = image.as_ptr().cast();
        // SAFETY: the options and values are as many as is said, the log has the bytes that it is said to have, and the
        // image is the caller's promise.
        let code = unsafe {
            (self.table.module_load)(&raw mut module, bytes, count, options.as_mut_ptr(), values.as_mut_ptr())
        };
        ok("cuModuleLoadDataEx", code).map_err(|failure| (failure, text_of(&log)))?;
        Ok(module)
    }

    /// Unloads a module; no work runs its code.
    pub unsafe fn module_unload(&self, module: Module) -> Result<()> {
        // SAFETY: the caller's promise.
        ok("cuModuleUnload", unsafe { (self.table.module_unload)(module) })
    }

    /// The function of a name.
    pub unsafe fn module_function(&self, module: Module, name: &CStr) -> Result<Function> {
        let mut function = Function::NULL;
        // SAFETY: the call writes one handle; the module is the caller's promise.
        ok("cuModuleGetFunction", unsafe { (self.table.module_function)(&raw mut function, module, name.as_ptr()) })?;
        Ok(function)
    }

    /// The names of the module's functions.
    pub unsafe fn module_names(&self, module: Module) -> Result<Vec<String>> {
        let mut count = 0;
        // SAFETY: the call writes one number; the module is the caller's promise.
        ok("cuModuleGetFunctionCount", unsafe { (self.table.module_count)(&raw mut count, module) })?;
        let mut functions = vec![Function::NULL; count as usize];
        // SAFETY: the call writes at most as many handles as there are; the module is the caller's promise.
        let code = unsafe { (self.table.module_functions)(functions.as_mut_ptr(), count, module) };
        ok("cuModuleEnumerateFunctions", code)?;
        functions.into_iter().map(|function| self.function_name(function)).collect()
    }

    fn function_name(&self, function: Function) -> Result<String> {
        let mut name = std::ptr::null();
        // SAFETY: the call writes one pointer; the function is of a module that is alive.
        ok("cuFuncGetName", unsafe { (self.table.function_name)(&raw mut name, function) })?;
        if name.is_null() {
            return Ok(String::new());
        }
        // SAFETY: CUDA's names end with a zero byte and live as long as their module.
        Ok(unsafe { CStr::from_ptr(name) }.to_string_lossy().into_owned())
    }

    /// Brings a function's code to the GPU, where CUDA would otherwise do so at the first launch.
    pub unsafe fn function_load(&self, function: Function) -> Result<()> {
        // SAFETY: the caller's promise.
        ok("cuFuncLoad", unsafe { (self.table.function_load)(function) })
    }

    /// The bytes of the function's parameters.
    pub unsafe fn function_params(&self, function: Function) -> usize {
        let mut end = 0;
        for index in 0.. {
            let (mut at, mut len) = (0, 0);
            // SAFETY: the call writes two numbers; the function is the caller's promise.
            let code = unsafe { (self.table.function_param)(function, index, &raw mut at, &raw mut len) };
            // CUDA answers that there is no parameter of this index.
            if ok("cuFuncGetParamInfo", code).is_err() {
                break;
            }
            end = at + len;
        }
        end
    }

    /// What the function has of one of [`function_attribute`](super::abi::function_attribute).
    pub unsafe fn function_attribute(&self, function: Function, attribute: i32) -> Result<i32> {
        let mut value = 0;
        // SAFETY: the call writes one number; the function is the caller's promise.
        let code = unsafe { (self.table.function_attribute)(&raw mut value, attribute, function) };
        ok("cuFuncGetAttribute", code)?;
        Ok(value)
    }

    /// Sets one of [`function_attribute`](super::abi::function_attribute).
    pub unsafe fn function_set(&self, function: Function, attribute: i32, value: i32) -> Result<()> {
        // SAFETY: the caller's promise.
        ok("cuFuncSetAttribute", unsafe { (self.table.function_set)(function, attribute, value) })
    }
}

/// The text up to the first zero byte.
fn text_of(log: &[u8]) -> String {
    let end = log.iter().position(|&byte| byte == 0).unwrap_or(log.len());
    String::from_utf8_lossy(&log[..end]).trim().to_owned()
}
