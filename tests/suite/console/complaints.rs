//! Complaints about consoles like ours, each as a test. The numbers are those of the list of public complaints that the product
//! keeps; the first line of each says what went wrong elsewhere.

use std::time::Duration;

use oncegate::console::app::{Answer, Ask, Effect, Focus, Mode, Msg, RunState, Tab};
use oncegate::console::input::{Code, Input, Key};
use oncegate::console::keys::{Action, Keymap, TABLE, sequence};
use oncegate::console::{text, work};
use oncegate::ledger::LedgerError;
use oncegate::limits;
use oncegate::state::State;

use super::rig::{File, Mood, Options, Rig, put};

fn failed(count: usize) -> File {
    let file = File::new();
    let guids: Vec<String> = (1..=count).map(|at| format!("F{at:04}")).collect();
    let rows: Vec<_> =
        guids.iter().zip(0..).map(|(guid, at)| put(guid, "FAILED", 4_000 - at)).collect();
    file.put(&rows);
    file
}

fn rows_of_the_plan(rig: &Rig) -> usize {
    let Mode::Confirming(confirm) = &rig.app.mode else { panic!("no plan is open") };
    confirm.rows()
}

// T01, ServiceControl#660: group retry took messages that arrived after the click.
#[test]
fn rows_that_arrive_after_the_plan_never_join_it() {
    let file = failed(4);
    let mut rig = Rig::open(&file);
    rig.keys(&["*", "P"]);
    assert_eq!(rows_of_the_plan(&rig), 4);
    file.put(&[put("G1", "FAILED", 900), put("G2", "FAILED", 800), put("G3", "FAILED", 700)]);
    rig.send(Msg::Changed);
    rig.confirm("ticket 8812");
    assert_eq!(rig.core.called(), ["F0001", "F0002", "F0003", "F0004"]);
    assert_eq!(file.state("G1").as_deref(), Some("FAILED"));
}

// T02, sidekiq#5997: Delete All deleted rows never shown.
#[test]
fn the_count_shown_the_count_typed_and_the_count_done_are_one() {
    let file = failed(3);
    let mut rig = Rig::open(&file);
    rig.press("*");
    file.put(&[put("G1", "FAILED", 900)]);
    rig.send(Msg::Changed);
    rig.press("P");
    assert!(rig.screen().contains("Send 3 transfers again"), "{}", rig.screen());
    rig.confirm("");
    let sum = rig.app.runs[0].sum();
    assert_eq!((sum.done, rig.core.called().len()), (3, 3));
}

// T03, sidekiq#3243: Delete All ignored the filter.
#[test]
fn all_matching_means_the_filter_and_a_purge_without_an_age_is_refused() {
    let file = failed(3);
    file.put(&[put("D1", "DONE", 90 * 86_400), put("D2", "DONE", 60)]);
    let mut rig = Rig::open(&file);
    rig.press("/guid:F0002\r");
    rig.press("*");
    assert_eq!(rig.app.list.marks.len(), 1);
    let mut rig = Rig::with(&file, &Options { days: None, ..Options::default() });
    rig.press("/state:done\r");
    rig.keys(&["*", "X"]);
    assert_eq!(rig.app.mode, Mode::Normal);
    assert!(rig.screen().contains("purge wants an age"), "{}", rig.screen());
}

// T04, ServiceControl#4797: the same message retried twice, once in a group and once alone.
#[test]
fn a_row_in_a_run_is_left_out_here_and_lost_to_the_claim_elsewhere() {
    let file = failed(2);
    let mut rig = Rig::open(&file);
    rig.hold = true;
    rig.press("P");
    rig.confirm("");
    rig.press("P");
    assert!(rig.screen().contains("in run 1"), "{}", rig.screen());
    rig.press("\x1b");
    // Another console on the same ledger has planned the same row.
    let mut other = Rig::open(&file);
    other.hold = true;
    other.press("P");
    other.confirm("");
    rig.run_held();
    other.run_held();
    let calls = rig.core.called().len() + other.core.called().len();
    assert_eq!(calls, 1, "one call at the core");
    assert_eq!(other.app.runs[0].sum().skipped, 1);
}

