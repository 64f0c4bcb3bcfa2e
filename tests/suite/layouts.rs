//! The relay on layouts of others, end to end over TCP with their own framing: a key of several fields and no GUID (A), a
//! progress number and a tx code in two fields (C). Nothing but the layout file differs.
#![expect(clippy::unwrap_used, reason = "a test that can't go on has failed")]

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::process::Command;
use std::sync::atomic::{AtomicUsize, Ordering};

use oncegate::telegram::Layout;

use crate::support::channel::Channel;
use crate::support::relays::{Relay, World};

/// A layout of another bank, and how its telegrams are read and written by hand.
struct Link {
    file: &'static str,
    tx_code: &'static str,
    /// Digits of the length field, which counts what follows it.
    digits: usize,
    /// Where a reply's code stands, and its bytes.
    code_at: usize,
    code_bytes: usize,
    /// Where a reply says that it is one.
    kind: (usize, &'static str),
    reply_bytes: usize,
    /// The header fields of the n-th key.
    key: fn(usize) -> Vec<(&'static str, String)>,
    /// The field in which the core reads its orders.
    memo: &'static str,
}

const FIRM_BANKING: Link = Link {
    file: "a_firm_banking.toml",
    tx_code: "100",
    digits: 4,
    code_at: 49,
    code_bytes: 4,
    kind: (23, "0210"),
    reply_bytes: 134,
    key: |n| {
        let pairs = [("company", "HANBIT01".to_owned()), ("number", format!("{n:06}"))];
        pairs.into_iter().chain([("date", "261129".to_owned())]).collect()
    },
    memo: "holder",
};

const EXCHANGE: Link = Link {
    file: "c_exchange.toml",
    tx_code: "BANKING PAY1",
    digits: 8,
    code_at: 102,
    code_bytes: 8,
    kind: (87, "R"),
    reply_bytes: 284,
    key: |n| vec![("key", format!("261129SYSTEM01{n:016}"))],
    memo: "to_acct",
};

struct Bank {
    link: &'static Link,
    layout: Layout,
    world: World,
}

impl Link {
    fn path(&self) -> PathBuf {
        PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/layouts").join(self.file)
    }

    fn code(&self, reply: &[u8]) -> String {
        assert_eq!(reply.len(), self.reply_bytes);
        let (at, kind) = self.kind;
        assert_eq!(&reply[at..at + kind.len()], kind.as_bytes(), "a reply says that it is one");
        let code = &reply[self.code_at..self.code_at + self.code_bytes];
        String::from_utf8(code.to_vec()).unwrap().trim_end().to_owned()
    }
}

impl Bank {
    fn new(link: &'static Link, world: World) -> Bank {
        Bank { link, layout: Layout::read(&link.path()).unwrap(), world }
    }

    fn relay(&self) -> Relay {
        self.world.relay_with(|config| config.layout = self.layout.clone())
    }

    /// A telegram under a key that nobody has used, and the key as the ledger has it.
    fn telegram(&self, memo: &str, amount: u64) -> (Vec<u8>, String) {
        static SERIAL: AtomicUsize = AtomicUsize::new(1);
        let key = (self.link.key)(SERIAL.fetch_add(1, Ordering::Relaxed));
        (self.under(&key, memo, amount), key.into_iter().map(|(_, value)| value).collect())
    }

    fn under(&self, key: &[(&str, String)], memo: &str, amount: u64) -> Vec<u8> {
        let mut values: BTreeMap<String, String> =
            key.iter().map(|(name, value)| ((*name).to_owned(), value.clone())).collect();
        values.insert(self.link.memo.to_owned(), memo.to_owned());
        values.insert("amount".to_owned(), amount.to_string());
        self.layout.encode_request(self.link.tx_code, &values).unwrap()
    }

    fn ask(&self, channel: &mut Channel, telegram: &[u8]) -> (String, Vec<u8>) {
        std::io::Write::write_all(&mut channel.0, telegram).unwrap();
        let reply = channel.read_with(self.link.digits).unwrap();
        (self.link.code(&reply), reply)
    }

    fn routine(&self, arguments: &[&str]) -> (i32, serde_json::Value) {
        let layout = self.link.path();
        let layout = ["--layout", layout.to_str().unwrap()];
        self.world.routine(&[arguments, &layout].concat())
    }
}

fn the_relay_runs_on(link: &'static Link) {
    let bank = Bank::new(link, World::down());
    let relay = bank.relay();
    let mut channel = relay.at.connect();
    let (failed, failed_key) = bank.telegram("", 700);
    assert_eq!(bank.ask(&mut channel, &failed).0, "E902");
    assert_eq!(bank.world.ledger.told(&failed_key), "FAILED E902 1");
    bank.world.core.up();
    a_transfer_is_made_and_replayed(&bank, &mut channel);
    an_unknown_is_settled_by_an_inquiry(&bank, &mut channel);
    let (exit, summary) = bank.routine(&["reprocess", "--max-attempts", "3"]);
    assert_eq!((exit, summary["done"].as_u64()), (0, Some(1)), "{summary}");
    let row = bank.world.ledger.row(&failed_key);
    assert_eq!((row.told().as_str(), &row.request), ("DONE 0000 2", &failed));
    let (code, reply) = bank.ask(&mut channel, &failed);
    assert_eq!((code.as_str(), Some(reply)), ("0000", row.response));
    assert_eq!(bank.world.core.calls(&failed_key), 1);
    assert_eq!(bank.ask(&mut channel, &bank.telegram("REJECT", 1).0).0, "C051");
    let states = "SELECT count(*) FROM tx WHERE state <> 'DONE'";
    assert_eq!(bank.world.ledger.number(states), 0);
}

fn a_transfer_is_made_and_replayed(bank: &Bank, channel: &mut Channel) {
    let core = &bank.world.core;
    let (telegram, key) = bank.telegram("", 150_000);
    let (told, reply) = bank.ask(channel, &telegram);
    assert_eq!(told, "0000");
    let row = bank.world.ledger.row(&key);
    assert_eq!((row.told().as_str(), row.tx_code.as_str()), ("DONE 0000 1", bank.link.tx_code));
    assert_eq!((&row.request, &row.response), (&telegram, &Some(reply.clone())));
    let asked = &core.books().requests[&key];
    assert_eq!((asked["guid"].as_str(), asked["amount"].as_u64()), (Some(&*key), Some(150_000)));
    assert_eq!(bank.ask(channel, &telegram).1, reply, "byte for byte");
    assert_eq!(bank.ask(&mut bank.relay().at.connect(), &telegram).1, reply);
    // The last digit of the amount; the header is as it was.
    let amount_ends = telegram.iter().rposition(|b| b"123456789".contains(b)).unwrap();
    let mut other = telegram.clone();
    other[amount_ends] = b'9';
    assert_eq!(bank.ask(channel, &other).0, "E904");
    let mut malformed = telegram.clone();
    malformed[amount_ends] = b'x';
    assert_eq!(bank.ask(channel, &malformed).0, "E900");
    assert_eq!((core.calls(&key), bank.world.ledger.row(&key)), (1, row));
}

fn an_unknown_is_settled_by_an_inquiry(bank: &Bank, channel: &mut Channel) {
    let (telegram, key) = bank.telegram("RESET", 2_000);
    for _ in 0..2 {
        assert_eq!(bank.ask(channel, &telegram).0, "E901");
    }
    assert_eq!(bank.world.ledger.told(&key), "UNKNOWN E901 1");
    bank.world.ledger.age(&key, 300);
    let (exit, summary) = bank.routine(&["resolve", "--min-age", "60"]);
    assert_eq!((exit, summary["done"].as_u64()), (0, Some(1)), "{summary}");
    assert_eq!(bank.world.core.books().inquiries, [key.as_str()]);
    let stored = bank.world.ledger.row(&key).response.unwrap();
    assert_eq!(bank.ask(channel, &telegram), ("0000".to_owned(), stored));
    assert_eq!(bank.world.core.calls(&key), 1);
}

#[test]
fn the_relay_runs_on_a_firm_banking_link_whose_key_is_company_number_and_date() {
    the_relay_runs_on(&FIRM_BANKING);
}

#[test]
fn the_relay_runs_on_an_exchange_header_whose_progress_number_is_no_part_of_the_key() {
    the_relay_runs_on(&EXCHANGE);
}

#[test]
fn each_part_of_a_key_counts_and_what_stands_beside_it_does_not() {
    let bank = Bank::new(&FIRM_BANKING, World::new());
    let relay = bank.relay();
    let mut channel = relay.at.connect();
    let key = |company: &str, number: &str, date: &str| {
        [("company", company), ("number", number), ("date", date)]
            .map(|(name, value)| (name, value.to_owned()))
    };
    let first = key("HANBIT01", "000001", "261129");
    let others = [
        key("HANBIT02", "000001", "261129"),
        key("HANBIT01", "000002", "261129"),
        key("HANBIT01", "000001", "261130"),
    ];
    let (_, reply) = bank.ask(&mut channel, &bank.under(&first, "", 1));
    for other in &others {
        assert_eq!(bank.ask(&mut channel, &bank.under(other, "", 1)).0, "0000");
    }
    assert_eq!(bank.world.core.books().calls.len(), 4);
    let mut resent = bank.under(&first, "", 1);
    let send_count = 30;
    resent[send_count] = b'2';
    assert_eq!(bank.ask(&mut channel, &resent).1, reply);
    assert_eq!(bank.world.core.calls("HANBIT01000001261129"), 1);
}

#[test]
fn the_progress_number_rises_in_the_reply_and_a_resend_with_another_one_is_a_resend() {
    let bank = Bank::new(&EXCHANGE, World::new());
    let relay = bank.relay();
    let mut channel = relay.at.connect();
    let (telegram, key) = bank.telegram("", 1);
    let (_, reply) = bank.ask(&mut channel, &telegram);
    assert_eq!((&telegram[38..40], &reply[38..40]), (b"01".as_slice(), b"02".as_slice()));
    let mut resent = telegram;
    resent[38..40].copy_from_slice(b"07");
    assert_eq!(bank.ask(&mut channel, &resent).1, reply);
    assert_eq!(bank.world.core.calls(&key), 1);
}

#[test]
fn the_real_program_serves_a_layout_from_a_file_and_refuses_one_that_does_not_add_up() {
    let bank = Bank::new(&FIRM_BANKING, World::new());
    let layout = bank.link.path();
    let relay = bank.world.process(&["--layout", layout.to_str().unwrap()]);
    let (telegram, key) = bank.telegram("", 1);
    assert_eq!(bank.ask(&mut relay.at.connect(), &telegram).0, "0000");
    assert_eq!(bank.world.ledger.told(&key), "DONE 0000 1");
    let wrong = bank.world.ledger.path().with_extension("toml");
    let text = std::fs::read_to_string(&layout).unwrap().replace("length = 104", "length = 105");
    std::fs::write(&wrong, text).unwrap();
    let other = bank.world.ledger.path().with_extension("other");
    let mut command: Command = crate::support::relays::program();
    command.args(["--serve", "--core", &bank.world.core.url(), "--listen", "127.0.0.1:0"]);
    let output = command.arg("--db").arg(&other).arg("--layout").arg(&wrong).output().unwrap();
    let said = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(2), "{said}");
    assert!(said.contains("104") && said.contains("105"), "both sums: {said}");
    assert!(!other.exists());
}
