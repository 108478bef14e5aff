//! Quoting of arguments: ssh passes a single string to the remote shell.

/// One argument, quoted for a POSIX shell.
pub fn quote(argument: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_./:=,@%+".contains(c);
    if !argument.is_empty() && argument.chars().all(plain) {
        return argument.to_string();
    }
    format!("'{}'", argument.replace('\'', r"'\''"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_shell_gives_back_what_was_quoted() {
        for text in ["plain", "", "two words", "it's", "$(id)", "a;b|c", "*", "\n", "\\", "`x`", "é"] {
            let out = std::process::Command::new("sh")
                .args(["-c", &format!("printf %s {}", quote(text))])
                .output()
                .unwrap();
            assert_eq!(String::from_utf8(out.stdout).unwrap(), text);
        }
    }
}
