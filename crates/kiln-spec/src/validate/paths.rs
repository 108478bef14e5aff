//! Directories that stand in unit files, in the mount table and in messages.

/// Absolute, without `.`, `..` or a `/` at the end, and without a letter that would have to be quoted.
pub(crate) fn is_plain_directory(text: &str) -> bool {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"/_.-".contains(&byte);
    let mut parts = text.split('/').skip(1);
    let is_path = text.starts_with('/') && parts.all(|part| !matches!(part, "" | "." | ".."));
    is_path && text.bytes().all(plain)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn plain_directories() {
        for right in ["/scratch", "/srv/a-b_c.d", "/a/.b"] {
            assert!(is_plain_directory(right), "{right}");
        }
        for wrong in ["", "/", "scratch", "/a/", "/a//b", "/a/../b", "/a b", "/a\n", "/ä"] {
            assert!(!is_plain_directory(wrong), "{wrong}");
        }
    }
}
