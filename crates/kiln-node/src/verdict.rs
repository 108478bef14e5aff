//! What happened to one resource.

use kiln_wire::Outcome;

/// What a resource's own module answers; `apply` adds the id and the time.
#[derive(Debug)]
pub(crate) struct Verdict {
    pub outcome: Outcome,
    pub summary: String,
    pub diff: Option<String>,
}

impl Verdict {
    pub fn unchanged() -> Self {
        Self::new(Outcome::Unchanged, "")
    }

    pub fn changed(summary: impl Into<String>) -> Self {
        Self::new(Outcome::Changed, summary)
    }

    pub fn new(outcome: Outcome, summary: impl Into<String>) -> Self {
        Verdict { outcome, summary: summary.into(), diff: None }
    }

    pub fn with_diff(mut self, diff: Option<String>) -> Self {
        self.diff = diff;
        self
    }
}
