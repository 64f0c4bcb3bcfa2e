//! The one table of keys: what is bound, what the bar shows and what the help says all come from it.
//!
//! No key of it changes data: `R P X D` open a plan. Lower-case and control keys can't even be made to, by `--keys` or otherwise.

use std::collections::BTreeMap;

use super::input::{Code, Key};
use super::words::Lang;

/// What a key or a command does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[expect(missing_docs, reason = "the table says of each what it does")]
pub enum Action {
    Down,
    Up,
    Top,
    Bottom,
    HalfDown,
    HalfUp,
    PageDown,
    PageUp,
    Left,
    Right,
    NextPane,
    PreviousPane,
    Overview,
    Ledger,
    Runs,
    Outbox,
    History,
    Open,
    Back,
    Quit,
    Filter,
    NextMatch,
    PreviousMatch,
    FilterMenu,
    Sort,
    Reverse,
    Mark,
    Range,
    MarkAll,
    MarkNone,
    Resolve,
    Reprocess,
    Purge,
    Dispatch,
    Note,
    CopyGuid,
    CopyHex,
    CopyDecoded,
    CopyAll,
    Export,
    Refresh,
    Pause,
    Zone,
    Zoom,
    Encoding,
    Reveal,
    StopRun,
    Mouse,
    Redraw,
    Suspend,
    Interrupt,
    Command,
    Help,
}

impl Action {
    /// Whether it opens a plan to change data.
    #[must_use]
    pub const fn opens_a_plan(self) -> bool {
        matches!(self, Action::Resolve | Action::Reprocess | Action::Purge | Action::Dispatch)
    }
}

/// Where a key means something.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// Tab 1.
    Overview,
    /// Tab 2, the list.
    List,
    /// Tab 2, one row alone.
    Detail,
    /// Tab 3.
    Runs,
    /// Tab 4.
    Outbox,
    /// Tab 5.
    History,
}

impl Place {
    /// Every place.
    pub const ALL: [Place; 6] =
        [Place::Overview, Place::List, Place::Detail, Place::Runs, Place::Outbox, Place::History];

    const fn bit(self) -> u8 {
        match self {
            Place::Overview => 1,
            Place::List => 2,
            Place::Detail => 4,
            Place::Runs => 8,
            Place::Outbox => 16,
            Place::History => 32,
        }
    }
}

/// Under which heading the help shows a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Group {
    /// Moving.
    Move,
    /// Looking.
    Look,
    /// Finding.
    Find,
    /// Marking.
    Mark,
    /// Acting.
    Act,
    /// Taking away.
    Take,
    /// The program.
    Program,
}

/// A line of the table.
#[derive(Clone, Copy, Debug)]
pub struct Binding {
    /// What it does.
    pub action: Action,
    /// Its name for `:` and `--keys`.
    pub name: &'static str,
    /// Its keys; a sequence has a space between them.
    pub keys: &'static str,
    places: u8,
    /// Its heading.
    pub group: Group,
    /// Where the bar shows it, if it has room.
    bar: u8,
    labels: [&'static str; 3],
}

impl Binding {
    /// What it does, in a few words.
    #[must_use]
    pub fn label(&self, lang: Lang) -> &'static str {
        self.labels[lang as usize]
    }

    /// Whether the bar shows it there, if it has room.
    #[must_use]
    pub fn is_in_bar(&self, place: Place) -> bool {
        self.bar & place.bit() != 0
    }

    /// Whether it means something there.
    #[must_use]
    pub fn is_in(&self, place: Place) -> bool {
        self.places & place.bit() != 0
    }
}

/// In which order the bar shows them: where there is little room, what comes last is left out; the help never is.
pub const BAR: [Action; 17] = [
    Action::Open,
    Action::Mark,
    Action::NextPane,
    Action::Resolve,
    Action::Reprocess,
    Action::Dispatch,
    Action::StopRun,
    Action::MarkAll,
    Action::Filter,
    Action::FilterMenu,
    Action::Purge,
    Action::Quit,
    Action::Note,
    Action::Pause,
    Action::Refresh,
    Action::Export,
    Action::Command,
];

const ALL: u8 = 63;
const O: u8 = 1;
const L: u8 = 2;
const D: u8 = 4;
const R: u8 = 8;
const B: u8 = 16;
const H: u8 = 32;

