//! "Did you mean": the known name that is closest to what was typed.

/// The nearest of the names, if one is near enough to be meant.
pub(crate) fn nearest<'a>(typed: &str, names: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let typed_folded = typed.to_lowercase();
    let limit = typed.chars().count().div_ceil(3).min(3);
    (names.into_iter())
        .filter(|name| *name != typed)
        .map(|name| (distance(&typed_folded, &name.to_lowercase()), name))
        .filter(|(distance, _)| *distance <= limit)
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, name)| name)
}

pub(crate) fn did_you_mean<'a>(typed: &str, names: impl IntoIterator<Item = &'a str>) -> Option<String> {
    nearest(typed, names).map(|name| format!("did you mean `{name}`?"))
}

/// Edit distance in which swapping two neighbours counts as one slip of the fingers.
fn distance(a: &str, b: &str) -> usize {
    let (a, b): (Vec<char>, Vec<char>) = (a.chars().collect(), b.chars().collect());
    let mut before: Vec<usize> = Vec::new();
    let mut last: Vec<usize> = (0..=b.len()).collect();
    for i in 1..=a.len() {
        let mut row = vec![i];
        for j in 1..=b.len() {
            let change = usize::from(a[i - 1] != b[j - 1]);
            let mut best = (last[j] + 1).min(row[j - 1] + 1).min(last[j - 1] + change);
            if i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] {
                best = best.min(before[j - 2] + 1);
            }
            row.push(best);
        }
        before = std::mem::replace(&mut last, row);
    }
    last[b.len()]
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
