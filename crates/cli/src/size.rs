//! Numbers as the command line takes them: `4096`, `1_000`, `16Mi`; and numbers of bytes as they are shown.

/// The suffixes, each a power of two.
const SUFFIXES: [(&str, u32); 4] = [("Ki", 10), ("Mi", 20), ("Gi", 30), ("Ti", 40)];

/// A whole number: decimal digits with `_` anywhere between them, and perhaps Ki, Mi, Gi or Ti.
pub fn parse(text: &str) -> Result<u64, String> {
    let (digits, shift) = SUFFIXES
        .iter()
        .find_map(|&(suffix, shift)| text.strip_suffix(suffix).map(|digits| (digits, shift)))
        .unwrap_or((text, 0));
    let bad = || format!("{text} is no whole number such as 4096 or 16Mi");
    if !digits.starts_with(|c: char| c.is_ascii_digit()) || !digits.chars().all(|c| c.is_ascii_digit() || c == '_') {
        return Err(bad());
    }
    let large = || format!("{text} is above {}, the most there can be", u64::MAX);
    let number: u64 = digits.replace('_', "").parse().map_err(|_| large())?;
    number.checked_mul(1 << shift).ok_or_else(large)
}

/// A whole number of 32 bits.
pub fn parse_u32(text: &str) -> Result<u32, String> {
    let number = parse(text)?;
    number.try_into().map_err(|_| format!("{text} is above {}, the most there can be", u32::MAX))
}

/// `X`, `X,Y` or `X,Y,Z`; what is not given is 1.
pub fn parse_axes(text: &str) -> Result<[u32; 3], String> {
    let mut axes = [1; 3];
    for (given, part) in text.split(',').enumerate() {
        let Some(axis) = axes.get_mut(given) else {
            return Err(format!("{text} has more than three axes: give X, X,Y or X,Y,Z"));
        };
        *axis = parse_u32(part)?;
    }
    Ok(axes)
}

/// A number of bytes, in the largest binary unit that it has a whole or more of.
pub fn bytes(bytes: u64) -> String {
    const UNITS: [(&str, u32); 4] = [("TiB", 40), ("GiB", 30), ("MiB", 20), ("KiB", 10)];
    match UNITS.iter().find(|&&(_, shift)| bytes >> shift > 0) {
        Some((unit, shift)) if bytes.trailing_zeros() >= *shift => format!("{} {unit}", bytes >> shift),
        Some((unit, shift)) => format!("{:.1} {unit}", bytes as f64 / (1_u64 << shift) as f64),
        None => format!("{bytes} bytes"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn suffixes_are_powers_of_two() {
        assert_eq!(parse("0"), Ok(0));
        assert_eq!(parse("1_000"), Ok(1000));
        assert_eq!(parse("16Mi"), Ok(16 << 20));
        assert_eq!(parse("3Ti"), Ok(3 << 40));
        assert_eq!(parse("18446744073709551615"), Ok(u64::MAX));
    }

    #[test]
    fn what_is_no_whole_number_is_refused_and_named() {
        for text in ["", "Mi", "-1", "+1", "1.5", "16MB", "16 Mi", "_1", "0x10", "1e3"] {
            let why = parse(text).unwrap_err();
            assert!(why.contains(&format!("{text} is no whole number")), "{text}: {why}");
        }
        assert!(parse("18446744073709551616").unwrap_err().contains("above"));
        assert!(parse("16777216Ti").unwrap_err().contains("above"));
        assert!(parse_u32("4Gi").unwrap_err().contains("above 4294967295"));
    }

    #[test]
    fn axes_that_are_not_given_are_one() {
        assert_eq!(parse_axes("7"), Ok([7, 1, 1]));
        assert_eq!(parse_axes("7,8"), Ok([7, 8, 1]));
        assert_eq!(parse_axes("64Ki,0,9"), Ok([65536, 0, 9]));
        assert!(parse_axes("1,2,3,4").unwrap_err().contains("more than three axes"));
        assert!(parse_axes("1,").is_err());
    }

    #[test]
    fn bytes_are_shown_in_their_largest_unit() {
        assert_eq!(bytes(64), "64 bytes");
        assert_eq!(bytes(65_536), "64 KiB");
        assert_eq!(bytes(25_000_000_000), "23.3 GiB");
        assert_eq!(bytes(u64::MAX), "16777216.0 TiB");
    }
}