// T05, sidekiq PR#542, and T06: an action by index or score hit another job after a refresh.
#[test]
fn a_plan_is_for_the_row_under_the_cursor_whatever_stands_at_its_place_now() {
    let file = failed(3);
    let mut rig = Rig::open(&file);
    rig.press("j");
    assert_eq!(rig.cursor(), "F0002");
    file.put(&[put("E1", "FAILED", 9_000), put("E2", "FAILED", 8_000)]);
    rig.send(Msg::Changed);
    assert_eq!(rig.cursor(), "F0002");
    rig.press("P");
    rig.confirm("");
    assert_eq!(rig.core.called(), ["F0002"]);
}

// T08, riverui#380: after delete the jobs stay selected and refresh stays paused.
#[test]
fn rows_that_succeeded_are_unmarked_and_the_rest_stays_marked() {
    let file = failed(3);
    file.put(&[put("U1", "UNKNOWN", 9_000)]);
    let mut rig = Rig::open(&file);
    rig.keys(&["*", "P"]);
    rig.confirm("");
    let marks: Vec<String> = rig.app.list.marks.iter().map(ToString::to_string).collect();
    assert_eq!(marks, ["U1"]);
    assert!(!rig.app.paused);
}

// T09, k9s#1401: nothing selected after the last row was deleted.
#[test]
fn when_the_row_under_the_cursor_goes_the_one_above_has_it() {
    let file = failed(3);
    let mut rig = Rig::open(&file);
    rig.press("G");
    assert_eq!(rig.cursor(), "F0003");
    file.con().execute("DELETE FROM tx WHERE guid = 'F0003'", []).unwrap();
    rig.send(Msg::Changed);
    assert_eq!(rig.cursor(), "F0002");
    file.con().execute("DELETE FROM tx", []).unwrap();
    rig.send(Msg::Changed);
    assert_eq!(rig.cursor(), "");
    rig.keys(&["R", "P", "X", "\r", "yg", "yh", " ", "v", "a", "j", "G"]);
    assert!(rig.changes.is_empty());
}

// T11, k9s#87: ctrl-d deleted when the person meant `d`.
#[test]
fn no_control_combination_and_no_small_letter_opens_a_plan() {
    for (action, keys) in Keymap::default().all() {
        let capital =
            |key: &Key| !key.control && matches!(key.code, Code::Char(c) if c.is_ascii_uppercase());
        assert!(!action.opens_a_plan() || keys.iter().all(capital), "{action:?} {keys:?}");
        let prefix = |key: &Key| key.control && matches!(key.code, Code::Char('a' | 'b'));
        assert!(!keys.iter().any(prefix), "C-a and C-b belong to tmux and screen");
    }
}

// T12, k9s#21: backspace while fixing a filter deleted machines.
#[test]
fn while_a_filter_is_typed_no_key_reaches_the_table() {
    let file = failed(2);
    let mut rig = Rig::open(&file);
    rig.press("/");
    rig.keys(&["R", "P", "X", "\x7f", "\x7f", "q", "*", " "]);
    assert!(matches!(rig.app.mode, Mode::Typing(_)));
    assert!(rig.app.list.marks.is_empty() && rig.changes.is_empty() && !rig.quit);
}

// T13, lazygit#2291: `dd` discarded 8 h of work; the confirm key was the same key.
#[test]
fn pressing_the_same_key_again_and_again_executes_nothing() {
    let file = failed(2);
    file.put(&[put("U1", "UNKNOWN", 9_000), put("D1", "DONE", 90 * 86_400)]);
    for key in ["R", "P", "X"] {
        let mut rig = Rig::open(&file);
        rig.press("/state:unknown,failed,done\r");
        rig.press("*");
        for _ in 0..50 {
            rig.press(key);
        }
        assert!(rig.changes.is_empty() && rig.app.runs.is_empty(), "{key}");
    }
}

// T15, k9s#1080: pasted text ran as commands.
#[test]
fn pasted_text_does_nothing_in_the_list_and_in_the_dialog() {
    let file = failed(4);
    let mut rig = Rig::open(&file);
    rig.press("*");
    rig.press("\x1b[200~RPX\n4\n\x1b[201~");
    assert_eq!(rig.app.mode, Mode::Normal);
    rig.press("P");
    let before = rig.app.mode.clone();
    for _ in 0..4 {
        rig.press("\x1b[200~4\n\x1b[201~");
        rig.press("\t");
    }
    let (Mode::Confirming(now), Mode::Confirming(then)) = (&rig.app.mode, &before) else {
        panic!("the dialog is gone")
    };
    assert_eq!((now.count.text(), now.reason.text()), (then.count.text(), then.reason.text()));
    assert!(rig.changes.is_empty());
}

