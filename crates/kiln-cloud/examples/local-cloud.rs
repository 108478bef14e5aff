//! The two verbs of the `kiln` program that the local cloud starts itself, for this crate's own tests.

use std::path::Path;
use std::process::ExitCode;

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    tracing_subscriber::fmt().with_writer(std::io::stderr).with_ansi(false).init();
    let result = match args.as_slice() {
        ["local", "daemon", "--root", root] => match tokio::runtime::Runtime::new() {
            Ok(runtime) => runtime.block_on(kiln_cloud::local::serve(Path::new(root))).map(|()| 0),
            Err(error) => Err(kiln_cloud::Error::failed(error.to_string())),
        },
        ["local", "instance", "--dir", dir] => kiln_cloud::local::run_instance(Path::new(dir)),
        // A stand-in for the real start-up, so that the unit in the image succeeds.
        ["node", "identity"] => Ok(0),
        // A client, as any verb is one.
        ["images", root] => match tokio::runtime::Runtime::new() {
            Ok(runtime) => runtime.block_on(kiln_cloud::Cloud::local(root.into()).images()).map(|_| 0),
            Err(error) => Err(kiln_cloud::Error::failed(error.to_string())),
        },
        _ => Err(kiln_cloud::Error::refused("usage: local daemon --root ROOT | local instance --dir DIR")),
    };
    match result {
        Ok(status) => ExitCode::from(u8::try_from(status).unwrap_or(1)),
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}