macro_rules! table {
    ($($action:ident $name:literal $keys:literal $places:expr, $group:ident $bar:expr, $en:literal $ko:literal $ja:literal;)*) => {
        /// Every action. Alternatives are separated by two spaces.
        pub const TABLE: &[Binding] = &[$(Binding {
            action: Action::$action, name: $name, keys: $keys, places: $places, group: Group::$group, bar: $bar, labels: [$en, $ko, $ja],
        }),*];
    };
}

#[rustfmt::skip]
table! {
    Down         "down"          "j  down"        ALL,       Move    0,         "next line"                 "다음 줄"                    "次の行";
    Up           "up"            "k  up"          ALL,       Move    0,         "previous line"             "이전 줄"                    "前の行";
    Top          "top"           "g g  home"      ALL,       Move    0,         "first line"                "맨 처음"                    "先頭";
    Bottom       "bottom"        "G  end"         ALL,       Move    0,         "last line"                 "맨 끝"                      "末尾";
    HalfDown     "half-down"     "C-d"            ALL,       Move    0,         "half a page down"          "반 페이지 아래로"           "半ページ下";
    HalfUp       "half-up"       "C-u"            ALL,       Move    0,         "half a page up"            "반 페이지 위로"             "半ページ上";
    PageDown     "page-down"     "pgdn"           ALL,       Move    0,         "a page down"               "한 페이지 아래로"           "1ページ下";
    PageUp       "page-up"       "pgup"           ALL,       Move    0,         "a page up"                 "한 페이지 위로"             "1ページ上";
    Left         "left"          "h  left"        D,         Move    0,         "previous byte"             "이전 바이트"                "前のバイト";
    Right        "right"         "l  right"       D,         Move    0,         "next byte"                 "다음 바이트"                "次のバイト";
    Open         "open"          "enter"          ALL,       Look    O | L | H,  "open"                      "열기"                       "開く";
    NextPane     "next-pane"     "tab"            ALL,       Look    O | D,      "pane"                      "창 전환"                    "ペイン";
    PreviousPane "previous-pane" "S-tab"          ALL,       Look    0,         "previous pane"             "이전 창"                    "前のペイン";
    Overview     "overview"      "1"              ALL,       Look    0,         "overview"                  "현황"                       "概況";
    Ledger       "ledger"        "2"              ALL,       Look    0,         "ledger"                    "원장"                       "台帳";
    Runs         "runs"          "3"              ALL,       Look    0,         "runs"                      "실행"                       "実行";
    Outbox       "outbox"        "4"              ALL,       Look    0,         "outbox"                    "발신함"                     "送信箱";
    History      "history"       "5"              ALL,       Look    0,         "history"                   "이력"                       "履歴";
    Zoom         "zoom"          "z"              L | D,     Look    0,         "zoom the pane"             "창 확대"                    "ペイン拡大";
    Encoding     "encoding"      "b"              L | D,     Look    0,         "text column: ascii, cp949, shift_jis, utf-8" "문자열 열 인코딩: ascii, cp949, shift_jis, utf-8" "文字列欄の符号: ascii, cp949, shift_jis, utf-8";
    Reveal       "reveal"        ""               L | D,     Look    0,         "show masked fields (leaves a history row)" "마스킹 해제(이력에 기록됨)" "マスク解除(履歴に残ります)";
    Zone         "zone"          "t"              ALL,       Look    0,         "UTC or local time"         "UTC/현지 시각"              "UTC/現地時刻";
    Refresh      "refresh"       "r  C-r"         ALL,       Look    ALL,        "refresh"                   "새로 고침"                  "更新";
    Pause        "pause"         "p"              ALL,       Look    O | L,     "pause refreshing"          "자동 갱신 멈춤"             "自動更新の停止";
    Filter       "filter"        "/"              L | H,     Find    L | H,      "filter"                    "조건"                       "条件";
    NextMatch    "next-match"    "n"              L | D,     Find    0,         "next match"                "다음 일치 건"               "次の一致";
    PreviousMatch "previous-match" "N"            L | D,     Find    0,         "previous match"            "이전 일치 건"               "前の一致";
    FilterMenu   "filter-menu"   "f"              L,         Find    L,          "states, age"               "상태·경과"                  "状態・経過";
    Sort         "sort"          "s"              L,         Find    0,         "sort by the next column"   "정렬 기준 변경"             "並べ替え";
    Reverse      "reverse"       "S"              L,         Find    0,         "reverse the order"         "역순 정렬"                  "逆順";
    Mark         "mark"          "space"          L,         Mark    L,          "mark"                      "선택"                       "選択";
    Range        "range"         "v"              L,         Mark    0,         "mark a range"              "범위 선택"                  "範囲選択";
    MarkAll      "mark-all"      "*"              L,         Mark    L,          "all matching"              "조건 전체 선택"             "条件全件";
    MarkNone     "mark-none"     "u"              L,         Mark    0,         "unmark all"                "선택 해제"                  "選択解除";
    Resolve      "resolve"       "R"              L | D,     Act     L | D,      "resolve"                   "결과 조회"                  "結果照会";
    Reprocess    "reprocess"     "P"              L | D,     Act     L | D,      "reprocess"                 "재처리"                     "再処理";
    Purge        "purge"         "X"              L | D,     Act     L | D,     "purge"                     "삭제(퍼지)"                 "削除(パージ)";
    Dispatch     "dispatch"      "D"              B,         Act     B,          "dispatch a batch"          "일괄 발송"                  "一括送信";
    Note         "note"          "a"              L | D,     Act     L | D,     "note on the row"           "메모 남기기"                "メモ";
    StopRun      "stop"          "c"              R,         Act     R,          "stop after this row"       "이 건까지만 처리"           "この1件で停止";
    CopyGuid     "copy-guid"     "y g"            L | D | H, Take    0,         "copy the GUID"             "GUID 복사"                  "GUIDをコピー";
    CopyHex      "copy-hex"      "y h"            L | D,     Take    0,         "copy as hex"               "16진수로 복사"              "16進でコピー";
    CopyDecoded  "copy-decoded"  "y d"            L | D,     Take    0,         "copy the decoded fields"   "해석된 항목 복사"           "項目をコピー";
    CopyAll      "copy-all"      "y e"            L | D,     Take    0,         "copy everything"           "전체 복사"                  "すべてコピー";
    Export       "export"        "e"              L | D | R | H, Take L | R | H, "export to a file"         "파일로 내보내기"            "ファイルへ出力";
    Command      "command"       ":"              ALL,       Program ALL,       "command line"              "명령 입력"                  "コマンド";
    Help         "help"          "?"              ALL,       Program ALL,        "help"                      "도움말"                     "ヘルプ";
    Back         "back"          "esc"            ALL,       Program 0,         "back; clears filter and marks" "뒤로, 조건·선택 해제"    "戻る、条件と選択の解除";
    Quit         "quit"          "q"              ALL,       Program ALL,        "back, quit"                "뒤로/종료"                  "戻る/終了";
    Mouse        "mouse"         "m"              ALL,       Program 0,         "mouse on or off"           "마우스 켬/끔"               "マウス入/切";
    Redraw       "redraw"        "C-l"            ALL,       Program 0,         "draw the screen anew"      "화면 다시 그리기"           "再描画";
    Suspend      "suspend"       "C-z"            ALL,       Program 0,         "suspend"                   "일시 중단"                  "中断";
    Interrupt    "interrupt"     "C-c"            ALL,       Program 0,         "twice: quit"               "두 번: 종료"                "2回で終了";
}