// T17, sweetalert2#421: Enter twice or held fired twice.
#[test]
fn five_enters_after_arming_make_one_run_and_early_keys_make_none() {
    let file = failed(4);
    let mut rig = Rig::open(&file);
    rig.hold = true;
    rig.press("*");
    // Typed ahead, before anything of the dialog was on the screen.
    rig.press_early("P\t\t4\t\r");
    assert!(rig.changes.is_empty());
    let Mode::Confirming(confirm) = &rig.app.mode else { panic!("no plan is open") };
    assert_eq!((confirm.focus, confirm.count.text()), (Focus::Cancel, String::new()));
    rig.keys(&["\t", "\t", "4", "\t", "\r", "\r", "\r", "\r", "\r"]);
    assert_eq!(rig.app.runs.len(), 1);
    assert_eq!(rig.changes, ["reprocess"]);
}

// T18, dua-cli#248: ctrl-r (refresh elsewhere) deleted.
#[test]
fn r_and_control_r_only_refresh() {
    let file = failed(2);
    let mut rig = Rig::open(&file);
    file.put(&[put("Z9", "FAILED", 10)]);
    rig.keys(&["r", "\x12"]);
    assert!(rig.changes.is_empty());
    assert_eq!(rig.app.list.lines.total, 3);
}

// T19 and T20, sidekiq#6853, rabbitmq-management#159: no confirm on bulk; a vague OK button.
#[test]
fn one_row_is_confirmed_too_and_the_button_says_what_it_does() {
    let file = failed(1);
    let mut rig = Rig::open(&file);
    rig.press("P");
    assert!(rig.screen().contains("( Send 1 transfer again )"), "{}", rig.screen());
    rig.keys(&["\t", "\t", "\t", "\r"]);
    assert!(rig.changes.is_empty(), "not armed");
    assert!(rig.screen().contains("not armed"), "{}", rig.screen());
}

// T21, rabbitmq-management#543: the destructive choice was first or default.
#[test]
fn cancel_has_the_focus_when_the_dialog_opens() {
    let file = failed(1);
    let mut rig = Rig::open(&file);
    rig.press("P");
    rig.press("\r");
    assert_eq!(rig.app.mode, Mode::Normal);
    assert!(rig.screen().contains("nothing was done") && rig.changes.is_empty());
}

// T22, temporalio/ui#325: terminated at once, page still said Running.
#[test]
fn after_a_run_the_list_shows_the_new_state() {
    let file = failed(1);
    let mut rig = Rig::open(&file);
    rig.core.set(Mood::Silent);
    rig.press("P");
    rig.confirm("");
    assert_eq!(rig.app.list.lines.rows[0].state, State::Unknown);
}

// T23, temporalio/cli#216: the count timed out and blocked the action.
#[test]
fn what_is_too_much_for_a_plan_is_said_at_once_and_a_long_plan_can_be_given_up() {
    let file = failed(40);
    let mut rig = Rig::open(&file);
    rig.hold = true;
    let guids: Vec<_> = (0..=limits::MARKS_MAX).map(|at| format!("F{at:06}").into_guid()).collect();
    let effects = rig.app.act(Action::MarkAll);
    let [Effect::Ask(Ask::Keys(serial, _))] = effects.as_slice() else { panic!("{effects:?}") };
    rig.send(Msg::Answer(Answer::Keys(*serial, guids)));
    assert!(rig.screen().contains("more than 100000 rows match: narrow"), "{}", rig.screen());
    assert!(rig.app.list.marks.is_empty());
    // The plan is made elsewhere: meanwhile the screen says so, and Esc takes it back.
    rig.press("*");
    let effects = rig.app.act(Action::Reprocess);
    let Mode::Planning(plans) = rig.app.mode else { panic!("no plan is made") };
    rig.app.update(Msg::Planning(plans.serial, 20));
    assert!(rig.screen().contains("making the plan; Esc gives it up   20/40"), "{}", rig.screen());
    let given_up = rig.app.update(Msg::Input(Input::Key(Key::plain(Code::Esc)), Duration::MAX));
    assert_eq!(given_up, [Effect::GiveUp]);
    // Late, it opens nothing.
    let [Effect::Ask(question)] = effects.as_slice() else { panic!("{effects:?}") };
    rig.send(work::answer(&rig.desk, None, question));
    assert_eq!(rig.app.mode, Mode::Normal);
    assert!(rig.screen().contains("nothing was done"), "{}", rig.screen());
}

