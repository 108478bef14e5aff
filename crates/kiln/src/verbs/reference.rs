//! `kiln reference`: the command line as one Markdown page. `docs/reference/cli.md` is its output.

use clap::{Arg, Args, Command, CommandFactory};

use crate::cli::Cli;
use crate::context::Context;
use crate::exit::Exit;

/// Print the reference of the command line as Markdown
#[derive(Debug, Args)]
pub struct Reference {}

const HEAD: &str = "# Command line

<!-- Made by `kiln reference`. Change the help texts in crates/kiln, then run
     `KILN_UPDATE=1 cargo test -p kiln --test cli`. -->

Data goes to standard output, everything else to standard error.

| exit code | meaning |
| --- | --- |
| 0 | done |
| 1 | failed |
| 2 | wrong usage, or an invalid input file |
| 3 | `kiln plan --detailed-exitcode`: there is something to do. `kiln up`, `kiln apply`: nodes that are to go wait for their jobs. `kiln stop`: the cluster waits for its jobs |
| 130 | interrupted |
";

impl Reference {
    #[allow(clippy::unused_self, reason = "every verb is run the same way")]
    pub fn run(self, context: &Context) -> anyhow::Result<Exit> {
        context.printer.raw(page())?;
        Ok(Exit::Ok)
    }
}

fn page() -> String {
    let mut root = Cli::command();
    root.build();
    let globals = options(root.get_arguments().filter(|a| a.is_global_set()));
    let mut sections = vec![HEAD.to_owned(), format!("## Global options\n\n{globals}")];
    for verb in visible(&root) {
        add_verb(&mut sections, verb, "kiln");
    }
    sections.join("\n")
}

fn add_verb(sections: &mut Vec<String>, verb: &Command, parent: &str) {
    let name = format!("{parent} {}", verb.get_name());
    let about = verb.get_long_about().or_else(|| verb.get_about());
    let about = about.map(ToString::to_string).unwrap_or_default();
    sections.push(format!("## {name}\n\n{}\n", about.trim_end()));
    let own = options(verb.get_arguments().filter(|a| !a.is_global_set()));
    if !own.is_empty() || !verb.has_subcommands() {
        sections.push(format!("```\n{}\n```\n", usage(verb, &name)));
    }
    if !own.is_empty() {
        sections.push(own);
    }
    visible(verb).for_each(|sub| add_verb(sections, sub, &name));
}

fn visible(command: &Command) -> impl Iterator<Item = &Command> {
    command.get_subcommands().filter(|c| !c.is_hide_set())
}

fn usage(verb: &Command, name: &str) -> String {
    let args = verb.get_arguments().filter(|a| is_shown(a) && !a.is_global_set()).map(|arg| {
        let form = form(arg);
        if arg.is_required_set() { form } else { format!("[{form}]") }
    });
    std::iter::once(name.to_owned()).chain(args).collect::<Vec<_>>().join(" ")
}

fn is_shown(arg: &Arg) -> bool {
    !arg.is_hide_set() && !matches!(arg.get_id().as_str(), "help" | "version")
}

/// `--file PATH`, `NODE...`
fn form(arg: &Arg) -> String {
    let takes_value = arg.get_action().takes_values();
    let names = arg.get_value_names().unwrap_or_default();
    let value = names.iter().map(ToString::to_string).collect::<Vec<_>>().join(" ");
    let many = arg.get_num_args().is_some_and(|n| n.max_values() > names.len().max(1));
    let value = if many { value + "..." } else { value };
    match arg.get_long() {
        Some(long) if takes_value => format!("--{long} {value}"),
        Some(long) => format!("--{long}"),
        None => value,
    }
}

/// One list item per option.
fn options<'a>(args: impl Iterator<Item = &'a Arg>) -> String {
    args.filter(|a| is_shown(a)).map(option).collect()
}

fn option(arg: &Arg) -> String {
    let short = arg.get_short().map(|s| format!("`-{s}`, ")).unwrap_or_default();
    let help = arg.get_long_help().or_else(|| arg.get_help());
    let help = help.map(ToString::to_string).unwrap_or_default();
    // Of several paragraphs the first ends without a full stop.
    let help = help.replace(".\n\n", "\n\n").replace("\n\n", ". ");
    format!("- {short}`{}`: {help}{}\n", form(arg), details(arg))
}

fn details(arg: &Arg) -> String {
    let mut details = Vec::new();
    if arg.get_action().takes_values() {
        let values = arg.get_possible_values();
        if !values.is_empty() && !arg.is_hide_possible_values_set() {
            let names: Vec<_> = values.iter().map(|v| format!("`{}`", v.get_name())).collect();
            details.push(format!("one of {}", names.join(", ")));
        }
        if let Some(default) = arg.get_default_values().first() {
            details.push(format!("default `{}`", default.to_string_lossy()));
        }
    }
    if let Some(variable) = arg.get_env() {
        details.push(format!("also as environment variable `{}`", variable.to_string_lossy()));
    }
    if details.is_empty() { String::new() } else { format!(" ({})", details.join("; ")) }
}
