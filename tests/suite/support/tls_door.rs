//! TLS before a core that speaks none: it ends TLS and passes on what was said, both ways.

use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};
use rustls::pki_types::PrivateKeyDer;
use rustls::{ServerConfig, ServerConnection, StreamOwned};

/// How long one side is listened to before the other is.
const TURN: Duration = Duration::from_millis(2);

/// A door. Its threads end with the test's process.
pub struct TlsDoor {
    address: SocketAddr,
    authority_pem: String,
    handshakes: Arc<AtomicUsize>,
}

impl TlsDoor {
    /// A door to the core at `core`, whose certificate is for `name`.
    pub fn to(core: &str, name: &str) -> TlsDoor {
        let core: SocketAddr = core.trim_start_matches("http://").parse().expect("an address");
        let (config, authority_pem) = certified(name);
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let address = listener.local_addr().expect("an address");
        let handshakes = Arc::new(AtomicUsize::new(0));
        let counted = Arc::clone(&handshakes);
        std::thread::spawn(move || {
            for inside in listener.incoming().map_while(Result::ok) {
                let (config, counted) = (Arc::clone(&config), Arc::clone(&counted));
                // An end on either side ends both; so does a certificate that is not believed.
                std::thread::spawn(move || pass(inside, config, core, &counted));
            }
        });
        TlsDoor { address, authority_pem, handshakes }
    }

    /// Its URL, under the name of this machine.
    pub fn url(&self) -> String {
        format!("https://localhost:{}", self.address.port())
    }

    /// Writes the certificate of the authority that has to be trusted.
    pub fn write_authority(&self, file: &Path) {
        std::fs::write(file, &self.authority_pem).expect("a file");
    }

    /// How many connections came as far as to be encrypted.
    pub fn handshakes(&self) -> usize {
        self.handshakes.load(Ordering::SeqCst)
    }
}

/// A server's side with a certificate for `name`, and the authority that has signed it.
fn certified(name: &str) -> (Arc<ServerConfig>, String) {
    let mut authority = CertificateParams::new(Vec::new()).expect("parameters");
    authority.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let key = KeyPair::generate().expect("a key");
    let authority = CertifiedIssuer::self_signed(authority, key).expect("a certificate");
    let key = KeyPair::generate().expect("a key");
    let server = CertificateParams::new([name.to_owned()]).expect("a name");
    let server = server.signed_by(&key, &authority).expect("a certificate");
    let key = PrivateKeyDer::try_from(key.serialize_der()).expect("a key");
    let config =
        ServerConfig::builder_with_provider(rustls::crypto::ring::default_provider().into())
            .with_safe_default_protocol_versions()
            .expect("versions")
            .with_no_client_auth()
            .with_single_cert(vec![server.der().clone()], key)
            .expect("a key that fits its certificate");
    (Arc::new(config), authority.pem())
}

fn pass(
    mut inside: TcpStream,
    config: Arc<ServerConfig>,
    core: SocketAddr,
    handshakes: &AtomicUsize,
) -> std::io::Result<()> {
    let mut tls = ServerConnection::new(config).expect("a configuration");
    while tls.is_handshaking() {
        tls.complete_io(&mut inside)?;
    }
    handshakes.fetch_add(1, Ordering::SeqCst);
    let mut outside = TcpStream::connect(core)?;
    inside.set_read_timeout(Some(TURN))?;
    outside.set_read_timeout(Some(TURN))?;
    let mut inside = StreamOwned::new(tls, inside);
    while turn(&mut inside, &mut outside)? && turn(&mut outside, &mut inside)? {}
    Ok(())
}

/// Passes on what one side has said within its turn; false: it has ended.
fn turn(from: &mut impl Read, to: &mut impl Write) -> std::io::Result<bool> {
    let mut said = [0; 4096];
    match from.read(&mut said) {
        Ok(0) => Ok(false),
        Ok(bytes) => {
            to.write_all(&said[..bytes])?;
            to.flush()?;
            Ok(true)
        }
        Err(e) if matches!(e.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => Ok(true),
        Err(e) => Err(e),
    }
}
