//! Writes one function of IR text, instruction by instruction, and remembers what the text calls.
//!
//! Invariants: 1. every value has a number of its own, so text appended by different writers of one function never
//! clashes;
//! 2. each function outside that the text calls is noted once, with the declaration to link it by. Threads: one writer,
//!    one thread.

use std::collections::BTreeMap;
use std::fmt::{self, Display, Write};

use super::types::{Scalar, Type};

/// A value of the function being written: a name like `%v7`, or a constant.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Value {
    /// Its type.
    pub(super) ty: Type,
    text: String,
}

impl Value {
    /// A value by its text, of one element.
    pub(super) fn one(scalar: Scalar, text: impl Display) -> Value {
        Value { ty: Type::One(scalar), text: text.to_string() }
    }

    /// A value by its text.
    pub(super) fn new(ty: Type, text: impl Display) -> Value {
        Value { ty, text: text.to_string() }
    }

    /// An `i32` constant.
    pub(super) fn int(value: i64) -> Value {
        Value::one(Scalar::Int(32), value)
    }

    /// A `float` constant. IR writes those as the bits of the double of the same value.
    pub(super) fn float(value: f32) -> Value {
        Value::one(Scalar::Float, format_args!("0x{:016X}", f64::from(value).to_bits()))
    }

    /// The element's type.
    ///
    /// # Panics
    /// If the value is a pointer: those who call have matched the signature.
    pub(super) fn scalar(&self) -> Scalar {
        self.ty.scalar().expect("an arithmetic value has elements")
    }

    /// The type and the name, as an operand is written.
    pub(super) fn typed(&self) -> String {
        format!("{} {}", self.ty, self.text)
    }
}

impl Display for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

/// The text of a function's instructions.
#[derive(Default)]
pub(super) struct Writer {
    text: String,
    next: u32,
    /// The declarations of the functions outside that the text calls, by name.
    pub(super) declares: BTreeMap<&'static str, String>,
}

impl Writer {
    /// The instructions so far.
    pub(super) fn into_text(self) -> String {
        self.text
    }

    /// Adds an instruction without a result.
    pub(super) fn line(&mut self, instruction: impl Display) {
        let _ = writeln!(self.text, "  {instruction}");
    }

    /// Adds an instruction whose result has this type.
    pub(super) fn op(&mut self, ty: Type, instruction: impl Display) -> Value {
        self.next += 1;
        let name = format!("%v{}", self.next);
        self.line(format_args!("{name} = {instruction}"));
        Value::new(ty, name)
    }

    /// An instruction of two operands of one type and a result of the same.
    pub(super) fn binary(&mut self, opcode: &str, a: &Value, b: &Value) -> Value {
        self.op(a.ty, format_args!("{opcode} {}, {b}", a.typed()))
    }

    /// A comparison: `icmp slt` and the like.
    pub(super) fn compare(&mut self, how: &str, a: &Value, b: &Value) -> Value {
        self.op(Type::One(Scalar::Int(1)), format_args!("{how} {}, {b}", a.typed()))
    }

    /// One of two values.
    pub(super) fn select(&mut self, condition: &Value, yes: &Value, no: &Value) -> Value {
        self.op(yes.ty, format_args!("select {}, {}, {}", condition.typed(), yes.typed(), no.typed()))
    }

    /// A conversion by one instruction; none where the types are the same.
    pub(super) fn cast(&mut self, opcode: &str, value: &Value, to: Type) -> Value {
        if value.ty == to {
            return value.clone();
        }
        self.op(to, format_args!("{opcode} {} to {to}", value.typed()))
    }

    /// A call of one of LLVM's own functions, which need no declaration. The name's type suffix is the first
    /// argument's.
    pub(super) fn intrinsic(&mut self, name: &str, arguments: &[&Value]) -> Value {
        let ty = arguments.first().map_or(Type::Void, |value| value.ty);
        let call = format!("@llvm.{name}.{}", suffix(ty));
        self.call_text(ty, &call, arguments)
    }

