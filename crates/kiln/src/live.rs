//! Lines at the bottom of a terminal that are updated in place.

use indicatif::{MultiProgress, ProgressBar, ProgressStyle};

pub struct LiveLines {
    bars: MultiProgress,
    lines: Vec<ProgressBar>,
}

impl LiveLines {
    pub fn new(bars: MultiProgress) -> LiveLines {
        LiveLines { bars, lines: Vec::new() }
    }

    /// How many lines and columns there are. One line stays free for the cursor.
    pub fn size() -> (usize, usize) {
        let size = rustix::termios::tcgetwinsize(std::io::stderr()).ok();
        let (rows, columns) = size.map_or((24, 80), |s| (usize::from(s.ws_row), usize::from(s.ws_col)));
        (rows.saturating_sub(1).max(4), columns.max(20))
    }

    pub fn show(&mut self, lines: &[String]) {
        while self.lines.len() > lines.len() {
            if let Some(line) = self.lines.pop() {
                line.finish_and_clear();
                self.bars.remove(&line);
            }
        }
        let plain =
            ProgressStyle::with_template("{msg}").unwrap_or_else(|_| ProgressStyle::default_spinner());
        while self.lines.len() < lines.len() {
            let line = self.bars.add(ProgressBar::new_spinner());
            line.set_style(plain.clone());
            self.lines.push(line);
        }
        for (line, text) in self.lines.iter().zip(lines) {
            line.set_message(text.clone());
            line.tick();
        }
    }
}

impl Drop for LiveLines {
    fn drop(&mut self) {
        self.show(&[]);
    }
}
