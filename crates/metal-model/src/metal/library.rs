//! Libraries, and their functions.

use std::sync::Arc;

use dispatch2::{DispatchData, DispatchObject, DispatchRetained};
use objc2::{
    DefinedClass, define_class,
    rc::Retained,
    runtime::{NSObject, NSObjectProtocol, ProtocolObject},
};
use objc2_foundation::{NSArray, NSDictionary, NSError, NSString};
use parking_lot::Mutex;

use super::{
    MTLFunctionConstant, MTLFunctionConstantValues, again, bindings, constants, create, descriptors::ConstantFacts,
    device::Device, errors,
};
use crate::{
    container::{self, FunctionKind},
    kernel::{self, CompileError, Constants},
    machine::{Machine, What},
    protocol::{MTLDevice, MTLFunction, MTLFunctionType, MTLLibrary, MTLLibraryError, MTLLibraryType},
    runtime::dispatch,
};

/// What a library's object holds.
pub(crate) struct LibraryVariables {
    source: container::Library,
    device: Retained<Device>,
    label: Mutex<Option<String>>,
}

define_class!(
    // SAFETY: NSObject asks nothing of subclasses, and the class has no Drop of its own.
    #[unsafe(super(NSObject))]
    #[name = "RigModelLibrary"]
    #[ivars = LibraryVariables]
    pub(crate) struct Library;

    unsafe impl NSObjectProtocol for Library {}

    unsafe impl MTLLibrary for Library {
        #[unsafe(method_id(label))]
        fn label(&self) -> Option<Retained<NSString>> {
            self.ivars().label.lock().as_deref().map(NSString::from_str)
        }

        #[unsafe(method(setLabel:))]
        fn set_label(&self, label: Option<&NSString>) {
            *self.ivars().label.lock() = label.map(ToString::to_string);
        }

        #[unsafe(method_id(device))]
        fn device(&self) -> Retained<ProtocolObject<dyn MTLDevice>> {
            ProtocolObject::from_retained(self.ivars().device.clone())
        }

        #[unsafe(method_id(newFunctionWithName:))]
        fn new_function(&self, name: &NSString) -> Option<Retained<ProtocolObject<dyn MTLFunction>>> {
            let permitted = self.machine().permits(What::Function);
            let function = self.function(&name.to_string(), Constants::default());
            function.filter(|_| permitted)
        }

        #[unsafe(method_id(newFunctionWithName:constantValues:error:))]
        fn new_function_with_constants(
            &self,
            name: &NSString,
            values: &MTLFunctionConstantValues,
            error: *mut *mut NSError,
        ) -> Option<Retained<ProtocolObject<dyn MTLFunction>>> {
            let permitted = self.machine().permits(What::Function);
            let name = name.to_string();
            let function = constants::of(values.ivars()).and_then(|constants| {
                let function = self.function(&name, constants).filter(|_| permitted);
                function
                    .ok_or_else(|| (MTLLibraryError::FunctionNotFound, format!("the library has no function {name}")))
            });
            function
                .map_err(|(code, why)| {
                    // SAFETY: the message's place for an error.
                    unsafe { errors::put(error, errors::library(code, &why)) };
                })
                .ok()
        }

        #[unsafe(method_id(functionNames))]
        fn function_names(&self) -> Retained<NSArray<NSString>> {
            let names: Vec<_> = self.ivars().source.names().map(NSString::from_str).collect();
            NSArray::from_retained_slice(&names)
        }

        #[unsafe(method(type))]
        fn library_type(&self) -> MTLLibraryType {
            MTLLibraryType::Executable
        }

        #[unsafe(method_id(installName))]
        fn install_name(&self) -> Option<Retained<NSString>> {
            None
        }
    }
);

impl Library {
    fn machine(&self) -> &Machine {
        self.ivars().device.machine()
    }

    fn function(&self, name: &str, constants: Constants) -> Option<Retained<ProtocolObject<dyn MTLFunction>>> {
        let variables = self.ivars();
        let kind = variables.source.kind(name)?;
        let variables = FunctionVariables {
            facts: Arc::new(FunctionFacts { source: variables.source.clone(), name: name.to_owned(), kind, constants }),
            device: variables.device.clone(),
            label: Mutex::new(None),
        };
        Some(ProtocolObject::from_retained(create!(Function, self.machine(), variables)))
    }
}

/// What a function is.
pub(crate) struct FunctionFacts {
    pub(crate) source: container::Library,
    pub(crate) name: String,
    pub(crate) kind: FunctionKind,
    pub(crate) constants: Constants,
}

/// What a function's object holds.
pub(crate) struct FunctionVariables {
    facts: Arc<FunctionFacts>,
    device: Retained<Device>,
    label: Mutex<Option<String>>,
}

