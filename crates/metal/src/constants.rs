//! Function constants in a function's name.
//!
//! A Metal function may be compiled for values of its function constants. An image resolves functions by name alone, so the
//! values stand in the name: `gemm{align_M=true, 10=3u32, 11=1.5f32}`. Each constant is named as in the source, or by its
//! index; its value is a literal as Rust writes it, with the type as its suffix. Spaces are free. Each spelling is a function
//! of its own.
//!
//! Pure: [`parse`] makes values of a name; `code.rs` hands them to Metal.

/// A function's name, taken apart.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Spelling<'a> {
    /// The name in the library.
    pub function: &'a str,
    /// The constants, in the order in which they were written.
    pub constants: Vec<(Key<'a>, Value)>,
}

/// Which constant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Key<'a> {
    Index(u16),
    Name(&'a str),
}

/// A value, with Metal's name of its type and its bytes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Value {
    Bool(bool),
    I8(i8),
    U8(u8),
    I16(i16),
    U16(u16),
    I32(i32),
    U32(u32),
    I64(i64),
    U64(u64),
    /// A half, by its bits.
    F16(u16),
    F32(f32),
}

/// The types that a literal may have, for errors.
const TYPES: &str = "i8, u8, i16, u16, i32, u32, i64, u64, f16 or f32";

impl std::fmt::Display for Key<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Key::Index(index) => write!(f, "{index}"),
            Key::Name(name) => f.write_str(name),
        }
    }
}

/// Takes a name apart, or says what is wrong with it.
pub(crate) fn parse(name: &str) -> Result<Spelling<'_>, String> {
    let Some((function, rest)) = name.split_once('{') else {
        return Ok(Spelling { function: name, constants: Vec::new() });
    };
    let wrong = |why: String| {
        format!("{name:?} is not a name with function constants, as in name{{first=true, 3=1u32}}: {why}")
    };
    let list = rest.trim_end().strip_suffix('}').ok_or_else(|| wrong("it does not end with }".into()))?;
    let mut constants: Vec<(Key<'_>, Value)> = Vec::new();
    // A comma after the last one is free, and so are no constants at all.
    let list = list.trim();
    let list = if list == "," { list } else { list.strip_suffix(',').unwrap_or(list) };
    for item in list.split(',').map(str::trim).filter(|_| !list.is_empty()) {
        let (key, value) = constant(item).map_err(wrong)?;
        if constants.iter().any(|(other, _)| *other == key) {
            return Err(wrong(format!("{key} has two values")));
        }
        constants.push((key, value));
    }
    Ok(Spelling { function: function.trim(), constants })
}

fn constant(item: &str) -> Result<(Key<'_>, Value), String> {
    let (key, value) = item.split_once('=').ok_or_else(|| format!("{item:?} is not a constant and its value"))?;
    let (key, value) = (key.trim_end(), value.trim_start());
    let is_name = |key: &str| {
        key.starts_with(|c: char| c.is_alphabetic() || c == '_')
            && key.chars().all(|c| c.is_alphanumeric() || "_:".contains(c))
    };
    let key = match key.parse() {
        Ok(index) => Key::Index(index),
        Err(_) if is_name(key) => Key::Name(key),
        Err(_) => return Err(format!("{key:?} is no name and no index from 0 to 65535")),
    };
    literal(value).map(|value| (key, value)).map_err(|why| format!("the value of {key}, {value:?}, {why}"))
}

/// A literal with a suffix.
fn literal(text: &str) -> Result<Value, String> {
    match text {
        "true" => return Ok(Value::Bool(true)),
        "false" => return Ok(Value::Bool(false)),
        _ => {}
    }
    // A hexadecimal number may end as a float's suffix does: those of whole numbers are looked for alone then.
    let hex = text.trim_start_matches('-').starts_with("0x");
    let suffixes = ["i8", "u8", "i16", "u16", "i32", "u32", "i64", "u64", "f16", "f32"];
    let found = suffixes.iter().filter(|suffix| !(hex && suffix.starts_with('f')));
    let Some((digits, suffix)) = found.filter_map(|&suffix| Some((text.strip_suffix(suffix)?, suffix))).next() else {
        return Err(format!("needs its type as a suffix: {TYPES}"));
    };
    let digits = digits.replace('_', "");
    if suffix.starts_with('f') {
        return float(&digits, suffix).ok_or_else(|| format!("is no {suffix}"));
    }
    let whole = whole(&digits).ok_or("is no whole number")?;
    integer(whole, suffix).ok_or_else(|| format!("is out of the range of {suffix}"))
}

