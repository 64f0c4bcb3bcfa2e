//! What an operator types to find rows: `state:unknown,failed,sent>1m age:>5m code:E902 tx:TRF guid:2026 reason:"read timeout"`.
//!
//! Pure: words in, a filter or a complaint out. A bare word is given its meaning by the engine, which looks.

use std::fmt;

use chrono::{DateTime, TimeDelta, Utc};

use crate::ledger::survey::{Browse, Column, TrailQuery};
use crate::state::State;

/// Which rows the list shows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Filter {
    /// The states, each with its own least age.
    pub states: Vec<(State, Option<i64>)>,
    /// Only rows at least so many seconds old.
    pub older_s: Option<i64>,
    /// Only rows younger than so many seconds.
    pub younger_s: Option<i64>,
    /// The beginning of the GUID.
    pub guid: Option<String>,
    /// The beginning of the transaction code.
    pub tx_code: Option<String>,
    /// The reply's code.
    pub code: Option<String>,
    /// A part of the last reason.
    pub reason: Option<String>,
}

/// Why a filter was not understood.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum BadFilter {
    /// No such word before the colon.
    Word(String),
    /// No such state.
    State(String),
    /// No age.
    Age(String),
    /// More than one bare word.
    TwoWords(String),
}

impl Default for Filter {
    /// What is stuck: UNKNOWN, FAILED, and SENT for more than a minute.
    fn default() -> Filter {
        Filter {
            states: vec![(State::Unknown, None), (State::Failed, None), (State::Sent, Some(60))],
            ..Filter::everything()
        }
    }
}

impl Filter {
    /// All rows of all states.
    #[must_use]
    pub fn everything() -> Filter {
        Filter {
            states: State::ALL.into_iter().map(|state| (state, None)).collect(),
            older_s: None,
            younger_s: None,
            guid: None,
            tx_code: None,
            code: None,
            reason: None,
        }
    }

    /// All rows of one state.
    #[must_use]
    pub fn of(state: State) -> Filter {
        Filter { states: vec![(state, None)], ..Filter::everything() }
    }

    /// Reads words over the states of `self`; the second value is the bare word, if there is one.
    pub fn parse(&self, text: &str) -> Result<(Filter, Option<String>), BadFilter> {
        let mut filter = Filter { states: self.states.clone(), ..Filter::everything() };
        let mut bare = None;
        for word in words(text) {
            match word.split_once(':') {
                Some(("state", value)) => filter.states = states(value)?,
                Some(("age", value)) => filter.set_age(value)?,
                Some(("code", value)) => filter.code = Some(value.to_uppercase()),
                Some(("guid", value)) => filter.guid = Some(value.to_owned()),
                Some(("tx", value)) => filter.tx_code = Some(value.to_owned()),
                Some(("reason", value)) => filter.reason = Some(value.to_owned()),
                Some(_) => return Err(BadFilter::Word(word)),
                None if bare.is_some() => return Err(BadFilter::TwoWords(word)),
                None => bare = Some(word),
            }
        }
        Ok((filter, bare))
    }

    fn set_age(&mut self, value: &str) -> Result<(), BadFilter> {
        let bad = || BadFilter::Age(value.to_owned());
        if let Some(value) = value.strip_prefix('<') {
            self.younger_s = Some(seconds(value).ok_or_else(bad)?);
        } else {
            let value = value.strip_prefix('>').unwrap_or(value);
            self.older_s = Some(seconds(value).ok_or_else(bad)?);
        }
        Ok(())
    }

    /// What the ledger is asked for, at this time.
    #[must_use]
    pub fn browse(&self, now: DateTime<Utc>, column: Column, descending: bool) -> Browse {
        let own = self.states.iter().find_map(|(_, older_s)| *older_s);
        let ago = |s: i64| now - TimeDelta::try_seconds(s).unwrap_or(TimeDelta::zero());
        let any_age = match self.older_s {
            Some(_) => Vec::new(),
            None => self.states.iter().filter(|(_, own)| own.is_none()).map(|(s, _)| *s).collect(),
        };
        Browse {
            states: self.states.iter().map(|(state, _)| *state).collect(),
            until: self.older_s.or(own).map(ago),
            any_age,
            since: self.younger_s.map(ago),
            guid_prefix: self.guid.clone(),
            tx_prefix: self.tx_code.clone(),
            code: self.code.clone(),
            seen: self.reason.clone(),
            column,
            descending,
        }
    }

    /// Whether it limits the rows by more than their states.
    #[must_use]
    pub fn has_words(&self) -> bool {
        *self != Filter { states: self.states.clone(), ..Filter::everything() }
    }
}

impl fmt::Display for Filter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let states: Vec<String> = self
            .states
            .iter()
            .map(|(state, older_s)| match older_s {
                Some(s) => format!("{}>{}", state.as_str().to_lowercase(), span(*s)),
                None => state.as_str().to_lowercase(),
            })
            .collect();
        write!(f, "state:{}", states.join(","))?;
        if let Some(s) = self.older_s {
            write!(f, " age:>{}", span(s))?;
        }
        if let Some(s) = self.younger_s {
            write!(f, " age:<{}", span(s))?;
        }
        for (name, value) in [
            ("guid", &self.guid),
            ("tx", &self.tx_code),
            ("code", &self.code),
            ("reason", &self.reason),
        ] {
            let Some(value) = value else { continue };
            let quote = if value.contains(' ') { "\"" } else { "" };
            write!(f, " {name}:{quote}{value}{quote}")?;
        }
        Ok(())
    }
}

