//! Who is told of what happens: with a mail server and a webhook that write down what they get.

use std::sync::{Arc, Mutex};

use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::{TcpListener, TcpStream};

use crate::lab::{Lab, until};

type Received = Arc<Mutex<Vec<String>>>;

/// Answers as long as `is_up` says so.
async fn webhook(is_up: Arc<Mutex<bool>>) -> (u16, Received) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let (port, received) = (listener.local_addr().unwrap().port(), Received::default());
    let requests = received.clone();
    tokio::spawn(async move {
        loop {
            let (mut stream, _) = listener.accept().await.unwrap();
            let request = request(&mut stream).await;
            let up = *is_up.lock().unwrap();
            let status = if up { "200 OK" } else { "503 Service Unavailable" };
            let answer = format!("HTTP/1.1 {status}\r\nContent-Length: 0\r\nConnection: close\r\n\r\n");
            stream.write_all(answer.as_bytes()).await.unwrap();
            requests.lock().unwrap().push(request);
        }
    });
    (port, received)
}

async fn request(stream: &mut TcpStream) -> String {
    let mut text = String::new();
    let mut part = [0; 4096];
    loop {
        let count = stream.read(&mut part).await.unwrap();
        text.push_str(&String::from_utf8_lossy(&part[..count]));
        let Some((head, body)) = text.split_once("\r\n\r\n") else { continue };
        let length =
            head.lines().find_map(|line| line.to_lowercase().strip_prefix("content-length: ")?.parse().ok());
        if body.len() >= length.unwrap_or(0) {
            return text;
        }
    }
}

async fn mail_server() -> (u16, Received) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let (port, received) = (listener.local_addr().unwrap().port(), Received::default());
    let mails = received.clone();
    tokio::spawn(async move {
        loop {
            let (stream, _) = listener.accept().await.unwrap();
            let mail = take_mail(BufReader::new(stream)).await;
            mails.lock().unwrap().push(mail);
        }
    });
    (port, received)
}

async fn take_mail(mut client: BufReader<TcpStream>) -> String {
    let (mut mail, mut is_data) = (String::new(), false);
    client.get_mut().write_all(b"220 mail.example.org\r\n").await.unwrap();
    loop {
        let mut line = String::new();
        if client.read_line(&mut line).await.unwrap() == 0 {
            return mail;
        }
        mail.push_str(&line);
        let answer = match line.trim_end() {
            "." if is_data => {
                is_data = false;
                "250 taken\r\n"
            }
            _ if is_data => continue,
            "DATA" => {
                is_data = true;
                "354 go on\r\n"
            }
            "QUIT" => "221 bye\r\n",
            hello if hello.starts_with("EHLO") => "250-mail.example.org\r\n250 8BITMIME\r\n",
            _ => "250 ok\r\n",
        };
        client.get_mut().write_all(answer.as_bytes()).await.unwrap();
    }
}

fn settings(webhook: u16, mail: u16) -> String {
    format!(
        r#","notify":{{"about":["rollout","drain","backup"],"every":3600,"text":"{{text}}",
        "webhook":{{"address":"http://127.0.0.1:{webhook}/s3cret","form":"json"}},
        "mail":{{"host":"127.0.0.1","port":{mail},"from":"kiln@c.internal","to":["ops@example.org"]}}}}"#
    )
}

fn count(received: &Received) -> usize {
    received.lock().unwrap().len()
}