fn whole(digits: &str) -> Option<i128> {
    let (negative, digits) = digits.strip_prefix('-').map_or((false, digits), |digits| (true, digits));
    let (radix, digits) = match digits.get(..2) {
        Some("0x") => (16, &digits[2..]),
        Some("0o") => (8, &digits[2..]),
        Some("0b") => (2, &digits[2..]),
        _ => (10, digits),
    };
    // A second sign is no digit.
    let first = digits.chars().next()?;
    let number = if first.is_digit(radix) { i128::from_str_radix(digits, radix).ok()? } else { return None };
    Some(if negative { -number } else { number })
}

fn integer(whole: i128, suffix: &str) -> Option<Value> {
    Some(match suffix {
        "i8" => Value::I8(whole.try_into().ok()?),
        "u8" => Value::U8(whole.try_into().ok()?),
        "i16" => Value::I16(whole.try_into().ok()?),
        "u16" => Value::U16(whole.try_into().ok()?),
        "i32" => Value::I32(whole.try_into().ok()?),
        "u32" => Value::U32(whole.try_into().ok()?),
        "i64" => Value::I64(whole.try_into().ok()?),
        _ => Value::U64(whole.try_into().ok()?),
    })
}

fn float(digits: &str, suffix: &str) -> Option<Value> {
    // As Rust writes numbers: infinities and the like are no literals.
    if !digits.chars().all(|c| c.is_ascii_digit() || "+-.eE".contains(c)) {
        return None;
    }
    Some(if suffix == "f32" { Value::F32(digits.parse().ok()?) } else { Value::F16(half(digits.parse().ok()?)) })
}

/// The bits of the half nearest to a number, to even where two are as near.
fn half(number: f64) -> u16 {
    let (sign, number) = (u16::from(number.is_sign_negative()) << 15, number.abs());
    if number >= 65520.0 {
        return sign | 0x7c00;
    }
    // The distance of halves at the number: 2^-24 below the least normal half, 2^-14.
    let exponent = if number < 2f64.powi(-14) { -14 } else { (number.to_bits() >> 52) as i32 - 1023 };
    let steps = (number / 2f64.powi(exponent - 10)).round_ties_even() as u16;
    // A mantissa that rounds up carries into the exponent, whose field is one less where the leading bit is counted too.
    sign | (((exponent + 14) as u16) << 10).wrapping_add(steps)
}