// T28, kind_robots#924: badge counted all time, list one window, button acted on all.
#[test]
fn header_list_and_plan_count_the_same_rows_of_the_same_moment() {
    let file = failed(5);
    file.put(&[put("U1", "UNKNOWN", 9_000), put("D1", "DONE", 90 * 86_400)]);
    let mut rig = Rig::open(&file);
    rig.press("/state:failed\r");
    // Between the answer and the drawing others go on: what is shown is still of one moment, and says of which.
    file.put(&[put("G1", "FAILED", 900)]);
    let screen = rig.screen();
    assert!(screen.contains("!5") && screen.contains("1-5 of 5"), "{screen}");
    assert!(screen.contains("14:03:07 UTC ─┘"), "{screen}");
    rig.keys(&["*", "P"]);
    // The marks are of a later moment, and so is their number: it says how many it takes, of how many, made when.
    let screen = rig.screen();
    assert!(screen.contains("6 of 6 chosen rows") && screen.contains("made 14:03:07 UTC"));
    rig.keys(&["\x1b"]);
    rig.send(Msg::Changed);
    assert!(rig.screen().contains("!6"), "{}", rig.screen());
}

// T30, Hangfire#1902: no record of who did it.
#[test]
fn no_action_without_its_line_in_the_history() {
    let file = failed(1);
    file.put(&[put("U1", "UNKNOWN", 9_000), put("D1", "DONE", 90 * 86_400)]);
    // Action and line are one transaction: where the line can't be written, nothing happens.
    file.con()
        .execute_batch(
            "CREATE TRIGGER no_lines BEFORE INSERT ON history BEGIN SELECT RAISE(ABORT, 'no lines'); END",
        )
        .unwrap();
    let mut rig = Rig::open(&file);
    rig.press("/state:unknown,failed,done\r");
    for key in ["R", "P", "X"] {
        rig.keys(&["*", key]);
        rig.confirm("ticket 8812");
    }
    assert!(rig.core.called().is_empty(), "nothing was sent");
    for (guid, state) in [("F0001", "FAILED"), ("U1", "UNKNOWN"), ("D1", "DONE")] {
        assert_eq!(file.state(guid).as_deref(), Some(state));
    }
    assert!(rig.app.runs.iter().all(|run| run.sum().done == 0));
    file.con().execute_batch("DROP TRIGGER no_lines").unwrap();
    for key in ["R", "P", "X"] {
        rig.keys(&["*", key]);
        rig.confirm("ticket 8812");
    }
    for guid in ["F0001", "U1", "D1"] {
        let who_and_why = |line: &String| line.ends_with("ops@bank ticket 8812");
        assert!(file.history(guid).iter().any(who_and_why), "{guid}: {:?}", file.history(guid));
    }
}

// T24, HangfireIO#4: want to know how many were and were not requeued.
#[test]
fn done_left_skipped_and_failed_are_always_the_plan() {
    let file = failed(6);
    let mut rig = Rig::open(&file);
    rig.hold = true;
    rig.keys(&["*", "P"]);
    rig.confirm("");
    file.con().execute("UPDATE tx SET attempts = 3 WHERE guid = 'F0002'", []).unwrap();
    file.con().execute("DELETE FROM tx WHERE guid = 'F0003'", []).unwrap();
    rig.core.set(Mood::Down);
    rig.run_held();
    let run = &rig.app.runs[0];
    let sum = run.sum();
    assert_eq!(sum.done + sum.left + sum.skipped + sum.failed, 6);
    assert_eq!((sum.failed, sum.skipped, sum.open), (3, 3, 0));
    assert!(matches!(run.state, RunState::Ended(_)));
}

