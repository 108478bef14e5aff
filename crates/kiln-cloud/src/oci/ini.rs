//! Files such as `~/.oci/config`: sections of `key = value`, of which `[DEFAULT]` lends its values to all others.

use std::collections::BTreeMap;

pub type Section = BTreeMap<String, String>;

pub const DEFAULT: &str = "DEFAULT";

/// The values of a section; `None`: there is no such section. As Python's `configparser` reads it, because Oracle's tools
/// do: keys in any case, `=` or `:`, comments on lines of their own, values that go on in indented lines.
pub fn section(text: &str, wanted: &str) -> Option<Section> {
    let (mut default, mut own) = (Section::new(), None);
    let mut current: Option<String> = None;
    let mut last: Option<String> = None;
    for line in text.lines() {
        let trimmed = line.trim();
        if trimmed.is_empty() || trimmed.starts_with(['#', ';']) {
            continue;
        }
        let indented = line.starts_with([' ', '\t']);
        if let Some(name) = trimmed.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')) {
            current = Some(name.to_string());
            last = None;
            if name == wanted && name != DEFAULT {
                own.get_or_insert_with(Section::new);
            }
            continue;
        }
        let values = match current.as_deref() {
            Some(DEFAULT) => &mut default,
            Some(name) if name == wanted => own.get_or_insert_with(Section::new),
            _ => continue,
        };
        if let Some(value) = last.as_ref().filter(|_| indented).and_then(|key| values.get_mut(key)) {
            value.push('\n');
            value.push_str(trimmed);
            continue;
        }
        if let Some((key, value)) = trimmed.split_once(['=', ':']) {
            let key = key.trim().to_lowercase();
            values.insert(key.clone(), value.trim().to_string());
            last = Some(key);
        }
    }
    if wanted == DEFAULT {
        return (!default.is_empty()).then_some(default);
    }
    let own = own?;
    default.extend(own);
    Some(default)
}

/// The sections there are, for a message.
pub fn names(text: &str) -> Vec<&str> {
    text.lines().filter_map(|line| line.trim().strip_prefix('[')?.strip_suffix(']')).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "; made by oci setup config\n[DEFAULT]\nuser = u\nRegion=us-ashburn-1\n# key_file=no\n\n\
                        [lab]\nregion: eu-frankfurt-1\nkey_file = /a = b\n[empty]\n";

    #[test]
    fn profiles_inherit_from_the_default_one() {
        let lab = section(TEXT, "lab").unwrap();
        assert_eq!((lab["user"].as_str(), lab["region"].as_str()), ("u", "eu-frankfurt-1"));
        assert_eq!(lab["key_file"], "/a = b");
        assert_eq!(section(TEXT, DEFAULT).unwrap().len(), 2);
        assert_eq!(section(TEXT, "empty").unwrap()["region"], "us-ashburn-1");
        assert_eq!(section(TEXT, "other"), None);
        assert_eq!(section("", DEFAULT), None);
        assert_eq!(names(TEXT), ["DEFAULT", "lab", "empty"]);
    }
}