impl Value {
    /// The type, as Rust names it.
    pub fn type_name(self) -> &'static str {
        match self {
            Value::Bool(_) => "bool",
            Value::I8(_) => "i8",
            Value::U8(_) => "u8",
            Value::I16(_) => "i16",
            Value::U16(_) => "u16",
            Value::I32(_) => "i32",
            Value::U32(_) => "u32",
            Value::I64(_) => "i64",
            Value::U64(_) => "u64",
            Value::F16(_) => "f16",
            Value::F32(_) => "f32",
        }
    }

    /// The bytes, as many as the type has, and zeros after them.
    pub fn bytes(self) -> [u8; 8] {
        fn padded<const N: usize>(bytes: [u8; N]) -> [u8; 8] {
            let mut all = [0; 8];
            all[..N].copy_from_slice(&bytes);
            all
        }
        match self {
            Value::Bool(value) => padded([u8::from(value)]),
            Value::I8(value) => padded(value.to_ne_bytes()),
            Value::U8(value) => padded(value.to_ne_bytes()),
            Value::I16(value) => padded(value.to_ne_bytes()),
            Value::U16(value) | Value::F16(value) => padded(value.to_ne_bytes()),
            Value::I32(value) => padded(value.to_ne_bytes()),
            Value::U32(value) => padded(value.to_ne_bytes()),
            Value::I64(value) => padded(value.to_ne_bytes()),
            Value::U64(value) => padded(value.to_ne_bytes()),
            Value::F32(value) => padded(value.to_ne_bytes()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_values_are_taken_apart() {
        let spelling = parse("gemm{align_M=true, 10=3u32, 11=1.5f32}").unwrap();
        assert_eq!(spelling.function, "gemm");
        assert_eq!(
            spelling.constants,
            [
                (Key::Name("align_M"), Value::Bool(true)),
                (Key::Index(10), Value::U32(3)),
                (Key::Index(11), Value::F32(1.5))
            ]
        );
        let of = |text: &str| parse(text).unwrap().constants.iter().map(|&(_, value)| value).collect::<Vec<_>>();
        assert_eq!(parse("plain").unwrap(), Spelling { function: "plain", constants: vec![] });
        assert_eq!(parse("none{}").unwrap(), Spelling { function: "none", constants: vec![] });
        assert_eq!(
            of(" f { a = -1_000i32 , b=0xffu8,c=0b101u64,d=-0x80i8, } "),
            [Value::I32(-1000), Value::U8(255), Value::U64(5), Value::I8(-128)]
        );
        assert_eq!(
            of("f{a=0o17i16,b=65535u16,c=-1i64,d=1e3f32,e=false}"),
            [Value::I16(15), Value::U16(65535), Value::I64(-1), Value::F32(1000.0), Value::Bool(false)]
        );
        assert_eq!(of("f{a=0x1f32u32}"), [Value::U32(0x1f32)], "digits are no suffix");
        assert_eq!(parse("ns::f{ns::a=1u8}").unwrap().constants[0].0, Key::Name("ns::a"));
    }

    #[test]
    fn a_bad_name_says_what_is_wrong_with_it() {
        for (name, part) in [
            ("f{", "end with }"),
            ("f{a=1u32", "end with }"),
            ("f{a}", "\"a\""),
            ("f{a=1}", "suffix"),
            ("f{a=yes}", "suffix"),
            ("f{a=256u8}", "range of u8"),
            ("f{a=-1u32}", "range of u32"),
            ("f{a=--1i32}", "whole number"),
            ("f{a=u32}", "whole number"),
            ("f{a=1.5i32}", "whole number"),
            ("f{a=inff32}", "no f32"),
            ("f{a=1.2.3f32}", "no f32"),
            ("f{a=f16}", "no f16"),
            ("f{a=1u32,a=2u32}", "two values"),
            ("f{3=1u32, 3=2u32}", "two values"),
            ("f{a=1u32,,b=2u32}", "\"\""),
            ("f{,}", "\"\""),
            ("f{a b=1u32}", "no name"),
            ("f{99999=1u32}", "no index"),
            ("f{=1u32}", "no name"),
        ] {
            let why = parse(name).unwrap_err();
            assert!(why.contains(part) && why.contains(&format!("{name:?}")), "{name}: {why}");
        }
    }

    #[test]
    fn halves_are_the_nearest_ones() {
        for (number, bits) in [
            (0.0, 0),
            (-0.0, 0x8000),
            (1.0, 0x3c00),
            (-2.0, 0xc000),
            (1.5, 0x3e00),
            (65504.0, 0x7bff),
            (65519.9, 0x7bff),
            (65520.0, 0x7c00),
            (1.0 + 1.0 / 2048.0, 0x3c00),
            (1.0 + 3.0 / 2048.0, 0x3c02),
            (2048.0 - 0.1, 0x6800),
            (6.0e-8, 1),
            (2f64.powi(-14), 0x0400),
            (2f64.powi(-14) - 2f64.powi(-26), 0x0400),
            (2f64.powi(-15), 0x0200),
            (1e-9, 0),
        ] {
            assert_eq!(half(number), bits, "{number}");
        }
    }
}