// T25, CAP#1286: "success" shown though the requeue threw.
#[test]
fn a_run_that_could_not_begin_is_no_success() {
    let file = failed(2);
    let mut rig = Rig::open(&file);
    rig.hold = true;
    rig.press("P");
    rig.confirm("");
    rig.desk.settings.read_only = true;
    rig.run_held();
    let run = &rig.app.runs[0];
    assert!(matches!(run.state, RunState::Failed(..)));
    assert_eq!(run.sum().skipped, 1);
    assert!(rig.core.called().is_empty());
}

// T26, oban#193: retry overwrote the history of a finished job.
#[test]
fn a_reprocess_adds_to_the_history_and_says_who_and_why() {
    let file = failed(1);
    let mut rig = Rig::open(&file);
    rig.press("P");
    rig.confirm("ticket 8812");
    assert_eq!(
        file.history("F0001"),
        [
            "relay SENT FAILED relay -",
            "reprocess FAILED SENT ops@bank ticket 8812",
            "reprocess SENT DONE ops@bank ticket 8812",
        ]
    );
}

// T27, sidekiq#6936: a bulk loop missed half of the jobs because the set changed while it ran.
#[test]
fn every_row_of_a_big_plan_is_visited_exactly_once() {
    let file = failed(300);
    let mut rig = Rig::open(&file);
    rig.keys(&["*", "P"]);
    rig.confirm("");
    let calls = rig.core.calls.lock().unwrap().clone();
    assert_eq!((calls.len(), calls.values().max()), (300, Some(&1)));
}

// T29, ServicePulse#391: nobody understood "pending retries".
#[test]
fn the_detail_says_in_words_what_can_be_done_and_why_not() {
    let file = File::new();
    file.put(&[put("U1", "UNKNOWN", 8_040)]);
    let mut rig = Rig::open(&file);
    rig.press("\r");
    let screen = rig.screen();
    for words in [
        "U ? UNKNOWN for 2h14m",
        "read timeout after 3.0 s; the core may",
        "R resolve  ask the core; sends nothing",
        "P reprocess  OFF: UNKNOWN: outcome not",
    ] {
        assert!(screen.contains(words), "{words:?} is not in\n{screen}");
    }
}

// T31, Hangfire PR#934: read-only hid buttons but left a way in.
#[test]
fn read_only_has_no_way_in() {
    let file = failed(2);
    file.put(&[put("U1", "UNKNOWN", 9_000), put("D1", "DONE", 90 * 86_400)]);
    let mut rig = Rig::with(&file, &Options { read_only: true, ..Options::default() });
    assert!(rig.screen().contains("READ-ONLY"));
    rig.press("*");
    for keys in
        ["R", "P", "X", "a", ":resolve\r", ":reprocess\r", ":purge\r", ":reveal\r", ":note x\r"]
    {
        rig.press(keys);
        assert_eq!(rig.app.mode, Mode::Normal, "{keys}");
        assert!(rig.screen().contains("read-only"), "{keys}: {}", rig.screen());
    }
    assert!(rig.changes.is_empty());
    let written = rig.desk.note(&"F0001".to_owned().into_guid(), "x");
    assert!(written.is_err(), "SQLite itself refuses");
}

trait IntoGuid {
    fn into_guid(self) -> oncegate::guid::Guid;
}

impl IntoGuid for String {
    fn into_guid(self) -> oncegate::guid::Guid {
        oncegate::guid::Guid::from_ledger(self)
    }
}

// T32 and T33, riverui#593, CAP#205: large numbers shown rounded, or cut to 32 bits.
#[test]
fn amounts_and_attempts_are_exact_at_their_limits() {
    let file = File::new();
    let mut row = put("B1", "FAILED", 600);
    (row.amount, row.attempts) = (9_999_999_999_999, i64::MAX);
    file.put(&[row]);
    let mut rig = Rig::open(&file);
    rig.press("\r");
    let screen = rig.screen();
    assert!(screen.contains("9,999,999,999,999"), "{screen}");
    assert!(screen.contains("9223372036854775807"), "{screen}");
}

