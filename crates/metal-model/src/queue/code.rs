//! What a library's functions and a pipeline's code are to a queue: compiled kernels, or functions of this process.

use std::{collections::BTreeMap, sync::Arc};

use crate::{
    container::{FunctionKind, Library},
    kernel::{self, CompileError, CompileOptions, Constants, Dispatch, Kernel, Violation},
    metadata::Reflection,
    workers::Workers,
};

/// Code that a dispatch runs.
pub(crate) trait Code: Send + Sync {
    fn reflection(&self) -> &Reflection;

    /// Runs a dispatch to its end.
    fn dispatch(&self, dispatch: &Dispatch<'_>, workers: &Workers) -> Result<(), Violation>;
}

/// Where functions come from.
pub(crate) trait Source: Send + Sync {
    fn names(&self) -> Vec<String>;

    fn kind(&self, name: &str) -> Option<FunctionKind>;

    fn reflect(&self, name: &str) -> Result<Reflection, CompileError>;

    fn compile(
        &self,
        name: &str,
        constants: &Constants,
        options: &CompileOptions,
    ) -> Result<Arc<dyn Code>, CompileError>;
}

impl Code for Kernel {
    fn reflection(&self) -> &Reflection {
        self.reflection()
    }

    fn dispatch(&self, dispatch: &Dispatch<'_>, workers: &Workers) -> Result<(), Violation> {
        self.dispatch(dispatch, workers)
    }
}

impl Source for Library {
    fn names(&self) -> Vec<String> {
        self.names().map(str::to_owned).collect()
    }

    fn kind(&self, name: &str) -> Option<FunctionKind> {
        self.kind(name)
    }

    fn reflect(&self, name: &str) -> Result<Reflection, CompileError> {
        kernel::reflect(self, name)
    }

    fn compile(
        &self,
        name: &str,
        constants: &Constants,
        options: &CompileOptions,
    ) -> Result<Arc<dyn Code>, CompileError> {
        Ok(Arc::new(Kernel::compile(self, name, constants, options)?))
    }
}

/// What a function of this process does in place of a kernel.
type Body = Arc<dyn Fn(&Dispatch<'_>) -> Result<(), Violation> + Send + Sync>;

/// A function of this process that stands for a kernel: what queues do is tested with it, without a compiler.
#[derive(Clone)]
pub(crate) struct Stub {
    pub(crate) reflection: Reflection,
    pub(crate) kind: FunctionKind,
    pub(crate) body: Body,
}

/// Functions of this process, by name.
#[derive(Clone, Default)]
pub(crate) struct Stubs(pub(crate) BTreeMap<String, Stub>);

impl Code for Stub {
    fn reflection(&self) -> &Reflection {
        &self.reflection
    }

    fn dispatch(&self, dispatch: &Dispatch<'_>, _: &Workers) -> Result<(), Violation> {
        (self.body)(dispatch)
    }
}

impl Source for Stubs {
    fn names(&self) -> Vec<String> {
        self.0.keys().cloned().collect()
    }

    fn kind(&self, name: &str) -> Option<FunctionKind> {
        self.0.get(name).map(|stub| stub.kind)
    }

    fn reflect(&self, name: &str) -> Result<Reflection, CompileError> {
        let stub = self.0.get(name).ok_or_else(|| CompileError::Absent(name.to_owned()))?;
        Ok(stub.reflection.clone())
    }

    fn compile(&self, name: &str, _: &Constants, _: &CompileOptions) -> Result<Arc<dyn Code>, CompileError> {
        let stub = self.0.get(name).ok_or_else(|| CompileError::Absent(name.to_owned()))?;
        Ok(Arc::new(stub.clone()))
    }
}
