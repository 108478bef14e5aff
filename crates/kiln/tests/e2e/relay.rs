//! A way between the networks of two clusters, which do not meet on the local cloud: a port of the host, on the address
//! that the host has in one of them.

use std::io;
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

pub struct Relay {
    pub port: u16,
    closed: Arc<AtomicBool>,
    listener: Option<thread::JoinHandle<()>>,
}

impl Relay {
    /// Whoever connects to a port of `address` gets to `target`.
    pub fn open(address: &str, target: &str) -> Relay {
        let listener = TcpListener::bind((address, 0)).expect("a port of the host");
        let port = listener.local_addr().expect("its address").port();
        listener.set_nonblocking(true).expect("a port of the host");
        let closed = Arc::new(AtomicBool::new(false));
        let (is_closed, target) = (Arc::clone(&closed), target.to_string());
        let listener = thread::spawn(move || {
            while !is_closed.load(Ordering::Relaxed) {
                match listener.accept() {
                    Ok((client, _)) => connect(&client, &target),
                    Err(_) => thread::sleep(Duration::from_millis(20)),
                }
            }
        });
        Relay { port, closed, listener: Some(listener) }
    }
}

impl Drop for Relay {
    fn drop(&mut self) {
        self.closed.store(true, Ordering::Relaxed);
        if let Some(listener) = self.listener.take() {
            let _ = listener.join();
        }
    }
}

/// A target that does not answer is seen by the client as one that hangs up.
fn connect(client: &TcpStream, target: &str) {
    let Ok(server) = TcpStream::connect(target) else { return };
    client.set_nonblocking(false).expect("a connection");
    for (from, to) in [(client, &server), (&server, client)] {
        let (mut from, mut to) =
            (from.try_clone().expect("a connection"), to.try_clone().expect("a connection"));
        thread::spawn(move || {
            let _ = io::copy(&mut from, &mut to);
            let _ = to.shutdown(Shutdown::Both);
            let _ = from.shutdown(Shutdown::Both);
        });
    }
}
