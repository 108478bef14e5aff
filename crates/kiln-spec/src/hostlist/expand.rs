//! A hostlist to names.

use super::grammar::{HostlistError, Item, Numbers, item_end, parse_item};

/// A whole list may hold several ranges, but a typing error must not fill the memory.
pub const MAX_HOSTS: u64 = 1 << 20;

/// The names a hostlist stands for, in Slurm's order, duplicates kept.
pub fn expand(list: &str) -> Result<Vec<String>, HostlistError> {
    let mut names = Vec::new();
    let mut total = 0;
    let mut start = 0;
    loop {
        let end = item_end(list, start);
        let item = parse_item(list, start..end)?;
        total += item.count();
        if total > MAX_HOSTS {
            return Err(HostlistError::new(
                start..end,
                format!("the list has more than {MAX_HOSTS} hosts"),
                "a shorter list",
            ));
        }
        item.expand_into(&mut names);
        if end == list.len() {
            return Ok(names);
        }
        start = end + 1;
    }
}

impl Item<'_> {
    fn count(&self) -> u64 {
        (self.brackets.iter())
            .map(|ranges| ranges.iter().map(Numbers::count).sum::<u64>())
            .fold(1, u64::saturating_mul)
    }

    /// Slurm runs through the last bracket fastest, then through the others from the left.
    fn expand_into(&self, names: &mut Vec<String>) {
        let Some((last, before)) = self.brackets.split_last() else {
            names.extend(self.texts.iter().map(|&text| text.to_owned()));
            return;
        };
        let mut stems = vec![String::new()];
        let mut stem_of_stems = Vec::new();
        for (text, ranges) in self.texts.iter().zip(before) {
            let numbers: Vec<String> = ranges.iter().flat_map(Numbers::texts).collect();
            // The first bracket must vary fastest, so each further one is the outer loop.
            for number in &numbers {
                stem_of_stems.extend(stems.iter().map(|stem| format!("{stem}{text}{number}")));
            }
            stems = std::mem::take(&mut stem_of_stems);
        }
        let text = self.texts.last().copied().unwrap_or_default();
        for stem in &stems {
            for number in last.iter().flat_map(Numbers::texts) {
                names.push([stem.as_str(), text, number.as_str()].concat());
            }
        }
    }
}

impl Numbers {
    fn texts(&self) -> impl Iterator<Item = String> {
        let width = self.width;
        (self.low..=self.high).map(move |n| format!("{n:0width$}"))
    }
}

#[cfg(test)]
#[path = "expand_tests.rs"]
mod tests;