define_class!(
    // SAFETY: NSObject asks nothing of subclasses, and the class has no Drop of its own.
    #[unsafe(super(NSObject))]
    #[name = "RigModelFunction"]
    #[ivars = FunctionVariables]
    pub(crate) struct Function;

    unsafe impl NSObjectProtocol for Function {}

    unsafe impl MTLFunction for Function {
        #[unsafe(method_id(label))]
        fn label(&self) -> Option<Retained<NSString>> {
            self.ivars().label.lock().as_deref().map(NSString::from_str)
        }

        #[unsafe(method(setLabel:))]
        fn set_label(&self, label: Option<&NSString>) {
            *self.ivars().label.lock() = label.map(ToString::to_string);
        }

        #[unsafe(method_id(device))]
        fn device(&self) -> Retained<ProtocolObject<dyn MTLDevice>> {
            ProtocolObject::from_retained(self.ivars().device.clone())
        }

        #[unsafe(method(functionType))]
        fn function_type(&self) -> MTLFunctionType {
            match self.ivars().facts.kind {
                FunctionKind::Vertex => MTLFunctionType::Vertex,
                FunctionKind::Fragment => MTLFunctionType::Fragment,
                FunctionKind::Kernel => MTLFunctionType::Kernel,
                FunctionKind::Visible => MTLFunctionType::Visible,
                FunctionKind::Intersection => MTLFunctionType::Intersection,
                FunctionKind::Mesh => MTLFunctionType::Mesh,
                FunctionKind::Object => MTLFunctionType::Object,
                FunctionKind::Other(kind) => MTLFunctionType(kind.into()),
            }
        }

        #[unsafe(method_id(name))]
        fn name(&self) -> Retained<NSString> {
            NSString::from_str(&self.ivars().facts.name)
        }

        #[unsafe(method_id(functionConstantsDictionary))]
        fn constants(&self) -> Retained<NSDictionary<NSString, MTLFunctionConstant>> {
            let facts = &self.ivars().facts;
            let constants =
                kernel::reflect(&facts.source, &facts.name).map(|reflection| reflection.constants).unwrap_or_default();
            let machine = self.device_object().machine();
            let names: Vec<_> = constants.iter().map(|constant| NSString::from_str(&constant.name)).collect();
            let objects: Vec<_> = constants
                .iter()
                .map(|constant| {
                    let facts = ConstantFacts {
                        name: constant.name.clone(),
                        data_type: bindings::data_type(&constant.type_name),
                        index: constant.index as usize,
                        required: constant.required,
                    };
                    create!(MTLFunctionConstant, machine, facts)
                })
                .collect();
            let names: Vec<&NSString> = names.iter().map(|name| &**name).collect();
            NSDictionary::from_retained_objects(&names, &objects)
        }
    }
);

impl Function {
    pub(crate) fn facts(&self) -> &Arc<FunctionFacts> {
        &self.ivars().facts
    }

    pub(crate) fn device_object(&self) -> &Device {
        &self.ivars().device
    }
}

/// Dispatch data, kept for its bytes: a library is read where it lies.
struct Data(DispatchRetained<DispatchData>);

// SAFETY: the bytes of dispatch data never change, and a program hands Metal data whose destructor may run on any thread.
unsafe impl Send for Data {}
// SAFETY: as above.
unsafe impl Sync for Data {}

impl AsRef<[u8]> for Data {
    fn as_ref(&self) -> &[u8] {
        dispatch::bytes(&self.0)
    }
}

/// The object of a library in these bytes.
pub(crate) fn open(
    device: &Device,
    data: &DispatchData,
) -> Result<Retained<ProtocolObject<dyn MTLLibrary>>, Retained<NSError>> {
    if !device.machine().permits(What::Library) {
        return Err(errors::library(MTLLibraryError::Internal, "the library is refused"));
    }
    let library = container::Library::open(Arc::new(Data(data.retain())))
        .map_err(|why| errors::library(MTLLibraryError::Unsupported, &format!("the data is no library: {why}")))?;
    let variables = LibraryVariables { source: library, device: again(device), label: Mutex::new(None) };
    Ok(ProtocolObject::from_retained(create!(Library, device.machine(), variables)))
}

/// Metal's error of what the compiler says.
pub(crate) fn refused(why: &CompileError) -> Retained<NSError> {
    let code = match why {
        CompileError::Absent(_) => MTLLibraryError::FunctionNotFound,
        CompileError::Unsupported { .. } => MTLLibraryError::Unsupported,
        CompileError::Compiler { .. } => MTLLibraryError::Internal,
        _ => MTLLibraryError::CompileFailure,
    };
    errors::library(code, &why.to_string())
}
