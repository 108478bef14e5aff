//! Rows of what `squeue` and `sacct` print.
//!
//! Names and comments of jobs are their users' own text, with any sign and any end of a line in it. What stands between
//! the fields is therefore another text each time: nobody can have written it into a name, so no name passes for a row.

use std::hash::{BuildHasher as _, RandomState};

/// For one question.
pub fn delimiter() -> String {
    format!("|{:016x}|", RandomState::new().hash_one(0))
}

/// Of `squeue`, which is asked for these fields. The first one must be a number, a name or another text without an end of a line.
pub fn squeue_format(fields: &[&str], delimiter: &str) -> String {
    format!("--format={}", fields.join(delimiter))
}

/// Reads what was printed. Lines in front of the first row are passed over, and so is a row that was cut off.
pub fn rows<'a, const N: usize>(text: &'a str, delimiter: &str) -> Vec<[&'a str; N]> {
    let mut rows = Vec::new();
    let mut row: Vec<&str> = Vec::with_capacity(N);
    for piece in text.split(delimiter) {
        if row.is_empty() {
            row.push(piece.rsplit('\n').next().unwrap_or(piece).trim());
            continue;
        }
        if row.len() + 1 < N {
            row.push(piece.trim());
            continue;
        }
        // The end of this row, and the first field of the next one, which has no end of a line.
        let Some((last, next)) = piece.rsplit_once('\n') else { break };
        row.push(last.trim());
        rows.extend(<[&str; N]>::try_from(std::mem::replace(&mut row, vec![next.trim()])));
    }
    rows
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_delimiter_is_another_one_each_time() {
        assert_ne!(delimiter(), delimiter());
        assert_eq!(squeue_format(&["%i", "%T", "%j"], "|x9|"), "--format=%i|x9|%T|x9|%j");
    }

    #[test]
    fn no_text_of_a_user_is_a_row() {
        let text = "squeue: error: x\n7|x9|a|b\n8|RUNNING|c|x9|RUNNING\n9|x9||x9|PENDING\n10|x9|cut";
        assert_eq!(rows(text, "|x9|"), [["7", "a|b\n8|RUNNING|c", "RUNNING"], ["9", "", "PENDING"]]);
        let last = "7|x9|RUNNING|x9|a\n8|RUNNING|b\n9|x9|PENDING|x9|c\n";
        assert_eq!(rows(last, "|x9|"), [["7", "RUNNING", "a\n8|RUNNING|b"], ["9", "PENDING", "c"]]);
        assert_eq!(rows::<3>("slurm_load_jobs error: x\n", "|x9|"), [[""; 3]; 0]);
    }
}