/// The table's line of an action.
#[must_use]
pub fn binding(action: Action) -> &'static Binding {
    TABLE.iter().find(|binding| binding.action == action).expect("every action has a line")
}

/// Why a file of keys was refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("line {line}: {what}")]
pub struct BadKeys {
    /// Its line, from 1.
    pub line: usize,
    /// What is wrong there.
    pub what: String,
}

/// The keys as they are bound: the table's, or those of a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Keymap(BTreeMap<Action, Vec<Vec<Key>>>);

/// What a sequence of keys means so far.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Meaning {
    /// This.
    Does(Action),
    /// More keys are to come.
    Begins,
    /// Nothing.
    Nothing,
}

impl Default for Keymap {
    fn default() -> Keymap {
        let bound = |binding: &Binding| {
            let keys = alternatives(binding.keys)
                .map(|keys| sequence(keys).expect("the table's own keys are well-formed"));
            (binding.action, keys.collect())
        };
        Keymap(TABLE.iter().map(bound).collect())
    }
}

impl Keymap {
    /// The table's keys with those of a TOML file in their place: `action-name = "key"` or a list of keys. A clash is an error
    /// with its line, and so is a key that must not act.
    pub fn parse(toml: &str) -> Result<Keymap, BadKeys> {
        let line_of = |at: usize| toml[..at.min(toml.len())].matches('\n').count() + 1;
        let table = toml::de::DeTable::parse(toml).map_err(|error| BadKeys {
            line: line_of(error.span().map_or(0, |span| span.start)),
            what: error.message().to_owned(),
        })?;
        let mut map = Keymap::default();
        let mut lines = BTreeMap::new();
        for (name, value) in table.get_ref() {
            let bad = |what| BadKeys { line: line_of(name.span().start), what };
            let binding = TABLE.iter().find(|b| b.name == name.get_ref().as_ref());
            let binding =
                binding.ok_or_else(|| bad(format!("there is no action {:?}", name.get_ref())))?;
            let keys = texts(value.get_ref())
                .ok_or_else(|| bad(format!("{} wants a key or a list of keys", binding.name)))?;
            let keys: Vec<Vec<Key>> = keys
                .iter()
                .map(|text| checked(binding, text).map_err(&bad))
                .collect::<Result<_, _>>()?;
            lines.insert(binding.action, line_of(name.span().start));
            map.0.insert(binding.action, keys);
        }
        map.clash(&lines).map_or(Ok(map), Err)
    }

