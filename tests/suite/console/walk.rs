//! Every key over every state of the console: nothing is changed but by a confirmed plan, an UNKNOWN row is never sent, and
//! nothing panics.

use oncegate::console::app::Mode;
use oncegate::console::keys::{Keymap, TABLE};
use proptest::prelude::*;

use super::rig::{File, Rig, put};

/// Keys as a terminal sends them: the table's and everything else that fits into a byte.
fn bytes() -> Vec<String> {
    let mut all: Vec<String> = (1_u8..=126).map(|byte| char::from(byte).to_string()).collect();
    for sequence in [
        "\x1b[A",
        "\x1b[B",
        "\x1b[C",
        "\x1b[D",
        "\x1b[5~",
        "\x1b[6~",
        "\x1b[H",
        "\x1b[F",
        "\x1b[Z",
        "\x1b[3~",
        "\x1b[3;2~",
        "\x1b",
        "gg",
        "yg",
        "yh",
        "yd",
        "ye",
        "\x1b[200~P\x1b[201~",
    ] {
        all.push(sequence.to_owned());
    }
    all
}

fn file() -> File {
    let file = File::new();
    file.put(&[
        put("U1", "UNKNOWN", 8_000),
        put("F1", "FAILED", 3_000),
        put("S1", "SENT", 900),
        put("D1", "DONE", 90 * 86_400),
    ]);
    file
}

/// Ways into every mode and screen.
const WAYS: [&[&str]; 16] = [
    &[],
    &["1"],
    &["3"],
    &["4"],
    &["5"],
    &["\r"],
    &["\r", "\t"],
    &["\r", "\t", "\t", "z"],
    &["/"],
    &[":"],
    &["a"],
    &["f"],
    &["?"],
    &["*", "R"],
    &["*", "P"],
    &["v", "j"],
];

// T10, k9s#319: ctrl-k deletes with no question.
#[test]
fn no_single_key_changes_data_in_any_state() {
    let file = file();
    let mut rig = Rig::open(&file);
    rig.hold = true;
    for way in WAYS {
        for key in bytes() {
            // Exports write files of their own; they change nothing in the ledger.
            if key == "e" {
                continue;
            }
            rig.fresh();
            rig.keys(way);
            rig.press(&key);
            assert!(rig.changes.is_empty(), "{way:?} then {key:?}: {:?}", rig.changes);
        }
    }
}

#[test]
fn every_action_of_the_table_changes_nothing_by_itself() {
    let file = file();
    let mut rig = Rig::open(&file);
    rig.hold = true;
    for binding in TABLE.iter().filter(|b| b.name != "export" && b.name != "reveal") {
        for way in WAYS.iter().take(8) {
            rig.fresh();
            rig.keys(way);
            rig.app.act(binding.action);
            assert!(rig.changes.is_empty() && rig.app.runs.is_empty(), "{}", binding.name);
        }
    }
    let plans = Keymap::default().all().filter(|(action, _)| action.opens_a_plan()).count();
    assert_eq!(plans, 4, "R, P, X, D");
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 16, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn no_sequence_of_keys_sends_an_unknown_row(
        picks in prop::collection::vec(prop::sample::select(vec![
            "P", "R", "\t", "\t", "\t", "\r", "\r", "1", "2", "*", " ", "j", "k", "\x1b", "u", "f", "G", "v",
            "x\t1\t\r", "\t\t1\t\r", "\t\t2\t\r",
        ]), 1..40)
    ) {
        let file = File::new();
        file.put(&[put("U1", "UNKNOWN", 8_000), put("U2", "UNKNOWN", 7_000), put("F1", "FAILED", 3_000)]);
        let mut rig = Rig::open(&file);
        // An inquiry may settle an UNKNOWN; then it is none any more. Here the core never answers one.
        rig.core.set(super::rig::Mood::Silent);
        for keys in &picks {
            for key in keys.chars() {
                rig.press(&key.to_string());
            }
        }
        let called = rig.core.called();
        prop_assert!(called.iter().all(|guid| guid == "F1"), "{:?}", called);
        let calls = rig.core.calls.lock().unwrap().values().copied().max().unwrap_or(0);
        prop_assert!(calls <= 1, "once sent it is UNKNOWN, and never sent again");
    }

    #[test]
    fn random_bytes_of_a_keyboard_never_panic(typed in prop::collection::vec(any::<u8>(), 0..60)) {
        let file = file();
        let mut rig = Rig::open(&file);
        rig.hold = true;
        let mut decoder = oncegate::console::input::Decoder::default();
        let mut inputs = decoder.feed(&typed);
        inputs.extend(decoder.end_of_silence());
        for input in inputs.into_iter().filter(|i| !matches!(i, oncegate::console::input::Input::Key(k) if *k == oncegate::console::input::Key::char('e'))) {
            rig.input(input);
        }
        prop_assert!(rig.changes.iter().all(|change| *change == "note"));
        let normal = matches!(rig.app.mode, Mode::Normal);
        prop_assert!(normal || !rig.screen().is_empty());
    }
}
