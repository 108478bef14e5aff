//! Sizes on the command line.

/// In bytes.
pub fn size(text: &str) -> Result<u64, String> {
    let wrong = || "expected a number and MiB, GiB or TiB, such as 8 GiB".to_string();
    let digits = text.chars().take_while(char::is_ascii_digit).count();
    let (number, unit) = text.split_at(digits);
    let number: u64 = number.parse().map_err(|_| wrong())?;
    let shift = match unit.trim() {
        "M" | "MiB" => 20,
        "G" | "GiB" => 30,
        "T" | "TiB" => 40,
        _ => return Err(wrong()),
    };
    number.checked_mul(1 << shift).filter(|bytes| *bytes > 0).ok_or_else(wrong)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_read_with_their_unit() {
        assert_eq!(size("8 GiB"), Ok(8 << 30));
        assert_eq!(size("512M"), Ok(512 << 20));
        for wrong in ["", "8", "GiB", "0G", "-1G", "99999999999999999999G", "18446744073709551615T", "8 GB"] {
            assert!(size(wrong).is_err(), "{wrong}");
        }
    }
}
