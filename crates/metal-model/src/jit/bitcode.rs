//! Modules as libraries hold them: assembled from text, read back after their hash was compared.

use sha2::{Digest, Sha256};

use super::guard::guarded;
use super::llvm::{Context, Module};
use crate::container::{FunctionKind, Library};
use crate::kernel::CompileError;

/// Assembles the text of a function's module: what the function is, and the bitcode.
pub(crate) fn assemble(name: &str, text: &str) -> Result<(FunctionKind, Vec<u8>), String> {
    guarded(|| {
        let context = Context::new();
        let module = context.parse_text(text)?;
        module.verify()?;
        if module.function(name).is_none_or(|function| function.is_declaration()) {
            return Err(format!("the text defines no function {name}"));
        }
        let listed = |list: &str| {
            let nodes = module.named_metadata(list);
            nodes.iter().any(|node| {
                let function = node.metadata_operands().and_then(|operands| operands.first().copied().flatten());
                function.is_some_and(|function| function.name() == name)
            })
        };
        let kinds = [
            ("air.kernel", FunctionKind::Kernel),
            ("air.vertex", FunctionKind::Vertex),
            ("air.fragment", FunctionKind::Fragment),
            ("air.visible", FunctionKind::Visible),
            ("air.intersection", FunctionKind::Intersection),
            ("air.mesh", FunctionKind::Mesh),
            ("air.object", FunctionKind::Object),
        ];
        let kind = kinds.into_iter().find(|(list, _)| listed(list));
        let (_, kind) = kind.ok_or_else(|| format!("no list such as !air.kernel names {name}"))?;
        Ok((kind, module.bitcode()))
    })
    .flatten()
}

/// The module of a kernel of a library, after its bytes were compared with the hash that the library states.
pub(crate) fn module<'c>(context: &'c Context, library: &Library, name: &str) -> Result<Module<'c>, CompileError> {
    let absent = || CompileError::Absent(name.to_owned());
    let kind = library.kind(name).ok_or_else(absent)?;
    if kind != FunctionKind::Kernel {
        return Err(CompileError::NotKernel { name: name.to_owned(), kind });
    }
    let damaged = |why: String| CompileError::Damaged { name: name.to_owned(), why };
    let bytes = library.bitcode(name).ok_or_else(|| damaged("it lies past the library's end".to_owned()))?;
    let Some(hash) = library.hash(name) else { return Err(damaged("the library states no hash of it".to_owned())) };
    if *Sha256::digest(bytes) != hash {
        return Err(damaged("it is not what the library's hash says".to_owned()));
    }
    context.parse_bitcode(bytes).map_err(damaged)
}
