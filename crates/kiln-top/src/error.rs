//! What ends `kiln top`, or keeps it from beginning.

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("the terminal cannot be used")]
    Terminal(#[source] std::io::Error),
    /// There is no answer, or none that makes sense.
    #[error("kilnd does not answer: {0}")]
    NoAnswer(String),
    /// kilnd has answered, and says no.
    #[error("{0}")]
    Refused(String),
    #[error("the session is over: {0}")]
    Over(String),
    #[error("{address:?} is not an address that a token may be sent to")]
    Address { address: String },
}
