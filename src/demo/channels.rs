//! The demo's channels: each sends its transfers one after the other, gives up waiting sooner than the relay does, and sends the
//! same telegram again, as channels do.
//!
//! What they send is decided by a seed, so every demo asks for the same.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::time::Duration;

use super::{DemoError, is_final};
use crate::channel::{Channel, NoReply, new_guid};
use crate::clock::Clock;
use crate::code::Code;
use crate::telegram::{EncodeError, Layout};

/// Transfers of a channel that are sent while the core is down. The first is sent again by the channel, the others by reprocess.
const WHILE_DOWN: usize = 3;

/// What the core is told, by the memo's leading word, in the transfers that come while it is up. An empty word: it behaves.
const TRICKS: [&str; 17] = [
    "", "SLOW", "", "RESET", "REJECT", "", "HALF", "", "LATE", "", "GARBAGE", "", "E500", "",
    "MISMATCH", "", "",
];

/// How long a channel waits before it takes its answer for lost. Shorter than the relay's own wait, as it mostly is in life.
const PATIENCE: Duration = Duration::from_millis(400);

/// How long it waits when all is settled and the answer is on disk.
const PATIENCE_AT_THE_END: Duration = Duration::from_secs(10);

/// One in so many answers that did come is lost behind the relay, and the channel asks again.
const LOST_ONE_IN: u64 = 3;

/// What is played.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Act {
    /// Transfers while nobody listens at the core's address.
    WhileDown,
    /// The others, and one of those before again.
    WhileUp,
    /// All of them once more.
    AskAgain,
}

/// What channels saw.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// GUIDs.
    pub transfers: u64,
    /// Telegrams that were sent.
    pub telegrams: u64,
    /// Resends after E902: the same GUID may be sent then.
    pub by_right: u64,
    /// Resends that were told the stored answer.
    pub replayed: u64,
    /// Resends that were told "being processed".
    pub in_progress: u64,
    /// Resends that were told "outcome unknown".
    pub unknown: u64,
    /// Resends that were told something else, or nothing.
    pub other: u64,
    /// Telegrams that were told 0000.
    pub done: u64,
    /// Telegrams that were told the core's refusal.
    pub refused: u64,
}

impl Tally {
    /// All of them together.
    pub(super) fn sum<'a>(tallies: impl Iterator<Item = &'a Tally>) -> Tally {
        tallies.fold(Tally::default(), |sum, more| Tally {
            transfers: sum.transfers + more.transfers,
            telegrams: sum.telegrams + more.telegrams,
            by_right: sum.by_right + more.by_right,
            replayed: sum.replayed + more.replayed,
            in_progress: sum.in_progress + more.in_progress,
            unknown: sum.unknown + more.unknown,
            other: sum.other + more.other,
            done: sum.done + more.done,
            refused: sum.refused + more.refused,
        })
    }

    /// Resends that could have moved money a second time.
    #[must_use]
    pub fn stopped(&self) -> u64 {
        self.replayed + self.in_progress + self.unknown + self.other
    }

    fn count_answer(&mut self, code: Option<&str>) {
        match code {
            Some(code) if code == Code::Done.as_str() => self.done += 1,
            Some(code) if is_final(code) => self.refused += 1,
            Some(_) | None => {}
        }
    }

    fn count_resend(&mut self, code: Option<&str>) {
        match code {
            Some(code) if code == Code::InProgress.as_str() => self.in_progress += 1,
            Some(code) if code == Code::Unknown.as_str() => self.unknown += 1,
            Some(code) if is_final(code) => self.replayed += 1,
            Some(_) | None => self.other += 1,
        }
    }
}

/// One channel.
pub(super) struct Line {
    to: SocketAddr,
    layout: Layout,
    /// Its telegrams, in the order in which it sends them.
    telegrams: Vec<Vec<u8>>,
    connection: Option<Channel>,
    dice: Dice,
    pub(super) tally: Tally,
}

impl Line {
    /// So many channels, with all their telegrams.
    pub(super) fn all(n: usize, to: SocketAddr, layout: &Layout, clock: &dyn Clock) -> Vec<Line> {
        let now = clock.now().format("%Y%m%dONCEDEMO%H%M%S").to_string();
        (0..n)
            .map(|number| Line {
                to,
                layout: layout.clone(),
                telegrams: telegrams(layout, &now, number),
                connection: None,
                dice: Dice(number as u64),
                tally: Tally::default(),
            })
            .collect()
    }

    /// How many steps an act has.
    pub(super) fn steps(&self, act: Act) -> usize {
        match act {
            Act::WhileDown => WHILE_DOWN,
            Act::WhileUp => TRICKS.len() + 1,
            Act::AskAgain => self.telegrams.len(),
        }
    }

