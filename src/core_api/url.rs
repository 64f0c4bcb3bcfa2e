//! The address of the core, parsed once and strictly: what is accepted here can be called.
//!
//! Makes no look-up: whether the name exists is found out at each connect.

use std::fmt;
use std::net::{IpAddr, Ipv6Addr};
use std::str::FromStr;

/// `http://host:port/base` or `https://…`: no user, query or fragment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CoreUrl {
    scheme: Scheme,
    host: Host,
    port: u16,
    /// Empty, or begins with `/` and does not end with one.
    base: String,
}

/// How the core is spoken to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scheme {
    /// Plain.
    Http,
    /// TLS.
    Https,
}

/// Where the core is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Host {
    /// Needs no look-up.
    Address(IpAddr),
    /// Is looked up at each connect.
    Name(String),
}

/// Why a text is no core URL.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("core URL {url:?}: {what}")]
pub struct BadCoreUrl {
    /// The text.
    pub url: String,
    /// What is wrong with it.
    pub what: &'static str,
}

impl CoreUrl {
    /// How it is spoken to.
    #[must_use]
    pub const fn scheme(&self) -> Scheme {
        self.scheme
    }

    /// Where it is.
    #[must_use]
    pub const fn host(&self) -> &Host {
        &self.host
    }

    /// Its port.
    #[must_use]
    pub const fn port(&self) -> u16 {
        self.port
    }

    /// `host:port`, as people and the history read it.
    #[must_use]
    pub fn authority(&self) -> String {
        format!("{}:{}", self.host, self.port)
    }
}

impl fmt::Display for CoreUrl {
    /// Without a `/` at the end, so that a call's path can follow.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let scheme = match self.scheme {
            Scheme::Http => "http",
            Scheme::Https => "https",
        };
        write!(f, "{scheme}://{}:{}{}", self.host, self.port, self.base)
    }
}

impl fmt::Display for Host {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Host::Address(IpAddr::V6(address)) => write!(f, "[{address}]"),
            Host::Address(IpAddr::V4(address)) => address.fmt(f),
            Host::Name(name) => f.write_str(name),
        }
    }
}

impl FromStr for CoreUrl {
    type Err = BadCoreUrl;

    fn from_str(url: &str) -> Result<CoreUrl, BadCoreUrl> {
        parse(url).map_err(|what| BadCoreUrl { url: url.to_owned(), what })
    }
}

fn parse(url: &str) -> Result<CoreUrl, &'static str> {
    let (scheme, rest) = url.split_once("://").ok_or("does not begin with http:// or https://")?;
    let scheme = match scheme.to_ascii_lowercase().as_str() {
        "http" => Scheme::Http,
        "https" => Scheme::Https,
        _ => return Err("does not begin with http:// or https://"),
    };
    if !rest.bytes().all(|b| b.is_ascii_graphic()) {
        return Err("has a character that is no printable ASCII");
    }
    if rest.contains(['?', '#']) {
        return Err("may have neither a query nor a fragment");
    }
    let (authority, path) = rest.find('/').map_or((rest, ""), |at| rest.split_at(at));
    if authority.contains('@') {
        return Err("may hold neither a user nor a password");
    }
    let (host, port) = split_port(authority)?;
    Ok(CoreUrl {
        scheme,
        host: parse_host(host)?,
        port: parse_port(port, scheme)?,
        base: parse_base(path)?,
    })
}

/// The host, brackets and all, and what follows its colon.
fn split_port(authority: &str) -> Result<(&str, Option<&str>), &'static str> {
    let after_host = authority.rfind(']').map_or(0, |bracket| bracket + 1);
    match authority[after_host..].find(':') {
        Some(colon) => {
            let (host, port) = authority.split_at(after_host + colon);
            Ok((host, Some(&port[1..])))
        }
        None if after_host == 0 || after_host == authority.len() => Ok((authority, None)),
        None => Err("has something else than a port behind its address"),
    }
}

fn parse_host(host: &str) -> Result<Host, &'static str> {
    if let Some(inner) = host.strip_prefix('[').and_then(|host| host.strip_suffix(']')) {
        let address: Ipv6Addr = inner.parse().map_err(|_| "has no IPv6 address in its brackets")?;
        return Ok(Host::Address(address.into()));
    }
    if let Ok(address) = host.parse() {
        return Ok(Host::Address(address));
    }
    if host.is_empty() {
        return Err("has no host");
    }
    if !host.bytes().all(|b| b.is_ascii_alphanumeric() || b"-._".contains(&b)) {
        return Err("has a host with a character that is in no host name");
    }
    Ok(Host::Name(host.to_ascii_lowercase()))
}

fn parse_port(port: Option<&str>, scheme: Scheme) -> Result<u16, &'static str> {
    match (port, scheme) {
        (None, Scheme::Http) => Ok(80),
        (None, Scheme::Https) => Ok(443),
        (Some(digits), _) => Some(digits)
            .filter(|digits| digits.bytes().all(|b| b.is_ascii_digit()))
            .and_then(|digits| digits.parse().ok())
            .filter(|port| *port != 0)
            .ok_or("has no port from 1 to 65535"),
    }
}

fn parse_base(path: &str) -> Result<String, &'static str> {
    let base = path.trim_end_matches('/');
    if base.split('/').any(|segment| segment == "." || segment == "..") {
        return Err("has a path with `.` or `..`");
    }
    if base.bytes().any(|b| b"\"<>\\^`{|}".contains(&b)) {
        return Err("has a path with a character that is in no path");
    }
    Ok(base.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_accepted_is_written_as_it_is_called() {
        for (given, written) in [
            ("http://127.0.0.1:9201", "http://127.0.0.1:9201"),
            ("HTTP://Core.Bank:9201/", "http://core.bank:9201"),
            ("http://core", "http://core:80"),
            ("https://core", "https://core:443"),
            ("https://[::1]:8443/api/v2/", "https://[::1]:8443/api/v2"),
            ("http://[::1]", "http://[::1]:80"),
        ] {
            let url: CoreUrl = given.parse().expect("a URL");
            assert_eq!(url.to_string(), written);
            assert!(format!("{url}/v1/transfers").parse::<ureq::http::Uri>().is_ok(), "{given}");
        }
    }

    #[test]
    fn what_is_refused_is_named() {
        for (given, word) in [
            ("nonsense", "http://"),
            ("", "http://"),
            ("ftp://core:1", "http://"),
            ("core:9201", "http://"),
            ("http://", "no host"),
            ("http://:9201", "no host"),
            ("http://core:0", "port"),
            ("http://core:65536", "port"),
            ("http://core:", "port"),
            ("http://core:+80", "port"),
            ("http://core:80:80", "port"),
            ("http://me:secret@core:1", "user"),
            ("http://core:1/a?b", "query"),
            ("http://core:1/a#b", "fragment"),
            ("http://core:1/../a", ".."),
            ("http://core:1/a b", "printable"),
            ("http://코어:1", "printable"),
            ("http://co,re:1", "host name"),
            ("http://[::g]:1", "IPv6"),
            ("http://[::1]x:1", "host name"),
            ("http://[::1]x", "behind"),
        ] {
            let error = given.parse::<CoreUrl>().expect_err("refused").to_string();
            assert!(error.contains(word) && error.contains(given), "{given}: {error}");
        }
    }
}