    /// The first clash, at the line of the file that brought it.
    fn clash(&self, lines: &BTreeMap<Action, usize>) -> Option<BadKeys> {
        for binding in TABLE {
            let Some(line) = lines.get(&binding.action) else { continue };
            for other in TABLE.iter().filter(|other| other.action != binding.action) {
                if binding.places & other.places == 0 {
                    continue;
                }
                for (a, b) in pairs(&self.0[&binding.action], &self.0[&other.action]) {
                    if a.starts_with(b) || b.starts_with(a) {
                        let what = format!(
                            "{} for {} clashes with {} for {}",
                            spelled(a),
                            binding.name,
                            spelled(b),
                            other.name
                        );
                        return Some(BadKeys { line: *line, what });
                    }
                }
            }
        }
        None
    }

    /// What `keys`, pressed one after the other, mean in a place.
    #[must_use]
    pub fn meaning(&self, place: Place, keys: &[Key]) -> Meaning {
        let mut begins = false;
        for binding in TABLE.iter().filter(|binding| binding.is_in(place)) {
            for bound in &self.0[&binding.action] {
                if bound == keys {
                    return Meaning::Does(binding.action);
                }
                begins |= bound.starts_with(keys);
            }
        }
        if begins { Meaning::Begins } else { Meaning::Nothing }
    }

    /// The keys of an action, spelled for people; empty if it has none.
    #[must_use]
    pub fn spelled(&self, action: Action) -> String {
        self.0[&action].iter().map(|keys| spelled(keys)).collect::<Vec<_>>().join(" ")
    }

    /// The first key of an action.
    #[must_use]
    pub fn first(&self, action: Action) -> Option<String> {
        self.0[&action].first().map(|keys| spelled(keys))
    }

    /// Every bound sequence with its action.
    pub fn all(&self) -> impl Iterator<Item = (Action, &Vec<Key>)> {
        self.0.iter().flat_map(|(action, keys)| keys.iter().map(|keys| (*action, keys)))
    }
}

fn pairs<'a>(
    a: &'a [Vec<Key>],
    b: &'a [Vec<Key>],
) -> impl Iterator<Item = (&'a Vec<Key>, &'a Vec<Key>)> {
    a.iter().flat_map(move |a| b.iter().map(move |b| (a, b)))
}

fn texts(value: &toml::de::DeValue<'_>) -> Option<Vec<String>> {
    match value {
        toml::de::DeValue::String(text) => Some(vec![text.to_string()]),
        toml::de::DeValue::Array(values) => values
            .iter()
            .map(|value| texts(value.get_ref()))
            .collect::<Option<Vec<_>>>()
            .map(|texts| texts.concat()),
        _ => None,
    }
}

