//! `oncegate send`: one telegram as a channel sends it, and its reply for people.

use std::collections::BTreeMap;
use std::io::Read;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use clap::Args;

use super::args::{Failure, LayoutArg, Usage, address, positive_seconds};
use super::fields::{self, Sensitive};
use super::look::clock;
use super::out::Out;
use super::show::code_words;
use crate::channel::{Channel, HttpUrl, NoReply, new_guid, post};
use crate::code::Code;
use crate::limits;
use crate::telegram::{DescribedField, Layout, Role};
use crate::visible::visible;

const EXAMPLES: &str = "\
Examples:
  oncegate send --to 127.0.0.1:9101 --from 110123456789 --to-acct 302098 --amount 150000
  oncegate send --to 127.0.0.1:9101 --from 110123456789 --to-acct 302098 --amount 5 --memo RESET
  oncegate send --to 127.0.0.1:9101 --guid GUID --from 110123456789 --to-acct 302098 --amount 5
  oncegate send --to http://127.0.0.1:9102/telegram --raw telegram.bin
  oncegate send --to 127.0.0.1:9101 --layout bank.toml --tx 0200 --field acct=110 --field sum=5

A telegram needs --from, --to-acct and --amount, or --field for the fields of another layout, or --raw. After \
\"no answer\" send the same GUID again: the relay answers with what it knows, and no money moves twice.

Exit codes: 0 the reply is 0000, 3 it is another code, 1 there is no reply, 2 usage.";

/// Send one telegram to a relay and show the reply
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct SendArgs {
    /// The relay: HOST:PORT (TCP), or http://HOST:PORT/telegram
    #[arg(long, value_name = "ADDR", value_parser = target)]
    to: Target,
    /// The GUID [default: a new one, printed]
    #[arg(long, value_name = "GUID", conflicts_with = "raw")]
    guid: Option<String>,
    /// The account that pays (the field `from_acct`)
    #[arg(long, value_name = "ACCT", conflicts_with = "raw",
          required_unless_present_any = ["raw", "field"])]
    from: Option<String>,
    /// The account that is paid (the field `to_acct`)
    #[arg(long, value_name = "ACCT", conflicts_with = "raw",
          required_unless_present_any = ["raw", "field"])]
    to_acct: Option<String>,
    /// The amount (the field `amount`)
    #[arg(long, value_name = "N", conflicts_with = "raw",
          required_unless_present_any = ["raw", "field"])]
    amount: Option<u64>,
    /// The memo (the field `memo`); its leading word steers the simulated core (`oncegate core --help`)
    #[arg(long, value_name = "TEXT", conflicts_with = "raw")]
    memo: Option<String>,
    /// Any other field of the header or the body (may be given more than once)
    #[arg(long, value_name = "NAME=VALUE", value_parser = field, conflicts_with = "raw")]
    field: Vec<(String, String)>,
    /// The transaction [default: the layout's first]
    #[arg(long, value_name = "CODE", conflicts_with = "raw")]
    tx: Option<String>,
    /// Send the bytes of this file as they are (`-`: standard input)
    #[arg(long, value_name = "FILE")]
    raw: Option<PathBuf>,
    /// How long to wait for the reply
    #[arg(long, value_name = "SECS", default_value = "10", value_parser = positive_seconds)]
    timeout: Duration,
    /// Show sensitive fields of the reply
    #[arg(long)]
    reveal: bool,
    #[command(flatten)]
    layout: LayoutArg,
}

/// Where a telegram goes.
#[derive(Clone, Debug)]
enum Target {
    Tcp(String),
    Http(HttpUrl),
}

fn target(text: &str) -> Result<Target, String> {
    if text.contains("://") {
        return HttpUrl::parse(text)
            .map(Target::Http)
            .ok_or_else(|| "not http://HOST:PORT/telegram".to_owned());
    }
    match address(text)?.0 {
        Some(address) => Ok(Target::Tcp(address)),
        None => Err("not HOST:PORT".to_owned()),
    }
}

fn field(text: &str) -> Result<(String, String), String> {
    let (name, value) = text.split_once('=').ok_or("not NAME=VALUE")?;
    Ok((name.to_owned(), value.to_owned()))
}

pub(super) fn send(args: &SendArgs) -> Result<ExitCode, Failure> {
    let layout = args.layout.read()?;
    let telegram = args.telegram(&layout)?;
    let mut out = Out::new();
    out.line(&sending(&layout, &telegram, args));
    let reply = args.ask(&layout, &telegram).map_err(Failure::failed)?;
    let code = layout.reply_code(&reply);
    let sensitive = Sensitive::of(args.reveal);
    out.line(&format!("reply {}, {} bytes", code_words(code.as_deref()), reply.len()));
    out.lines(&fields::table(&layout, &reply, sensitive));
    out.lines(&fields::hex(&layout, &reply, sensitive));
    out.end().map_err(Failure::failed)?;
    let done = code.as_deref() == Some(Code::Done.as_str());
    Ok(ExitCode::from(if done { 0 } else { 3 }))
}

