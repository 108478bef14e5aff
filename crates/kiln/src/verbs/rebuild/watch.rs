//! Watching a rollout: a live view on a terminal, else a line for every step of every node.

use std::collections::BTreeMap;

use jiff::Timestamp;
use kiln_deploy::Rollouts;
use kiln_wire::rollout::{RolloutId, RolloutNode, RolloutReport, step_text};

use super::view::view;
use crate::context::Context;
use crate::live::LiveLines;
use crate::printer::Printer;
use crate::progress::Progress;

/// Until the rollout is over.
pub async fn watch(
    context: &Context,
    rollouts: &Rollouts<'_>,
    id: RolloutId,
) -> anyhow::Result<RolloutReport> {
    let mut screen = match context.printer.live_lines() {
        Some(live) => Screen::Live(live),
        None => Screen::Lines(context.printer.progress(), LastShown::default()),
    };
    Ok(rollouts.watch(id, |report| screen.show(report)).await?)
}

/// With `--json`: one object per line for every step of a node; the caller ends it with the rollout's report.
pub async fn watch_as_json(
    printer: &Printer,
    rollouts: &Rollouts<'_>,
    id: RolloutId,
) -> anyhow::Result<RolloutReport> {
    let mut shown = LastShown::default();
    let mut failed = None;
    let report = rollouts
        .watch(id, |report| {
            let news = shown.news(report);
            failed = news.into_iter().find_map(|(node, _)| printer.json_line(node).err()).or(failed.take());
        })
        .await?;
    failed.map_or(Ok(report), Err)
}

enum Screen {
    Live(LiveLines),
    Lines(Progress, LastShown),
}

impl Screen {
    fn show(&mut self, report: &RolloutReport) {
        match self {
            Screen::Live(live) => {
                let (rows, columns) = LiveLines::size();
                live.show(&view(report, Timestamp::now(), rows, columns));
            }
            Screen::Lines(progress, shown) => {
                for (node, words) in shown.news(report) {
                    progress.step(&format!("{}: {words}", node.node));
                }
            }
        }
    }
}

/// The last text shown for each node.
#[derive(Default)]
struct LastShown(BTreeMap<String, String>);

impl LastShown {
    fn news<'r>(&mut self, report: &'r RolloutReport) -> Vec<(&'r RolloutNode, String)> {
        let mut news = Vec::new();
        for node in &report.rollout.nodes {
            let words = step_text(node);
            if self.0.get(&node.node) != Some(&words) {
                self.0.insert(node.node.clone(), words.clone());
                news.push((node, words));
            }
        }
        news
    }
}