fn checked(binding: &Binding, text: &str) -> Result<Vec<Key>, String> {
    let keys = sequence(text).ok_or_else(|| format!("{text:?} is no key"))?;
    let quiet =
        |key: &Key| !key.control && matches!(key.code, Code::Char(c) if c.is_ascii_uppercase());
    if binding.action.opens_a_plan() && !keys.iter().any(quiet) {
        return Err(format!("{text:?} must not open {}: only a capital letter may", binding.name));
    }
    if keys.iter().any(|key| key.control && matches!(key.code, Code::Char('a' | 'b'))) {
        return Err(format!("{text:?} belongs to tmux and screen"));
    }
    Ok(keys)
}

fn alternatives(keys: &str) -> impl Iterator<Item = &str> {
    keys.split("  ").filter(|keys| !keys.is_empty())
}

/// The keys that `text` spells.
#[must_use]
pub fn sequence(text: &str) -> Option<Vec<Key>> {
    let keys: Option<Vec<Key>> = text.split(' ').filter(|word| !word.is_empty()).map(key).collect();
    keys.filter(|keys| !keys.is_empty())
}

fn key(word: &str) -> Option<Key> {
    let code = match word {
        "space" => Code::Char(' '),
        "enter" => Code::Enter,
        "tab" => Code::Tab,
        "S-tab" => Code::BackTab,
        "esc" => Code::Esc,
        "backspace" => Code::Backspace,
        "delete" => Code::Delete,
        "up" => Code::Up,
        "down" => Code::Down,
        "left" => Code::Left,
        "right" => Code::Right,
        "pgup" => Code::PageUp,
        "pgdn" => Code::PageDown,
        "home" => Code::Home,
        "end" => Code::End,
        _ => {
            let (control, rest) = match word.strip_prefix("C-") {
                Some(rest) if !rest.is_empty() => (true, rest),
                _ => (false, word),
            };
            let mut chars = rest.chars();
            let (Some(c), None) = (chars.next(), chars.next()) else { return None };
            return Some(Key { code: Code::Char(c), control, alt: false });
        }
    };
    Some(Key::plain(code))
}

fn spelled(keys: &[Key]) -> String {
    keys.iter().copied().map(spell).collect()
}

fn spell(key: Key) -> String {
    let name = match key.code {
        Code::Char(' ') => "Space",
        Code::Char(c) => return format!("{}{c}", if key.control { "C-" } else { "" }),
        Code::Enter => "Enter",
        Code::Tab => "Tab",
        Code::BackTab => "S-Tab",
        Code::Esc => "Esc",
        Code::Backspace => "BS",
        Code::Delete => "Del",
        Code::Up => "↑",
        Code::Down => "↓",
        Code::Left => "←",
        Code::Right => "→",
        Code::PageUp => "PgUp",
        Code::PageDown => "PgDn",
        Code::Home => "Home",
        Code::End => "End",
        Code::Other => "?",
    };
    name.to_owned()
}

/// The key at the same place of a Latin keyboard: with a Korean or Cyrillic layout active, `j` arrives as `ㅓ` or `о`.
#[must_use]
pub fn by_position(key: Key) -> Key {
    const HERE: &str = "ㅂㅈㄷㄱㅅㅛㅕㅑㅐㅔㅁㄴㅇㄹㅎㅗㅓㅏㅣㅋㅌㅊㅍㅠㅜㅡㅃㅉㄸㄲㅆㅒㅖйцукенгшщзфывапролдячсмитьЙЦУКЕНГШЩЗФЫВАПРОЛДЯЧСМИТЬ";
    const THERE: &str =
        "qwertyuiopasdfghjklzxcvbnmQWERTOPqwertyuiopasdfghjklzxcvbnmQWERTYUIOPASDFGHJKLZXCVBNM";
    match key.code {
        Code::Char(c) if !c.is_ascii() => {
            let latin =
                HERE.chars().position(|here| here == c).and_then(|at| THERE.chars().nth(at));
            latin.map_or(key, |latin| Key { code: Code::Char(latin), ..key })
        }
        _ => key,
    }
}