// T34, temboard#472: auto refresh lost the selection.
#[test]
fn a_refresh_moves_neither_cursor_nor_marks_and_new_rows_wait() {
    let file = failed(3);
    let mut rig = Rig::open(&file);
    rig.keys(&["j", " "]);
    let (marks, cursor) = (rig.app.list.marks.clone(), rig.cursor());
    file.put(&[put("E1", "FAILED", 9_000), put("E2", "FAILED", 8_000), put("Z1", "FAILED", 5)]);
    for _ in 0..20 {
        rig.clock.forward(1);
        rig.send(Msg::Changed);
    }
    assert_eq!((&rig.app.list.marks, rig.cursor()), (&marks, cursor.clone()));
    assert!(rig.screen().contains("3 new"), "{}", rig.screen());
    rig.press("r");
    assert_eq!((rig.app.list.lines.rows.len(), rig.cursor()), (6, cursor));
}

// T35, k9s#145: age sorted as text; rows jump when "12m" becomes "13m".
#[test]
fn the_order_is_that_of_the_times_and_stays_over_many_ticks() {
    let file = File::new();
    file.put(&[put("A", "UNKNOWN", 65), put("B", "UNKNOWN", 7_205), put("C", "UNKNOWN", 605)]);
    let mut rig = Rig::open(&file);
    let order = |rig: &Rig| -> Vec<String> {
        rig.app.list.lines.rows.iter().map(|line| line.guid.to_string()).collect()
    };
    assert_eq!(order(&rig), ["B", "C", "A"]);
    for _ in 0..120 {
        rig.clock.forward(1);
        rig.send(Msg::Tick);
        rig.send(Msg::Changed);
        assert_eq!(order(&rig), ["B", "C", "A"]);
    }
}

// T37: a panic in a background thread tore the screen away under a live UI.
#[test]
fn when_a_thread_has_died_the_screen_says_so_and_acts_no_more() {
    let file = failed(1);
    let mut rig = Rig::open(&file);
    rig.press("P");
    rig.send(Msg::Broken("refresh: index out of bounds".to_owned()));
    assert_eq!(rig.app.mode, Mode::Normal);
    assert!(rig.screen().contains("stopped: refresh"), "{}", rig.screen());
    rig.press("P");
    assert!(rig.screen().contains("off: a part of the console stopped"), "{}", rig.screen());
    assert!(rig.changes.is_empty());
}

// T48 and T49, k9s#3209, tabby#6001: copy over ssh went nowhere, or was cut.
#[test]
fn what_is_too_long_to_copy_is_refused_and_the_rest_is_not_promised() {
    let file = failed(1);
    let mut rig = Rig::open(&file);
    rig.press("\r");
    rig.press("yg");
    assert_eq!(rig.copied, ["F0001"]);
    assert!(rig.screen().contains("does not confirm"), "{}", rig.screen());
    file.con()
        .execute(
            "UPDATE tx SET request = zeroblob(?1)",
            [i64::try_from(limits::COPY_BYTES_MAX).unwrap()],
        )
        .unwrap();
    rig.press("r");
    rig.press("yh");
    assert_eq!(rig.copied.len(), 1);
    assert!(rig.screen().contains("e exports"), "{}", rig.screen());
}

// Sensitive fields: masked on the screen, in every copy, until the history says that they were looked at.
#[test]
fn accounts_are_masked_everywhere_until_the_history_says_who_looked() {
    let file = failed(1);
    let mut rig = Rig::open(&file);
    rig.keys(&["\r", "\t"]);
    let account = "1002345678901234";
    let hex = "31 30 30 32 33 34";
    rig.keys(&["yh", "yd", "ye"]);
    for text in rig.copied.iter().chain([&rig.screen()]) {
        assert!(!text.contains(account) && !text.contains(hex), "{text}");
    }
    rig.press(":reveal\r");
    assert_eq!(file.history("F0001").last().unwrap(), "reveal - - ops@bank -");
    rig.keys(&["G", "yd"]);
    assert!(rig.copied.last().unwrap().contains(account));
    rig.send(Msg::Resized(130, 60));
    assert!(rig.screen().contains(account), "{}", rig.screen());
}

