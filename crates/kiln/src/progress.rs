//! How progress is shown. On a terminal: one spinner per item, and a lasting line for each step
//! and each result. Elsewhere only the lines, so that a CI log reads like the terminal did.

use std::io::Write;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use indicatif::{MultiProgress, ProgressBar, ProgressStyle};

#[derive(Clone)]
pub struct Progress {
    shown: Option<Arc<Shown>>,
}

struct Shown {
    start: Instant,
    bars: Option<MultiProgress>,
}

impl Progress {
    pub fn quiet() -> Progress {
        Progress { shown: None }
    }

    pub fn new(bars: Option<MultiProgress>) -> Progress {
        Progress { shown: Some(Arc::new(Shown { start: Instant::now(), bars })) }
    }

    /// A lasting line.
    pub fn step(&self, text: &str) {
        if let Some(shown) = &self.shown {
            shown.line(text);
        }
    }

    /// Something with a life of its own, a node or an image, shown until it is done or dropped.
    pub fn item(&self, name: &str) -> Item {
        let bar = self.shown.as_ref().and_then(|shown| shown.spinner(name));
        Item { name: name.to_owned(), progress: self.clone(), bar, ended: AtomicBool::new(false) }
    }
}

impl Shown {
    fn line(&self, text: &str) {
        let line = format!("[{:5.1}s] {text}", self.start.elapsed().as_secs_f64());
        // Nothing is left to tell if even this cannot be written.
        let print = || _ = writeln!(anstream::stderr().lock(), "{line}");
        match &self.bars {
            Some(bars) => bars.suspend(print),
            None => print(),
        }
    }

    fn spinner(&self, name: &str) -> Option<ProgressBar> {
        let style = ProgressStyle::with_template("{spinner} {elapsed:>4} {prefix}: {wide_msg}")
            .unwrap_or_else(|_| ProgressStyle::default_spinner());
        let bar = self.bars.as_ref()?.add(ProgressBar::new_spinner());
        bar.set_style(style);
        bar.set_prefix(name.to_owned());
        bar.enable_steady_tick(Duration::from_millis(120));
        Some(bar)
    }
}

pub struct Item {
    name: String,
    progress: Progress,
    bar: Option<ProgressBar>,
    ended: AtomicBool,
}

impl Item {
    /// What is happening to it now.
    pub fn set(&self, text: &str) {
        match &self.bar {
            Some(bar) => bar.set_message(text.to_owned()),
            None => self.progress.step(&format!("{}: {text}", self.name)),
        }
    }

    pub fn done(&self, text: &str) {
        self.end(text);
    }

    pub fn fail(&self, text: &str) {
        self.end(&format!("failed: {text}"));
    }

    /// Only the first end counts.
    fn end(&self, text: &str) {
        if self.ended.swap(true, Ordering::Relaxed) {
            return;
        }
        self.clear();
        self.progress.step(&format!("{}: {text}", self.name));
    }

    fn clear(&self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }
}

impl Drop for Item {
    fn drop(&mut self) {
        self.clear();
    }
}