#[tokio::test]
async fn what_matters_is_told_once_and_what_fails_is_tried_again() {
    let is_up = Arc::new(Mutex::new(true));
    let ((hook, posted), (smtp, mailed)) = (webhook(is_up.clone()).await, mail_server().await);
    let mut lab = Lab::new();
    // Nobody wanted to be told then.
    lab.store.log("", "rollout 1", "", "done").unwrap();
    lab.fleet_file("old", &settings(hook, smtp));
    lab.start();
    until("it begins", || lab.store.notified().unwrap().is_some()).await;
    lab.store.log("", "rollout 2", "", "started").unwrap();
    lab.store.log("", "look", "", "not asked for").unwrap();
    for node in ["n-0", "n-1", "n-2"] {
        lab.store.log(node, "rebuild", "no such image", "failed").unwrap();
    }
    until("both are told", || count(&posted) == 1 && count(&mailed) == 1).await;
    let post = posted.lock().unwrap()[0].clone();
    assert!(post.starts_with("POST /s3cret HTTP/1.1"), "{post}");
    assert!(post.contains(r#""title":"nodes were taken out of service""#), "{post}");
    assert!(post.contains("n-0: its rebuild failed: no such image"), "{post}");
    let mail = mailed.lock().unwrap()[0].clone();
    for text in [
        "MAIL FROM:<kiln@c.internal>\r\n",
        "RCPT TO:<ops@example.org>\r\n",
        "Subject: c: nodes were taken out of service\r\n",
        "n-0: its rebuild failed",
    ] {
        assert!(mail.contains(text), "{text}: {mail}");
    }
    // More of the same waits, something else does not; and a webhook that is away is asked again.
    *is_up.lock().unwrap() = false;
    lab.store.log("n-0", "rebuild", "no such image", "failed").unwrap();
    lab.store.log("", "rollout 2", "", "halted: 2 nodes failed").unwrap();
    until("it was tried", || count(&posted) == 2 && count(&mailed) == 2).await;
    assert!(mailed.lock().unwrap()[1].contains("Subject: c: rollout 2 has halted"));
    until("an event tells of it", || {
        let events = lab.store.events(None, 50).unwrap();
        events.iter().any(|event| {
            event.what == "notify"
                && event.why.contains("503")
                && event.outcome.starts_with("webhook: is tried again")
        })
    })
    .await;
    let waiting =
        lab.store.due_notices(kiln_fleet::store::now() + std::time::Duration::from_secs(120)).unwrap();
    assert_eq!(
        waiting.iter().map(|batch| batch.title.as_str()).collect::<Vec<_>>(),
        ["rollout 2 has halted"]
    );
    let shown = format!("{:?}", lab.store.events(None, 50).unwrap());
    assert!(!shown.contains("s3cret"), "{shown}");
    lab.stop().await;
}

#[tokio::test]
async fn a_mail_server_that_says_nothing_holds_nobody_up() {
    let (hook, posted) = webhook(Arc::new(Mutex::new(true))).await;
    // It takes connections, and that is all.
    let silent = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let mut lab = Lab::new();
    lab.fleet_file("old", &settings(hook, silent.local_addr().unwrap().port()));
    lab.start();
    until("it begins", || lab.store.notified().unwrap().is_some()).await;
    lab.store.log("", "rollout 1", "", "done").unwrap();
    let (_held, _) =
        tokio::time::timeout(std::time::Duration::from_secs(60), silent.accept()).await.unwrap().unwrap();
    lab.store.log("", "rollout 2", "", "done").unwrap();
    until("the webhook hears of both", || count(&posted) == 2).await;
    // Nor is kilnd's end held up.
    lab.stop().await;
}

#[tokio::test]
async fn a_test_message_tells_what_is_wrong() {
    let ((hook, posted), (smtp, _)) = (webhook(Arc::new(Mutex::new(true))).await, mail_server().await);
    let lab = Lab::new();
    lab.fleet_file("old", &settings(hook, smtp));
    let file = lab.fleet();
    let reports = kiln_fleet::notify::test("c", file.notify.as_ref()).await.unwrap();
    assert!(reports.iter().all(|report| report.problem.is_none()), "{reports:?}");
    assert!(posted.lock().unwrap()[0].contains("kiln notify test"));
    // Nobody listens there.
    lab.fleet_file("old", &settings(1, 1));
    let reports = kiln_fleet::notify::test("c", lab.fleet().notify.as_ref()).await.unwrap();
    assert_eq!(reports.len(), 2);
    for report in reports {
        let problem = report.problem.unwrap();
        assert!(problem.contains("refused") && !problem.contains("s3cret"), "{problem}");
    }
    assert!(kiln_fleet::notify::test("c", None).await.is_none());
}