// tuicr#585: with another keyboard layout active, `j` arrives as another letter.
#[test]
fn a_key_is_read_by_its_place_where_no_text_is_typed() {
    let file = failed(3);
    let mut rig = Rig::open(&file);
    rig.keys(&["ㅓ", "о"]);
    assert_eq!(rig.cursor(), "F0003");
    rig.press("/");
    rig.press("ㅓ");
    let Mode::Typing(prompt) = &rig.app.mode else { panic!("nothing is typed") };
    assert_eq!(prompt.edit.text(), "ㅓ");
}

// k9s#1302: UTC or local not clear.
#[test]
fn the_zone_is_always_shown() {
    let file = failed(1);
    let mut rig = Rig::open(&file);
    assert!(rig.screen().contains("14:03:07 UTC"));
    rig.press("t");
    let zone = |line: &str| line.contains(" +") || line.contains(" -");
    assert!(zone(rig.screen().lines().next().unwrap()), "{}", rig.screen());
}

// gitui#1454: help shows a wrong key or none.
#[test]
fn bar_and_help_say_what_the_keys_do_also_when_they_are_bound_anew() {
    let keys = Keymap::parse("resolve = \"Q\"\ndown = [\"j\", \"C-n\"]\n").unwrap();
    let file = failed(1);
    let mut rig = Rig::open(&file);
    rig.app.keys = keys;
    assert!(rig.screen().contains("Q resolve"), "{}", rig.screen());
    rig.send(Msg::Resized(120, 90));
    rig.press("?");
    for binding in TABLE {
        let help = rig.screen();
        assert!(help.contains(binding.label(rig.app.look.lang)), "{}", binding.name);
    }
    assert!(rig.screen().contains("j C-n"));
}

#[test]
fn a_clash_of_keys_is_an_error_with_its_line() {
    let bad = |toml: &str| Keymap::parse(toml).unwrap_err().to_string();
    assert_eq!(
        bad("# mine\nsort = \"j\"\n"),
        "line 2: j for sort clashes with j ↓ for down".replace("j ↓", "j")
    );
    assert!(
        bad("up = \"k\"\nfilter = \"g\"\n").starts_with("line 2: g for filter clashes with gg")
    );
    assert!(bad("resolve = \"r\"\n").contains("only a capital letter may"));
    assert!(bad("purge = \"C-x\"\n").starts_with("line 1: "));
    assert!(bad("mark = \"C-b\"\n").contains("tmux"));
    assert!(bad("\nnonsense = \"x\"\n").starts_with("line 2: there is no action"));
    assert!(bad("\n\nmark = 5\n").starts_with("line 3: "));
    assert!(bad("mark = \n").starts_with("line 1: "));
}

#[test]
fn every_key_of_the_table_can_be_pressed() {
    for (action, keys) in Keymap::default().all() {
        assert!(!keys.is_empty(), "{action:?}");
    }
    assert_eq!(sequence("g g"), Some(vec![Key::char('g'), Key::char('g')]));
    assert!(sequence("").is_none() && sequence("bogus").is_none());
    assert!(Keymap::default().spelled(Action::Reveal).is_empty());
}

// A locked, missing or full ledger: the old rows stay, and it is said since when.
#[test]
fn trouble_keeps_the_old_rows_and_says_since_when_until_it_is_over() {
    let file = failed(2);
    let mut rig = Rig::open(&file);
    rig.clock.forward(60);
    rig.send(Msg::Trouble(LedgerError::Busy));
    let screen = rig.screen();
    assert!(screen.contains("since 14:04:07 UTC: the ledger is locked by another"), "{screen}");
    assert!(screen.contains("rows are as of 14:03:07 UTC") && screen.contains("F0001"), "{screen}");
    // It is asked again and again; until an answer comes it is the same trouble.
    rig.clock.forward(60);
    rig.app.update(Msg::Changed);
    rig.send(Msg::Trouble(LedgerError::Busy));
    assert!(rig.screen().contains("since 14:04:07 UTC: the ledger is locked"), "{}", rig.screen());
    rig.send(Msg::Changed);
    assert!(!rig.screen().contains("locked"), "{}", rig.screen());
}

#[test]
fn q_asks_while_a_run_is_going_and_control_c_twice_quits() {
    let file = failed(1);
    let mut rig = Rig::open(&file);
    rig.hold = true;
    rig.press("P");
    rig.confirm("");
    rig.press("q");
    assert!(rig.app.mode == Mode::AskQuit && !rig.quit);
    rig.press("n");
    assert!(!rig.quit);
    rig.press("\x03");
    assert!(!rig.quit, "once is not enough");
    rig.press("\x03");
    assert!(rig.quit);
}

