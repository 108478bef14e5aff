//! The pieces of a page that are run.

use super::EDIT;

pub enum Piece {
    /// Keys to set in the cluster file.
    Edit(String),
    Session(Vec<Step>),
}

pub struct Step {
    /// Where the command stands in the page.
    pub line: usize,
    pub prompt: Prompt,
    pub command: String,
    /// What the page says that it prints.
    pub output: String,
    /// Whether its session takes the cluster down.
    destroys: bool,
}

pub enum Prompt {
    /// `$`
    Host,
    /// `USER@NODE:~$`
    Login { node: String },
}

impl Step {
    pub fn nothing() -> Step {
        Step { line: 0, prompt: Prompt::Host, command: String::new(), output: String::new(), destroys: false }
    }

    pub fn is_destroy(&self) -> bool {
        self.destroys
    }
}

/// The sessions and edits of a page, in order.
pub fn pieces(page: &str) -> Vec<Piece> {
    let mut pieces = Vec::new();
    let mut above = "";
    let mut lines = page.lines().enumerate();
    while let Some((_, line)) = lines.next() {
        if let Some(kind) = line.strip_prefix("```") {
            let body: Vec<(usize, &str)> =
                lines.by_ref().take_while(|(_, line)| !line.starts_with("```")).collect();
            match kind {
                "console" => pieces.push(Piece::Session(steps(&body))),
                "toml" if above.ends_with(EDIT) => {
                    let text: Vec<&str> = body.iter().map(|(_, line)| *line).collect();
                    pieces.push(Piece::Edit(text.join("\n")));
                }
                _ => {}
            }
        } else if !line.is_empty() {
            above = line;
        }
    }
    pieces
}

fn steps(body: &[(usize, &str)]) -> Vec<Step> {
    let destroys = body.first().is_some_and(|(_, line)| line.starts_with("$ kiln destroy"));
    let mut steps: Vec<Step> = Vec::new();
    for (at, line) in body {
        if let Some((prompt, command)) = command(line) {
            let (command, output) = (command.to_owned(), String::new());
            steps.push(Step { line: at + 1, prompt, command, output, destroys });
        } else if let Some(step) = steps.last_mut() {
            step.output.push_str(line);
            step.output.push('\n');
        } else {
            panic!("line {}: a session begins with a command", at + 1);
        }
    }
    steps
}

fn command(line: &str) -> Option<(Prompt, &str)> {
    if let Some(command) = line.strip_prefix("$ ") {
        return Some((Prompt::Host, command));
    }
    let (prompt, command) = line.split_once(":~$ ")?;
    let (_, node) = prompt.split_once('@')?;
    Some((Prompt::Login { node: node.to_owned() }, command))
}

/// The file with the keys of some tables set: in place of the line that sets one, or shows it behind `#`, or else at
/// the top of the table. Each key is one line.
pub fn set(file: &str, toml: &str) -> String {
    let mut lines: Vec<String> = file.lines().map(str::to_owned).collect();
    let (mut table, mut added) = ("", 0);
    for line in toml.lines().filter(|line| !line.is_empty()) {
        if line.starts_with('[') {
            (table, added) = (line, 0);
            if !lines.iter().any(|l| l == table) {
                lines.extend([String::new(), table.to_owned()]);
            }
            continue;
        }
        let (key, _) = line.split_once(" = ").expect("a line of a key");
        let begin = lines.iter().position(|l| l == table).expect("the block names a table") + 1;
        let end = lines[begin..].iter().position(|l| l.starts_with('[')).map_or(lines.len(), |n| begin + n);
        let sets = |l: &String| l.strip_prefix("# ").unwrap_or(l).starts_with(&format!("{key} = "));
        if let Some(at) = lines[begin..end].iter().position(sets) {
            line.clone_into(&mut lines[begin + at]);
        } else {
            lines.insert(begin + added, line.to_owned());
            added += 1;
        }
    }
    lines.join("\n") + "\n"
}