    /// A call of a function outside; `attributes` tell LLVM what it does not do.
    pub(super) fn call(&mut self, ty: Type, name: &'static str, arguments: &[&Value], attributes: &str) -> Value {
        let parameters: Vec<String> = arguments.iter().map(|value| value.ty.to_string()).collect();
        self.declares.insert(name, format!("declare {ty} @{name}({}) {attributes}", parameters.join(", ")));
        self.call_text(ty, &format!("@{name}"), arguments)
    }

    /// A call by the callee's text.
    pub(super) fn call_text(&mut self, ty: Type, callee: &str, arguments: &[&Value]) -> Value {
        let arguments: Vec<String> = arguments.iter().map(|value| value.typed()).collect();
        let call = format!("call {ty} {callee}({})", arguments.join(", "));
        if ty == Type::Void {
            self.line(call);
            return Value::new(ty, "");
        }
        self.op(ty, call)
    }

    /// One element of a vector; of one element, that itself.
    pub(super) fn element(&mut self, value: &Value, index: u32) -> Value {
        match value.ty {
            Type::Many(_, scalar) => {
                self.op(Type::One(scalar), format_args!("extractelement {}, i32 {index}", value.typed()))
            }
            _ => value.clone(),
        }
    }

    /// A value of type `ty` from its elements.
    pub(super) fn join(&mut self, ty: Type, elements: &[Value]) -> Value {
        let Type::Many(..) = ty else { return elements[0].clone() };
        let mut whole = Value::new(ty, "poison");
        for (index, element) in elements.iter().enumerate() {
            whole = self.op(ty, format_args!("insertelement {}, {}, i32 {index}", whole.typed(), element.typed()));
        }
        whole
    }

    /// A vector's elements, or the one element.
    pub(super) fn elements(&mut self, value: &Value) -> Vec<Value> {
        (0..value.ty.count()).map(|index| self.element(value, index)).collect()
    }

    /// Half and bfloat as float; a float as it is.
    pub(super) fn widen(&mut self, value: &Value) -> Value {
        self.cast("fpext", value, Type::One(Scalar::Float))
    }

    /// A float as the element's type, rounded to the nearest, ties to even.
    pub(super) fn narrow(&mut self, value: &Value, to: Scalar) -> Value {
        self.cast("fptrunc", value, Type::One(to))
    }

    /// A place of so many bytes in the thread's private memory.
    pub(super) fn place(&mut self, bytes: u32, align: u32) -> Value {
        self.op(Type::Pointer(0), format_args!("alloca [{bytes} x i8], align {align}"))
    }

    /// The address `offset` bytes on.
    pub(super) fn offset(&mut self, pointer: &Value, offset: &Value) -> Value {
        self.op(pointer.ty, format_args!("getelementptr i8, {}, {}", pointer.typed(), offset.typed()))
    }

    /// A load that is aligned to its element.
    pub(super) fn load(&mut self, ty: Type, pointer: &Value) -> Value {
        let align = ty.scalar().map_or(8, Scalar::bytes);
        self.op(ty, format_args!("load {ty}, {}, align {align}", pointer.typed()))
    }

    /// A store that is aligned to its element.
    pub(super) fn store(&mut self, value: &Value, pointer: &Value) {
        let align = value.ty.scalar().map_or(8, Scalar::bytes);
        self.line(format_args!("store {}, {}, align {align}", value.typed(), pointer.typed()));
    }
}

/// How LLVM writes a type in the names of its own functions.
fn suffix(ty: Type) -> String {
    let element = |scalar| match scalar {
        Scalar::Int(bits) => format!("i{bits}"),
        Scalar::Half => "f16".to_owned(),
        Scalar::Bfloat => "bf16".to_owned(),
        Scalar::Float => "f32".to_owned(),
    };
    match ty {
        Type::Void => String::new(),
        Type::One(scalar) => element(scalar),
        Type::Many(count, scalar) => format!("v{count}{}", element(scalar)),
        Type::Pointer(space) => format!("p{space}"),
    }
}