// T42, cc-switch-cli#347: cannot select text.
#[test]
fn the_mouse_is_not_listened_to_unless_it_was_asked_for() {
    let file = failed(3);
    let mut rig = Rig::open(&file);
    rig.input(Input::Wheel(3));
    assert_eq!(rig.cursor(), "F0001");
    rig.press("m");
    assert!(rig.screen().contains("mouse on, m off"));
    rig.input(Input::Wheel(3));
    assert_eq!(rig.cursor(), "F0003");
}

#[test]
fn a_dialog_drawn_later_than_the_key_was_read_takes_no_key() {
    let file = failed(1);
    let mut rig = Rig::open(&file);
    rig.press("P");
    let old = Duration::ZERO;
    rig.drawn();
    for key in [Key::plain(Code::Tab), Key::plain(Code::Enter), Key::plain(Code::Esc)] {
        rig.send(Msg::Input(Input::Key(key), old));
    }
    assert!(matches!(rig.app.mode, Mode::Confirming(_)));
    assert_eq!(rig.app.tab, Tab::Ledger);
}

#[test]
fn text_widths_are_those_of_the_cells() {
    assert_eq!(["한글", "漢字", "e\u{301}", "😀", "a"].map(text::width), [4, 4, 1, 2, 1]);
}

// A window holds some hundred rows. With a mark in it, the rows beyond were taken for newcomers that have to wait.
#[test]
fn with_a_mark_paging_goes_on_beyond_the_loaded_rows_and_takes_no_old_row_for_a_new_one() {
    let file = failed(1_300);
    let mut rig = Rig::open(&file);
    rig.keys(&["j", "j", " "]);
    for page in 1..=30 {
        rig.press("\x1b[6~");
        rig.send(Msg::Changed);
        assert_eq!(rig.cursor(), format!("F{:04}", 4 + 28 * page));
        assert_eq!((rig.app.list.waiting, rig.app.list.lines.total), (0, 1_300), "page {page}");
    }
    let (first, last) = (849 - 5, 849 + 5);
    file.con().execute("DELETE FROM tx WHERE guid = 'F0843'", []).unwrap();
    file.put(&[put("F0843a", "FAILED", 4_000 - 843), put("A", "FAILED", 9_000)]);
    rig.send(Msg::Changed);
    let guids: Vec<String> =
        rig.app.list.lines.rows.iter().map(|line| line.guid.to_string()).collect();
    let around = |from: usize, to: usize| (from..=to).map(|at| format!("F{at:04}"));
    assert!(!guids.contains(&"F0843".to_owned()) && !guids.contains(&"F0843a".to_owned()));
    assert!(around(first, last).all(|guid| guids.contains(&guid)), "{guids:?}");
    assert_eq!(rig.app.list.waiting, 1, "what came before the loaded rows is not looked for");
    assert_eq!(rig.app.list.marks.len(), 1);
}

// A key that is held down is quicker than the ledger: pages beyond the loaded rows were cut short.
#[test]
fn pages_that_are_pressed_before_their_rows_are_loaded_are_not_lost() {
    let file = failed(1_300);
    let mut rig = Rig::open(&file);
    for page in 1..=13 {
        rig.press("\x1b[6~");
        assert_eq!(rig.cursor(), format!("F{:04}", 1 + 28 * page));
    }
    // Now the answers are late: six pages are pressed before the first one comes.
    let ask = |effects: Vec<Effect>| {
        effects.into_iter().find_map(|effect| match effect {
            Effect::Ask(ask @ Ask::Lines(..)) => Some(ask),
            _ => None,
        })
    };
    let mut asked = None;
    for _ in 0..6 {
        let effects = rig.app.act(Action::PageDown);
        asked = asked.or(ask(effects));
    }
    let mut asked = asked.or_else(|| ask(rig.app.refresh()));
    while let Some(question) = asked {
        let answer = work::answer(&rig.desk, None, &question);
        asked = ask(rig.app.update(answer));
    }
    assert_eq!(rig.cursor(), format!("F{:04}", 1 + 28 * 19));
}
