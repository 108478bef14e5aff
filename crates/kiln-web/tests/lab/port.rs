//! Ports for servers that a test starts.

use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicU16, Ordering};
use std::time::Duration;

/// Below those that the kernel gives to connections: one of them could take the port before the server does, or, tried while
/// nobody listens there, be connected to itself.
const FIRST: u16 = 20_000;
const COUNT: u16 = 10_000;

/// Free, and not given to another test of this process. Processes begin at different ones.
pub fn free() -> u16 {
    static NEXT: AtomicU16 = AtomicU16::new(0);
    let own = u16::try_from(std::process::id() % u32::from(COUNT)).expect("less than that");
    loop {
        let next = own.wrapping_mul(37).wrapping_add(NEXT.fetch_add(1, Ordering::Relaxed));
        let port = FIRST + next % COUNT;
        if TcpListener::bind((Ipv4Addr::LOCALHOST, port)).is_ok() {
            return port;
        }
    }
}

/// Returns once somebody listens there.
pub fn wait(port: u16) {
    while TcpStream::connect((Ipv4Addr::LOCALHOST, port)).is_err() {
        std::thread::sleep(Duration::from_millis(5));
    }
}
