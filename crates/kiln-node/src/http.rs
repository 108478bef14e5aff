//! One plain GET. A node asks nothing over HTTP but the metadata address, which is on its own link: no proxy, no
//! redirect, no encryption. The request is HTTP/1.0, whose answers are never cut in chunks.

use std::io::{Error, ErrorKind, Read as _, Write as _};
use std::net::{TcpStream, ToSocketAddrs as _};
use std::time::{Duration, Instant};

const CONNECT: Duration = Duration::from_secs(2);
const ALL: Duration = Duration::from_secs(10);
const MAX_BYTES: usize = 1024 * 1024;

#[derive(Debug, thiserror::Error)]
pub enum HttpError {
    #[error("cannot ask for it")]
    Io(#[from] Error),
    #[error("status {0}")]
    Status(u16),
    #[error("the answer is not HTTP, or was cut off")]
    Malformed,
}

/// The body of an answer that says 200. `headers`: further lines of the request.
pub fn get(url: &str, headers: &[&str]) -> Result<Vec<u8>, HttpError> {
    let rest = url.strip_prefix("http://").ok_or(HttpError::Malformed)?;
    let (host, path) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
    let path = if path.is_empty() { "/" } else { path };
    let headers: String = headers.iter().flat_map(|line| [*line, "\r\n"]).collect();
    let answer = exchange(host, &format!("GET {path} HTTP/1.0\r\nHost: {host}\r\n{headers}\r\n"))?;
    body_of(answer)
}

/// All that comes back until the other side closes, within the time for everything.
fn exchange(host: &str, request: &str) -> Result<Vec<u8>, HttpError> {
    let deadline = Instant::now() + ALL;
    let entry = if host.contains(':') { host.to_owned() } else { format!("{host}:80") };
    let address = entry.to_socket_addrs()?.next().ok_or_else(|| Error::from(ErrorKind::NotFound))?;
    let mut stream = TcpStream::connect_timeout(&address, CONNECT)?;
    stream.set_write_timeout(Some(CONNECT))?;
    stream.write_all(request.as_bytes())?;
    let mut answer = Vec::new();
    let mut piece = [0; 16 * 1024];
    while answer.len() <= MAX_BYTES {
        let left = deadline.checked_duration_since(Instant::now()).filter(|left| !left.is_zero());
        stream.set_read_timeout(Some(left.ok_or_else(|| Error::from(ErrorKind::TimedOut))?))?;
        match stream.read(&mut piece)? {
            0 => return Ok(answer),
            count => answer.extend_from_slice(&piece[..count]),
        }
    }
    Err(Error::from(ErrorKind::FileTooLarge).into())
}

fn body_of(answer: Vec<u8>) -> Result<Vec<u8>, HttpError> {
    let end = answer.windows(4).position(|bytes| bytes == b"\r\n\r\n").ok_or(HttpError::Malformed)?;
    let head = String::from_utf8_lossy(&answer[..end]);
    let mut lines = head.lines();
    let mut words = lines.next().unwrap_or_default().split(' ');
    let protocol = words.next().unwrap_or_default();
    let status = words.next().and_then(|word| word.parse().ok());
    let status: u16 = status.filter(|_| protocol.starts_with("HTTP/1.")).ok_or(HttpError::Malformed)?;
    if status != 200 {
        return Err(HttpError::Status(status));
    }
    let length = lines
        .filter_map(|line| line.split_once(':'))
        .find(|(name, _)| name.eq_ignore_ascii_case("content-length"))
        .map(|(_, value)| value.trim().parse::<usize>().map_err(|_| HttpError::Malformed))
        .transpose()?;
    let mut body = answer;
    body.drain(..end + 4);
    match length {
        Some(length) if body.len() < length => Err(HttpError::Malformed),
        Some(length) => {
            body.truncate(length);
            Ok(body)
        }
        None => Ok(body),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::TcpListener;

    /// What `get` makes of an answer.
    fn answered(answer: &'static str) -> Result<String, String> {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let server = std::thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            let mut request = [0; 1024];
            let count = stream.read(&mut request).unwrap();
            stream.write_all(answer.as_bytes()).unwrap();
            String::from_utf8_lossy(&request[..count]).into_owned()
        });
        let body = get(&format!("http://{address}/a/b"), &[]);
        assert_eq!(server.join().unwrap(), format!("GET /a/b HTTP/1.0\r\nHost: {address}\r\n\r\n"));
        body.map(|body| String::from_utf8(body).unwrap()).map_err(|error| error.to_string())
    }

    #[test]
    fn answers_are_taken_whole_or_not_at_all() {
        let malformed = Err("the answer is not HTTP, or was cut off".to_owned());
        let cases = [
            ("HTTP/1.0 200 OK\r\n\r\nto the end", Ok("to the end".to_owned())),
            ("HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nabc and more", Ok("abc".to_owned())),
            ("HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n", Ok(String::new())),
            ("HTTP/1.1 200 OK\r\nContent-Length: 30\r\n\r\ncut", malformed.clone()),
            ("HTTP/1.1 404 Not Found\r\n\r\nno", Err("status 404".to_owned())),
            ("HTTP/1.1 302 Found\r\nLocation: http://elsewhere/\r\n\r\n", Err("status 302".to_owned())),
            ("SSH-2.0-OpenSSH_9.2\r\n\r\n", malformed.clone()),
            ("HTTP/1.1 200 OK\r\nContent-Len", malformed),
        ];
        for (answer, expected) in cases {
            assert_eq!(answered(answer), expected, "{answer:?}");
        }
    }
}
