//! What is measured: each subject as a process of its own, started fresh for a round, on a ledger of its own.

use std::fs;
use std::io::{self, BufRead as _, BufReader};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use crate::load::Tongue;

/// A subject of the comparison.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Subject {
    /// This product.
    Oncegate,
    /// (a) the same forwarding without a ledger.
    Forward,
    /// (b) a ledger connection per thread, autocommit.
    Autocommit,
    /// (c) a small Python relay.
    Python,
    /// (d) nginx, which forwards the core's own JSON.
    Nginx,
}

impl Subject {
    pub fn name(self) -> &'static str {
        match self {
            Subject::Oncegate => "oncegate",
            Subject::Forward => "(a) no ledger",
            Subject::Autocommit => "(b) autocommit",
            Subject::Python => "(c) python",
            Subject::Nginx => "(d) nginx",
        }
    }

    /// How it is spoken to when the front is `front`; none if it has no such front or is not installed.
    pub fn tongue(self, front: Tongue) -> Option<Tongue> {
        match (self, front) {
            (Subject::Oncegate | Subject::Forward, front) => Some(front),
            (Subject::Autocommit, Tongue::Tcp) => Some(Tongue::Tcp),
            (Subject::Python, Tongue::Tcp) => installed("python3").then_some(Tongue::Tcp),
            (Subject::Nginx, Tongue::Http) => installed("nginx").then_some(Tongue::Json),
            _ => None,
        }
    }
}

fn installed(program: &str) -> bool {
    let paths = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&paths).any(|path| path.join(program).is_file())
}

/// A process that ends with its value.
pub struct Process {
    child: Child,
    ready: String,
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Process {
    /// Starts it and waits for its line on stdout that begins with `ready`.
    pub fn start(command: &mut Command) -> io::Result<Process> {
        let child = command.stdin(Stdio::null()).stdout(Stdio::piped()).spawn()?;
        let mut process = Process { child, ready: String::new() };
        let stdout = process.child.stdout.take().expect("piped");
        BufReader::new(stdout).read_line(&mut process.ready)?;
        if process.ready.starts_with("ready") {
            return Ok(process);
        }
        Err(io::Error::other(format!("{} did not start", command.get_program().display())))
    }

    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// The address after `name=` in the ready line.
    pub fn address(&self, name: &str) -> Option<SocketAddr> {
        self.ready
            .split_whitespace()
            .find_map(|word| word.strip_prefix(name)?.strip_prefix('=')?.parse().ok())
    }
}

/// The core, whose SLOW calls take `slow` seconds.
pub fn core(slow: &str) -> io::Result<Process> {
    Process::start(Command::new(std::env::current_exe()?).args(["role", "core", slow]))
}

/// Starts a subject before the core at `core`, with its files in `directory` (emptied first).
pub fn start(subject: Subject, core: SocketAddr, directory: &Path) -> io::Result<Process> {
    let _ = fs::remove_dir_all(directory);
    fs::create_dir_all(directory)?;
    let (db, url) = (directory.join("ledger.db"), format!("http://{core}"));
    let role = |role: &str| -> io::Result<Command> {
        let mut command = Command::new(std::env::current_exe()?);
        command.args(["role", role, &url]);
        Ok(command)
    };
    match subject {
        Subject::Oncegate => Process::start(&mut oncegate(&db, &url)),
        Subject::Forward => Process::start(&mut role("forward")?),
        Subject::Autocommit => Process::start(role("autocommit")?.arg(&db)),
        Subject::Python => {
            let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("benches/relay/relay.py");
            Process::start(Command::new("python3").arg(script).arg(core.to_string()).arg(&db))
        }
        Subject::Nginx => nginx(core, directory),
    }
}

/// This product on the ledger at `db`, before the core at `url`.
pub fn oncegate(db: &Path, url: &str) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_oncegate"));
    command.args(["--serve", "--core", url, "--listen", "127.0.0.1:0", "--http", "127.0.0.1:0"]);
    command.args(["--admin", "127.0.0.1:0", "--read-timeout", "30", "--connect-timeout", "5"]);
    command.args(["--max-in-flight", "8192", "--db"]).arg(db).stderr(Stdio::null());
    command
}

fn nginx(core: SocketAddr, directory: &Path) -> io::Result<Process> {
    let port = std::net::TcpListener::bind("127.0.0.1:0")?.local_addr()?.port();
    let conf = directory.join("nginx.conf");
    fs::write(&conf, nginx_conf(core, directory, port))?;
    let child = Command::new("nginx").arg("-c").arg(&conf).stderr(Stdio::null()).spawn()?;
    let process = Process { child, ready: format!("ready http=127.0.0.1:{port}") };
    for _ in 0..500 {
        if std::net::TcpStream::connect(("127.0.0.1", port)).is_ok() {
            return Ok(process);
        }
        std::thread::sleep(std::time::Duration::from_millis(10));
    }
    Err(io::Error::other("nginx did not start"))
}

fn nginx_conf(core: SocketAddr, directory: &Path, port: u16) -> String {
    let files: PathBuf = directory.to_owned();
    let files = files.display();
    format!(
        "daemon off; master_process off; pid {files}/nginx.pid; error_log /dev/null; worker_rlimit_nofile 65536;
events {{ worker_connections 16384; }}
http {{ access_log off; client_body_temp_path {files}/b; proxy_temp_path {files}/p; fastcgi_temp_path {files}/f;
  uwsgi_temp_path {files}/u; scgi_temp_path {files}/s; keepalive_requests 100000000;
  upstream core {{ server {core}; keepalive 1024; keepalive_requests 100000000; }}
  server {{ listen 127.0.0.1:{port} backlog=4096;
    location / {{ proxy_pass http://core; proxy_http_version 1.1; proxy_set_header Connection \"\"; }} }} }}"
    )
}
