//! "Did you mean": the known name that is closest to what was typed.

/// The nearest of the names, if it is near enough. Swapping two neighbouring letters counts as one error.
pub(crate) fn nearest<'a>(typed: &str, names: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let typed_folded = typed.to_lowercase();
    let limit = typed.chars().count().div_ceil(3).min(3);
    (names.into_iter())
        .filter(|name| *name != typed)
        .map(|name| (strsim::osa_distance(&typed_folded, &name.to_lowercase()), name))
        .filter(|(distance, _)| *distance <= limit)
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, name)| name)
}

pub(crate) fn did_you_mean<'a>(typed: &str, names: impl IntoIterator<Item = &'a str>) -> Option<String> {
    nearest(typed, names).map(|name| format!("did you mean `{name}`?"))
}

#[cfg(test)]
mod tests {
    use super::nearest;

    #[test]
    fn finds_slips_and_nothing_else() {
        let keys = ["nodes", "flavor", "image", "image_update"];
        assert_eq!(nearest("nodez", keys), Some("nodes"));
        assert_eq!(nearest("ndoes", keys), Some("nodes"));
        assert_eq!(nearest("Flavour", keys), Some("flavor"));
        assert_eq!(nearest("uid", keys), None);
    }
}