impl SendArgs {
    fn telegram(&self, layout: &Layout) -> Result<Vec<u8>, Failure> {
        if let Some(path) = &self.raw {
            return read(path);
        }
        let usage = |text: String| Failure::from(Usage::Text(text));
        let first = layout.tx_codes().next().unwrap_or_default();
        let tx_code = self.tx.as_deref().unwrap_or(first);
        let values = self.values(layout).map_err(usage)?;
        layout.encode_request(tx_code, &values).map_err(|error| usage(error.to_string()))
    }

    /// The values by field name: those of options, then those of `--field`, then what a telegram of the default layout has.
    fn values(&self, layout: &Layout) -> Result<BTreeMap<String, String>, String> {
        let options = [
            ("from_acct", self.from.clone()),
            ("to_acct", self.to_acct.clone()),
            ("amount", self.amount.map(|amount| amount.to_string())),
            ("memo", self.memo.clone()),
        ];
        let mut values: BTreeMap<String, String> = options
            .into_iter()
            .filter_map(|(name, value)| value.map(|value| (name.to_owned(), value)))
            .chain(self.field.iter().cloned())
            .collect();
        self.put_guid(layout, &mut values)?;
        put_time(layout, &mut values);
        Ok(values)
    }

    fn put_guid(
        &self,
        layout: &Layout,
        values: &mut BTreeMap<String, String>,
    ) -> Result<(), String> {
        let header = layout.describe(&[]);
        let parts: Vec<&DescribedField> =
            header.iter().filter(|field| field.role == Some(Role::Guid)).collect();
        match (&parts[..], &self.guid) {
            ([only], given) => {
                let new = || new_guid(clock().now(), std::process::id());
                let guid = given.clone().unwrap_or_else(new);
                // A shorter field takes the end, which differs most.
                let cut = guid.len().saturating_sub(only.length);
                let guid = if given.is_none() { guid[cut..].to_owned() } else { guid };
                values.entry(only.name.clone()).or_insert(guid);
                Ok(())
            }
            (_, None) => Ok(()),
            (_, Some(_)) => {
                let names: Vec<&str> = parts.iter().map(|part| part.name.as_str()).collect();
                Err(format!(
                    "--guid: the key of layout {} has several fields; give each with --field: {}",
                    layout.name(),
                    names.join(", ")
                ))
            }
        }
    }

    fn ask(&self, layout: &Layout, telegram: &[u8]) -> Result<Vec<u8>, NoReply> {
        match &self.to {
            Target::Tcp(address) => {
                Channel::connect(address, layout, self.timeout)?.ask(telegram, self.timeout)
            }
            Target::Http(url) => post(url, telegram, self.timeout),
        }
    }
}

/// The request's time, where the layout has a field of that name and nobody gave it.
fn put_time(layout: &Layout, values: &mut BTreeMap<String, String>) {
    const NAME: &str = "req_dtm";
    let length = layout.describe(&[]).iter().find(|f| f.name == NAME).map(|field| field.length);
    let now = clock().now();
    let text = match length {
        Some(14) => now.format("%Y%m%d%H%M%S").to_string(),
        Some(17) => now.format("%Y%m%d%H%M%S%3f").to_string(),
        _ => return,
    };
    values.entry(NAME.to_owned()).or_insert(text);
}

fn sending(layout: &Layout, telegram: &[u8], args: &SendArgs) -> String {
    let to = match &args.to {
        Target::Tcp(address) => address.clone(),
        Target::Http(url) => format!("http://{}{}", url.authority, url.path),
    };
    let guid = match layout.decode_request(telegram) {
        Ok(request) => format!("guid {}", request.guid()),
        Err(malformed) => format!("malformed: {malformed}"),
    };
    visible(&format!("sending {} bytes to {to}, {guid}", telegram.len()))
}

fn read(path: &std::path::Path) -> Result<Vec<u8>, Failure> {
    let mut bytes = Vec::new();
    // One byte more than the limit: enough to see that it is too long.
    let most = limits::TELEGRAM_BYTES_MAX as u64 + 1;
    let read = if path.as_os_str() == "-" {
        std::io::stdin().lock().take(most).read_to_end(&mut bytes)
    } else {
        std::fs::File::open(path).and_then(|file| file.take(most).read_to_end(&mut bytes))
    };
    let refuse = |why: String| Usage::Text(format!("--raw {}: {why}", path.display()));
    read.map_err(|error| refuse(error.to_string()))?;
    match bytes.len() {
        0 => Err(refuse("it is empty".to_owned()).into()),
        1..=limits::TELEGRAM_BYTES_MAX => Ok(bytes),
        _ => Err(refuse(format!("more than {} bytes", limits::TELEGRAM_BYTES_MAX)).into()),
    }
}