/// Which lines of the history are shown: `guid:` `cause:` `who:`; a bare word is the beginning of a GUID.
pub fn trail(text: &str) -> Result<TrailQuery, BadFilter> {
    let mut query = TrailQuery { rows_max: crate::limits::TRAIL_ROWS, ..TrailQuery::default() };
    for word in words(text) {
        match word.split_once(':') {
            Some(("guid", value)) => query.guid_prefix = Some(value.to_owned()),
            Some(("cause", value)) => query.cause = Some(value.to_lowercase()),
            Some(("who", value)) => query.who_prefix = Some(value.to_owned()),
            Some(_) => return Err(BadFilter::Word(word)),
            None if query.guid_prefix.is_some() => return Err(BadFilter::TwoWords(word)),
            None => query.guid_prefix = Some(word),
        }
    }
    Ok(query)
}

fn states(value: &str) -> Result<Vec<(State, Option<i64>)>, BadFilter> {
    let mut states: Vec<(State, Option<i64>)> = Vec::new();
    for word in value.split(',').filter(|word| !word.is_empty()) {
        let (name, own) = word.split_once('>').unwrap_or((word, ""));
        let own = match own {
            "" => None,
            own => Some(seconds(own).ok_or_else(|| BadFilter::Age(own.to_owned()))?),
        };
        let state = name.parse().map_err(|_| BadFilter::State(name.to_owned()))?;
        if !states.iter().any(|(there, _)| *there == state) {
            states.push((state, own));
        }
    }
    if states.is_empty() { Err(BadFilter::State(value.to_owned())) } else { Ok(states) }
}

/// `90`, `90s`, `5m`, `2h`, `3d` in seconds; at most a hundred years.
fn seconds(text: &str) -> Option<i64> {
    let (number, unit) = match text.char_indices().last()? {
        (at, 's') => (&text[..at], 1),
        (at, 'm') => (&text[..at], 60),
        (at, 'h') => (&text[..at], 3_600),
        (at, 'd') => (&text[..at], 86_400),
        _ => (text, 1),
    };
    let number: u32 = number.parse().ok()?;
    let seconds = i64::from(number) * unit;
    (seconds <= 3_155_760_000).then_some(seconds)
}

/// Seconds as a word of the filter: `90s`, `5m`, `2h`, `3d`.
#[must_use]
pub fn span(s: i64) -> String {
    match s {
        s if s > 0 && s % 86_400 == 0 => format!("{}d", s / 86_400),
        s if s > 0 && s % 3_600 == 0 => format!("{}h", s / 3_600),
        s if s > 0 && s % 60 == 0 => format!("{}m", s / 60),
        s => format!("{s}s"),
    }
}

/// Words separated by spaces; spaces between quotes belong to a word.
fn words(text: &str) -> Vec<String> {
    let (mut words, mut word, mut quoted) = (Vec::new(), String::new(), false);
    for c in text.chars() {
        match c {
            '"' => quoted = !quoted,
            ' ' if !quoted => words.push(std::mem::take(&mut word)),
            c => word.push(c),
        }
    }
    words.push(word);
    words.retain(|word| !word.is_empty());
    words
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a test that panics has failed, and says where")]
mod tests {
    use super::*;

    fn parse(text: &str) -> Filter {
        let (filter, bare) = Filter::everything().parse(text).unwrap();
        assert_eq!(bare, None);
        filter
    }

    #[test]
    fn what_is_shown_can_be_typed_again() {
        for text in [
            "state:unknown,failed,sent>1m",
            "state:done age:>3d",
            "state:unknown age:<90s code:E901",
            "state:failed guid:2026 tx:TRF reason:\"read timeout\"",
        ] {
            assert_eq!(parse(text).to_string(), text);
        }
        assert_eq!(parse(&Filter::default().to_string()), Filter::default());
    }

    #[test]
    fn a_bare_word_is_left_to_the_engine() {
        let parsed = Filter::default().parse("20260928");
        assert_eq!(parsed, Ok((Filter::default(), Some("20260928".to_owned()))));
    }

    #[test]
    fn what_is_not_understood_is_said() {
        let bad = |text: &str| Filter::default().parse(text).unwrap_err();
        assert_eq!(bad("colour:red"), BadFilter::Word("colour:red".to_owned()));
        assert_eq!(bad("state:paid"), BadFilter::State("paid".to_owned()));
        assert_eq!(bad("age:>soon"), BadFilter::Age(">soon".to_owned()));
        assert_eq!(bad("a b"), BadFilter::TwoWords("b".to_owned()));
        assert_eq!(bad("age:>99999999999d"), BadFilter::Age(">99999999999d".to_owned()));
    }

    #[test]
    fn only_sent_rows_must_be_old_by_default() {
        let now = crate::ledger::parse_ledger_time("2026-03-01 12:00:00").unwrap();
        let browse = Filter::default().browse(now, Column::Age, false);
        assert_eq!(browse.until_of(State::Sent).as_deref(), Some("2026-03-01 11:59:00"));
        assert_eq!(browse.until_of(State::Unknown), None);
    }
}
