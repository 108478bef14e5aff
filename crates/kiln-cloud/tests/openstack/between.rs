//! Stands between Kiln and one service, passes everything on, and loses the answer to the first request of a kind.

use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

/// What becomes of that request.
#[derive(Clone, Copy)]
pub enum Fate {
    /// The service does it; then the connection is cut.
    AnswerLost,
    /// 504 at once, and the service does it so much later.
    Late(Duration),
    /// It is refused for good; the service hears nothing.
    Refused,
    /// Never answered; the service hears nothing.
    Silence,
}

pub struct Between {
    pub port: u16,
    hits: Arc<AtomicUsize>,
}

impl Between {
    /// `kind`: how the request begins, such as `POST /v2.1/servers `; `body`: what else it contains.
    pub fn start(service: u16, kind: &'static str, body: &'static str, fate: Fate) -> Between {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let hits = Arc::new(AtomicUsize::new(0));
        let counted = hits.clone();
        // Ends with the test's process.
        std::thread::spawn(move || {
            for client in listener.incoming() {
                let hits = counted.clone();
                std::thread::spawn(move || {
                    let mut client = client.ok()?;
                    let request = read_request(&mut client)?;
                    let text = String::from_utf8_lossy(&request).into_owned();
                    let meant = text.starts_with(kind) && text.contains(body);
                    let first = meant && hits.fetch_add(1, Ordering::Relaxed) == 0;
                    match fate {
                        Fate::AnswerLost if first => pass_on(&request, service).map(drop),
                        Fate::Late(delay) if first => {
                            answer(&mut client, 504)?;
                            drop(client);
                            std::thread::sleep(delay);
                            pass_on(&request, service).map(drop)
                        }
                        Fate::Refused if first => answer(&mut client, 400),
                        Fate::Silence if first => loop {
                            std::thread::park();
                        },
                        _ => client.write_all(&pass_on(&request, service)?).ok(),
                    }
                });
            }
        });
        Between { port, hits }
    }

    /// How many requests of the kind there were.
    pub fn hits(&self) -> usize {
        self.hits.load(Ordering::Relaxed)
    }
}

fn answer(client: &mut TcpStream, status: u16) -> Option<()> {
    let text = format!("HTTP/1.1 {status} Trouble\r\nContent-Length: 0\r\nConnection: close\r\n\r\n");
    client.write_all(text.as_bytes()).ok()
}

/// With the service's whole answer.
fn pass_on(request: &[u8], service: u16) -> Option<Vec<u8>> {
    let mut upstream = TcpStream::connect(("127.0.0.1", service)).ok()?;
    upstream.write_all(request).ok()?;
    let mut all = Vec::new();
    upstream.read_to_end(&mut all).ok()?;
    Some(all)
}

/// One per connection, which the service is told.
fn read_request(client: &mut TcpStream) -> Option<Vec<u8>> {
    let mut bytes = Vec::new();
    let mut piece = [0; 16384];
    let mut more = |bytes: &mut Vec<u8>| {
        let count = client.read(&mut piece).ok().filter(|count| *count > 0)?;
        bytes.extend_from_slice(&piece[..count]);
        Some(())
    };
    let end = loop {
        match bytes.windows(4).position(|w| w == b"\r\n\r\n") {
            Some(end) => break end,
            None => more(&mut bytes)?,
        }
    };
    let head = String::from_utf8_lossy(&bytes[..end]).into_owned();
    let length = |line: &str| line.to_ascii_lowercase().strip_prefix("content-length:")?.trim().parse().ok();
    let length: usize = head.lines().find_map(length).unwrap_or(0);
    while bytes.len() < end + 4 + length {
        more(&mut bytes)?;
    }
    let mut request = format!("{head}\r\nConnection: close\r\n\r\n").into_bytes();
    request.extend_from_slice(&bytes[end + 4..]);
    Some(request)
}