    /// Plays an act; `step` is called after each transfer. An error means that the relay itself was not there.
    pub(super) fn play(&mut self, act: Act, step: &mut dyn FnMut()) -> Result<(), DemoError> {
        let all = self.telegrams.len();
        match act {
            Act::WhileDown => self.each(0..WHILE_DOWN, step, Line::first_time),
            Act::WhileUp => {
                self.each(0..1, step, Line::again_by_right)?;
                self.each(WHILE_DOWN..all, step, Line::first_time)
            }
            Act::AskAgain => self.each(0..all, step, Line::once_more),
        }
    }

    fn each(
        &mut self,
        which: std::ops::Range<usize>,
        step: &mut dyn FnMut(),
        send: fn(&mut Line, &[u8]) -> Result<(), DemoError>,
    ) -> Result<(), DemoError> {
        for at in which {
            let telegram = self.telegrams[at].clone();
            send(self, &telegram)?;
            step();
        }
        Ok(())
    }

    /// Sends a transfer; if no answer comes, or it is lost, sends the same telegram again.
    fn first_time(&mut self, telegram: &[u8]) -> Result<(), DemoError> {
        self.tally.transfers += 1;
        let answer = self.ask(telegram, PATIENCE)?;
        let not_sent = answer.as_deref() == Some(Code::NotSent.as_str());
        let lost = answer.is_none() || self.dice.one_in(LOST_ONE_IN);
        if lost && !not_sent {
            let again = self.ask(telegram, PATIENCE)?;
            self.tally.count_resend(again.as_deref());
        }
        Ok(())
    }

    /// Sends again what was certainly not sent.
    fn again_by_right(&mut self, telegram: &[u8]) -> Result<(), DemoError> {
        self.tally.by_right += 1;
        self.ask(telegram, PATIENCE).map(drop)
    }

    fn once_more(&mut self, telegram: &[u8]) -> Result<(), DemoError> {
        let answer = self.ask(telegram, PATIENCE_AT_THE_END)?;
        self.tally.count_resend(answer.as_deref());
        self.tally.count_answer(answer.as_deref());
        Ok(())
    }

    /// The code of the reply; none if none came. Then the connection is given up: a late reply must not be taken for the next one's.
    fn ask(&mut self, telegram: &[u8], patience: Duration) -> Result<Option<String>, DemoError> {
        let mut connection = match self.connection.take() {
            Some(connection) => connection,
            None => Channel::connect(&self.to.to_string(), &self.layout, PATIENCE_AT_THE_END)?,
        };
        self.tally.telegrams += 1;
        match connection.ask(telegram, patience) {
            Ok(reply) => {
                self.connection = Some(connection);
                Ok(self.layout.reply_code(&reply))
            }
            Err(NoReply::Unknown { .. }) => Ok(None),
            Err(error @ (NoReply::NotSent { .. } | NoReply::Refused { .. })) => Err(error.into()),
        }
    }
}

fn telegrams(layout: &Layout, now: &str, channel: usize) -> Vec<Vec<u8>> {
    let down = [""; WHILE_DOWN];
    let words = down.iter().chain(&TRICKS).enumerate();
    words
        .map(|(number, word)| telegram(layout, now, channel, number, word))
        .collect::<Result<_, _>>()
        .expect("the default layout takes the demo's transfers")
}

/// A transfer with this memo, outside of the demo's acts.
pub(super) fn one_transfer(
    layout: &Layout,
    clock: &dyn Clock,
    serial: u32,
    memo: &str,
) -> Result<Vec<u8>, EncodeError> {
    let fields = [
        ("guid", new_guid(clock.now(), serial)),
        ("channel_id", "MOB".to_owned()),
        ("from_acct", "110123456789".to_owned()),
        ("to_acct", "3020987654321".to_owned()),
        ("amount", (150_000 * (u64::from(serial) + 1)).to_string()),
        ("memo", memo.to_owned()),
    ];
    let values = fields.into_iter().map(|(name, value)| (name.to_owned(), value)).collect();
    let tx_code = layout.tx_codes().next().expect("a layout has a transaction");
    layout.encode_request(tx_code, &values)
}

fn telegram(
    layout: &Layout,
    now: &str,
    channel: usize,
    number: usize,
    word: &str,
) -> Result<Vec<u8>, EncodeError> {
    let fields = [
        ("guid", format!("{now}{channel:03}{number:05}")),
        ("channel_id", format!("D{channel:02}")),
        ("from_acct", format!("1101234{channel:05}")),
        ("to_acct", format!("3020987{number:06}")),
        ("amount", (1_000 * (number + 1)).to_string()),
        ("memo", format!("{word} demo {number}").trim_start().to_owned()),
    ];
    let values: BTreeMap<String, String> =
        fields.into_iter().map(|(name, value)| (name.to_owned(), value)).collect();
    let tx_code = layout.tx_codes().next().expect("a layout has a transaction");
    layout.encode_request(tx_code, &values)
}

/// Numbers that look like chance and are the same each time (`SplitMix64`).
struct Dice(u64);

impl Dice {
    fn one_in(&mut self, n: u64) -> bool {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (z ^ (z >> 31)).is_multiple_of(n)
    }
}
