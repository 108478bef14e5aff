//! The dashboard with a cluster that is not there, for working on its pages:
//! `cargo run -p kiln-web --example dashboard -- [PORT] [NODES]`

#[path = "../tests/lab/fake.rs"]
#[allow(dead_code, reason = "tests use more of it")]
mod fake;

use std::sync::Arc;
use std::time::Duration;

use fake::Fake;
use kiln_web::auth::KeyKind;
use kiln_wire::dashboard::Role;
use tokio_util::sync::CancellationToken;

#[tokio::main]
async fn main() {
    let mut arguments = std::env::args().skip(1).filter_map(|argument| argument.parse().ok());
    let port: u16 = arguments.next().unwrap_or(6831);
    let fake = Arc::new(Fake::lively(arguments.next().unwrap_or(1000).into()));
    let day = Duration::from_secs(86_400);
    let token = fake.admit(KeyKind::Token, "designer", Role::Operator, day);
    println!("http://127.0.0.1:{port}/login#{token}");
    kiln_web::serve(fake, port, CancellationToken::new()).await;
}
