//! Typical work of ordinary crates, in workers with the default stack, or with one of this many
//! KiB: `ordinary [KiB]`. An overflow ends the process with a message.
//!
//! Built without optimisation, where frames are largest.

use rustls::pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer, ServerName};
use rustls::{
    ClientConfig, ClientConnection, RootCertStore, ServerConfig, ServerConnection, StreamOwned,
};
use std::error::Error;
use std::io::{Read, Write};
use std::os::unix::net::UnixStream as Socket;
use std::sync::Arc;

type Result<T> = std::result::Result<T, Box<dyn Error + Send + Sync>>;

/// A certificate for `localhost`, signed by its own key, for a hundred years.
const CERTIFICATE: &[u8] = include_bytes!("cert.der");
const KEY: &[u8] = include_bytes!("key.der");

/// How deep the values are nested, an object and an array by turns: half of the depth that
/// serde_json allows.
const DEPTH: usize = 64;

fn regex() -> Result<()> {
    let word = regex::Regex::new(concat!(
        r"(?i)^(?P<name>[\p{L}\d._%+-]+)@(?:(?P<host>[\w-]+)\.)+(?P<top>\p{L}{2,24})",
        r"(?:\s*,\s*(?:[^,;]{1,64}|\([^)]*\)))*$"
    ))?;
    let found = word
        .captures("ophelia@water.example.org, (drowned)")
        .ok_or("no match")?;
    assert_eq!(&found["top"], "org");
    assert!(
        regex::RegexSet::new([r"\bw+\b", r"(a|b|(c|d)+)*e{3,9}", r"[^\s]+$"])?.is_match("water")
    );
    Ok(())
}

fn json() -> Result<()> {
    let text = r#"{"inside":["#.repeat(DEPTH / 2) + "1" + &"]}".repeat(DEPTH / 2);
    let value: serde_json::Value = serde_json::from_str(&text)?;
    assert_eq!(serde_json::to_string(&value)?, text);
    assert!(serde_json::to_string_pretty(&value)?.len() > text.len());
    assert_eq!(value.clone(), value);
    Ok(())
}

fn greet(mut stream: impl Read + Write, words: &[u8; 5]) -> Result<()> {
    stream.write_all(words)?;
    stream.flush()?;
    let mut answer = [0; 5];
    stream.read_exact(&mut answer)?;
    assert_eq!(&answer, words);
    Ok(())
}

fn server(socket: Socket) -> Result<()> {
    let key = PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(KEY));
    let config = ServerConfig::builder()
        .with_no_client_auth()
        .with_single_cert(vec![CertificateDer::from(CERTIFICATE)], key)?;
    greet(
        StreamOwned::new(ServerConnection::new(Arc::new(config))?, Blocking(socket)),
        b"hello",
    )
}

fn client(socket: Socket, version: &'static rustls::SupportedProtocolVersion) -> Result<()> {
    let mut roots = RootCertStore::empty();
    roots.add(CertificateDer::from(CERTIFICATE))?;
    let config = ClientConfig::builder_with_protocol_versions(&[version])
        .with_root_certificates(roots)
        .with_no_client_auth();
    let connection = ClientConnection::new(Arc::new(config), ServerName::try_from("localhost")?)?;
    greet(StreamOwned::new(connection, Blocking(socket)), b"hello")
}

/// A socket that blocks: each call is made on a helper thread.
struct Blocking(Socket);

impl Read for Blocking {
    fn read(&mut self, bytes: &mut [u8]) -> std::io::Result<usize> {
        umcg::blocking(|| self.0.read(bytes))
    }
}

impl Write for Blocking {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        umcg::blocking(|| self.0.write(bytes))
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

fn worker(
    name: &str,
    stack_size: usize,
    f: impl FnOnce() -> Result<()> + Send + 'static,
) -> umcg::JoinHandle<Result<()>> {
    umcg::Builder::new()
        .name(name)
        .stack_size(stack_size)
        .spawn(f)
        .unwrap()
}

fn main() -> Result<()> {
    let stack_size = std::env::args()
        .nth(1)
        .map_or(Ok(0), |kib| kib.parse::<usize>())?
        << 10;
    let only = std::env::args().nth(2);
    let wanted = |name: &str| only.as_deref().is_none_or(|only| only == name);
    if wanted("regex") {
        worker("regex", stack_size, regex).join().unwrap()?;
    }
    if wanted("json") {
        worker("json", stack_size, json).join().unwrap()?;
    }
    for version in [&rustls::version::TLS12, &rustls::version::TLS13] {
        if wanted("tls") {
            let (ours, theirs) = Socket::pair()?;
            let server = worker("tls server", stack_size, || server(ours));
            worker("tls client", stack_size, || client(theirs, version))
                .join()
                .unwrap()?;
            server.join().unwrap()?;
        }
    }
    println!("regex, serde_json and rustls: all of it fits");
    Ok(())
}
