//! Somebody who is asked what to do about a step of a build that has failed, while the build instance is still there.

use std::fmt;
use std::sync::Arc;

use kiln_ssh::Host;
use tokio::sync::oneshot;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Choice {
    /// Run the step again.
    Retry,
    Abort,
}

/// What is asked about.
#[derive(Debug, Clone)]
pub struct Question {
    /// What went wrong, with the step.
    pub failure: String,
    /// The build instance.
    pub host: Host,
}

#[derive(Clone)]
pub struct Ask(Arc<dyn Fn(&Question) -> Choice + Send + Sync>);

impl Ask {
    pub fn new(ask: impl Fn(&Question) -> Choice + Send + Sync + 'static) -> Ask {
        Ask(Arc::new(ask))
    }

    /// In a thread of its own, which nobody waits for if the build is stopped meanwhile.
    pub(crate) async fn choose(&self, question: Question) -> Choice {
        let (answer, answered) = oneshot::channel();
        let ask = self.0.clone();
        std::thread::spawn(move || answer.send(ask(&question)));
        answered.await.unwrap_or(Choice::Abort)
    }
}

impl fmt::Debug for Ask {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Ask")
    }
}
