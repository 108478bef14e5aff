//! Whatever happens to a file, it gets an answer: a spec or errors that can be shown.

use proptest::prelude::*;
use proptest::test_runner::Config;

const FILE: &str = include_str!("full.toml");

fn answer(text: &str) {
    match kiln_spec::parse_with_warnings(text, "cluster.toml") {
        Ok((_, warnings)) => assert!(!warnings.has_errors()),
        Err(errors) => {
            assert!(errors.has_errors());
            assert!(!errors.render(true).is_empty());
            for error in errors.iter() {
                assert!(error.line >= 1 && error.column >= 1 && text.get(error.span.clone()).is_some());
            }
        }
    }
}

proptest! {
    #![proptest_config(Config { cases: 512, failure_persistence: None, ..Config::default() })]

    #[test]
    fn a_piece_replaced(at in 0..FILE.len(), length in 0..30_usize, piece in "[\\[\\]\"'=,.{}#\n\\\\a0é😀\t\r-]{0,6}") {
        let end = (at + length).min(FILE.len());
        answer(&format!("{}{piece}{}", &FILE[..at], &FILE[end..]));
    }

    #[test]
    fn a_file_cut_off(at in 0..FILE.len()) {
        answer(&FILE[..at]);
    }

    #[test]
    fn a_value_of_another_kind(line in 0..89_usize, value in "(1|true|\"x\"|\"é\"|\\[\\]|\\[1, \"a\"\\]|\\{\\}|\\{ a = 1 \\}|1\\.5|1979-05-27|\"\"\"\nn\\[1-\"\"\")") {
        let change = |(i, text): (usize, &str)| match text.split_once(" = ") {
            Some((key, _)) if i == line => format!("{key} = {value}\n"),
            _ => format!("{text}\n"),
        };
        answer(&FILE.lines().enumerate().map(change).collect::<String>());
    }

    #[test]
    fn any_text(text in ".{0,60}") {
        answer(&text);
    }
}

#[test]
fn windows_line_ends() {
    answer(&FILE.replace('\n', "\r\n"));
    assert!(kiln_spec::parse(&FILE.replace('\n', "\r\n"), "cluster.toml").is_ok());
}
