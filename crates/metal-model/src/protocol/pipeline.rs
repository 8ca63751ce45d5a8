//! Code: libraries, functions, pipelines, and what a pipeline's arguments are.

use objc2::{
    extern_protocol,
    rc::Retained,
    runtime::{NSObjectProtocol, ProtocolObject},
};
use objc2_foundation::{NSArray, NSDictionary, NSError, NSString, NSUInteger};

use super::{
    MTLAllocation, MTLBindingAccess, MTLBindingType, MTLComputePipelineReflection, MTLDataType, MTLDevice,
    MTLFunctionConstant, MTLFunctionConstantValues, MTLFunctionType, MTLLibraryType, MTLPointerType, MTLStructType,
};

extern_protocol!(
    pub unsafe trait MTLLibrary: NSObjectProtocol + Send + Sync {
        #[unsafe(method(label))]
        fn label(&self) -> Option<Retained<NSString>>;

        #[unsafe(method(setLabel:))]
        fn setLabel(&self, label: Option<&NSString>);

        #[unsafe(method(device))]
        fn device(&self) -> Retained<ProtocolObject<dyn MTLDevice>>;

        #[unsafe(method(newFunctionWithName:))]
        fn newFunctionWithName(&self, function_name: &NSString) -> Option<Retained<ProtocolObject<dyn MTLFunction>>>;

        #[unsafe(method(newFunctionWithName:constantValues:error:_))]
        fn newFunctionWithName_constantValues_error(
            &self,
            name: &NSString,
            constant_values: &MTLFunctionConstantValues,
        ) -> Result<Retained<ProtocolObject<dyn MTLFunction>>, Retained<NSError>>;

        #[unsafe(method(functionNames))]
        fn functionNames(&self) -> Retained<NSArray<NSString>>;

        #[unsafe(method(type))]
        fn r#type(&self) -> MTLLibraryType;

        #[unsafe(method(installName))]
        fn installName(&self) -> Option<Retained<NSString>>;
    }
);

extern_protocol!(
    pub unsafe trait MTLFunction: NSObjectProtocol + Send + Sync {
        #[unsafe(method(label))]
        fn label(&self) -> Option<Retained<NSString>>;

        #[unsafe(method(setLabel:))]
        fn setLabel(&self, label: Option<&NSString>);

        #[unsafe(method(device))]
        fn device(&self) -> Retained<ProtocolObject<dyn MTLDevice>>;

        #[unsafe(method(functionType))]
        fn functionType(&self) -> MTLFunctionType;

        #[unsafe(method(name))]
        fn name(&self) -> Retained<NSString>;

        #[unsafe(method(functionConstantsDictionary))]
        fn functionConstantsDictionary(&self) -> Retained<NSDictionary<NSString, MTLFunctionConstant>>;
    }
);

extern_protocol!(
    pub unsafe trait MTLComputePipelineState: MTLAllocation + NSObjectProtocol + Send + Sync {
        #[unsafe(method(label))]
        fn label(&self) -> Option<Retained<NSString>>;

        #[unsafe(method(reflection))]
        fn reflection(&self) -> Option<Retained<MTLComputePipelineReflection>>;

        #[unsafe(method(device))]
        fn device(&self) -> Retained<ProtocolObject<dyn MTLDevice>>;

        #[unsafe(method(maxTotalThreadsPerThreadgroup))]
        fn maxTotalThreadsPerThreadgroup(&self) -> NSUInteger;

        #[unsafe(method(threadExecutionWidth))]
        fn threadExecutionWidth(&self) -> NSUInteger;

        #[unsafe(method(staticThreadgroupMemoryLength))]
        fn staticThreadgroupMemoryLength(&self) -> NSUInteger;

        #[unsafe(method(supportIndirectCommandBuffers))]
        fn supportIndirectCommandBuffers(&self) -> bool;
    }
);

extern_protocol!(
    pub unsafe trait MTLBinding: NSObjectProtocol + Send + Sync {
        #[unsafe(method(name))]
        fn name(&self) -> Retained<NSString>;

        #[unsafe(method(type))]
        fn r#type(&self) -> MTLBindingType;

        #[unsafe(method(access))]
        fn access(&self) -> MTLBindingAccess;

        #[unsafe(method(index))]
        fn index(&self) -> NSUInteger;

        #[unsafe(method(isUsed))]
        fn isUsed(&self) -> bool;

        #[unsafe(method(isArgument))]
        fn isArgument(&self) -> bool;
    }
);

extern_protocol!(
    pub unsafe trait MTLBufferBinding: MTLBinding {
        #[unsafe(method(bufferAlignment))]
        fn bufferAlignment(&self) -> NSUInteger;

        #[unsafe(method(bufferDataSize))]
        fn bufferDataSize(&self) -> NSUInteger;

        #[unsafe(method(bufferDataType))]
        fn bufferDataType(&self) -> MTLDataType;

        #[unsafe(method(bufferStructType))]
        fn bufferStructType(&self) -> Option<Retained<MTLStructType>>;

        #[unsafe(method(bufferPointerType))]
        fn bufferPointerType(&self) -> Option<Retained<MTLPointerType>>;
    }
);

extern_protocol!(
    pub unsafe trait MTLThreadgroupBinding: MTLBinding {
        #[unsafe(method(threadgroupMemoryAlignment))]
        fn threadgroupMemoryAlignment(&self) -> NSUInteger;

        #[unsafe(method(threadgroupMemoryDataSize))]
        fn threadgroupMemoryDataSize(&self) -> NSUInteger;
    }
);
