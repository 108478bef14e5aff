//! A block of lines that Kiln manages inside a file others write to as well.

const BEGIN: &str = "# kiln: begin (managed, changes here are lost)";
const END: &str = "# kiln: end";

/// The lines of the block; none when there is no block.
pub(crate) fn lines(text: &str) -> Vec<&str> {
    text.lines().skip_while(|line| *line != BEGIN).skip(1).take_while(|line| *line != END).collect()
}

/// The text with its block replaced, appended, or removed when there are no lines.
pub(crate) fn replace<T: AsRef<str>>(text: &str, block: &[T]) -> String {
    let mut result = String::new();
    let mut inside = false;
    let mut placed = false;
    for line in text.lines() {
        match line {
            BEGIN => {
                inside = true;
                if !placed {
                    push_block(&mut result, block);
                    placed = true;
                }
            }
            END => inside = false,
            _ if inside => {}
            _ => {
                result.push_str(line);
                result.push('\n');
            }
        }
    }
    if !placed {
        push_block(&mut result, block);
    }
    result
}

fn push_block<T: AsRef<str>>(result: &mut String, block: &[T]) {
    if block.is_empty() {
        return;
    }
    let lines = block.iter().map(AsRef::as_ref);
    for line in std::iter::once(BEGIN).chain(lines).chain(std::iter::once(END)) {
        result.push_str(line);
        result.push('\n');
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn other_lines_stay_in_their_place() {
        let one = replace("first", &["a", "b"]);
        assert_eq!(one, format!("first\n{BEGIN}\na\nb\n{END}\n"));
        assert_eq!(lines(&one), ["a", "b"]);
        let two = replace(&format!("{one}last\n"), &["c"]);
        assert_eq!(two, format!("first\n{BEGIN}\nc\n{END}\nlast\n"));
        assert_eq!(replace(&two, &["c"]), two);
    }

    #[test]
    fn an_empty_block_leaves_no_marks() {
        let with = replace("a\n", &["x"]);
        assert_eq!(replace::<&str>(&with, &[]), "a\n");
        assert!(lines("a\n").is_empty());
    }
}
