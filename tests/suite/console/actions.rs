//! The routines from the console, and everything else that a key does, against a real ledger.

use oncegate::console::app::{Answer, Mode, Msg, Tab};
use oncegate::console::filter::Filter;
use oncegate::console::outbox::{OutboxDesk, Stores};
use oncegate::engine::desk::Became;
use oncegate::outbox::{self, Receiver, Role};
use oncegate::state::State;

use super::rig::{File, Mood, Rig, put};

fn mixed() -> File {
    let file = File::new();
    file.put(&[
        put("U1", "UNKNOWN", 8_000),
        put("U2", "UNKNOWN", 30),
        put("F1", "FAILED", 3_000),
        put("F2", "FAILED", 2_000),
        put("S1", "SENT", 20),
        put("S2", "SENT", 90),
        put("D1", "DONE", 90 * 86_400),
        put("D2", "DONE", 60),
    ]);
    file
}

fn guids(rig: &Rig) -> Vec<String> {
    rig.app.list.lines.rows.iter().map(|line| line.guid.to_string()).collect()
}

#[test]
fn it_opens_on_what_is_stuck_oldest_first() {
    assert_eq!(guids(&Rig::open(&mixed())), ["U1", "F1", "F2", "S2", "U2"]);
}

#[test]
fn an_unknown_row_is_resolved_by_asking_and_never_by_sending() {
    let file = mixed();
    let mut rig = Rig::open(&file);
    rig.press("R");
    rig.confirm("morning round");
    assert_eq!(file.state("U1").as_deref(), Some("DONE"));
    assert_eq!(file.history("U1").last().unwrap(), "resolve UNKNOWN DONE ops@bank morning round");
    assert!(rig.core.called().is_empty(), "nothing was sent");
    assert_eq!(rig.core.inquiries.lock().unwrap().len(), 1);
}

#[test]
fn what_the_core_does_not_have_becomes_failed_and_no_answer_leaves_it() {
    let file = mixed();
    let mut rig = Rig::open(&file);
    rig.core.set(Mood::Down);
    rig.press("R");
    rig.confirm("");
    assert_eq!(file.state("U1").as_deref(), Some("UNKNOWN"));
    assert_eq!(rig.app.runs[0].sum().left, 1);
    rig.core.set(Mood::Absent);
    rig.press("R");
    rig.confirm("");
    assert_eq!(file.state("U1").as_deref(), Some("FAILED"));
}

#[test]
fn a_row_too_young_to_ask_about_is_left_out_with_the_reason() {
    let file = mixed();
    let mut rig = Rig::open(&file);
    rig.press("G");
    rig.press("R");
    assert!(rig.screen().contains("30s old, resolve waits until 1m00s"), "{}", rig.screen());
    assert!(rig.screen().contains("nothing to do"), "{}", rig.screen());
    rig.keys(&["\t", "\t", "\t", "0", "\r"]);
    assert!(rig.changes.is_empty());
}

#[test]
fn a_plan_of_all_takes_what_its_routine_takes_and_says_why_not_the_rest() {
    let file = mixed();
    let mut rig = Rig::open(&file);
    rig.keys(&["*", "P"]);
    let screen = rig.screen();
    for words in [
        "2 of 5 chosen rows will be taken",
        "total amount 2,500,000",
        "left out 3",
        "UNKNOWN: outcome not known, resolve it first",
        "SENT: only FAILED is sent again",
        "( Send 2 transfers again )",
    ] {
        assert!(screen.contains(words), "{words:?} is not in\n{screen}");
    }
    rig.confirm("");
    assert_eq!(rig.core.called(), ["F1", "F2"]);
}

#[test]
fn a_purge_takes_only_old_done_rows() {
    let file = mixed();
    let mut rig = Rig::open(&file);
    rig.press("/state:done,failed\r");
    rig.keys(&["*", "X"]);
    assert!(rig.screen().contains("( Delete 1 transfer )"), "{}", rig.screen());
    rig.confirm("retention");
    assert_eq!((file.state("D1"), file.state("D2").as_deref()), (None, Some("DONE")));
    assert_eq!(file.history("D1"), ["purge DONE - ops@bank retention"]);
    rig.press(":goto D1\r");
    assert!(rig.screen().contains("purged: a resend gets E906"), "{}", rig.screen());
}

#[test]
fn esc_goes_back_one_thing_at_a_time_and_q_quits_at_the_top() {
    let file = mixed();
    let mut rig = Rig::open(&file);
    rig.press("/state:failed\r");
    rig.keys(&[" ", "\r", "z"]);
    assert!(rig.app.looking.open && rig.app.looking.zoom);
    rig.press("\x1b");
    assert!(rig.app.looking.open && !rig.app.looking.zoom);
    rig.press("\x1b");
    assert!(!rig.app.looking.open && rig.app.list.marks.len() == 1);
    rig.press("\x1b");
    assert!(rig.app.list.marks.is_empty());
    rig.press("\x1b");
    assert_eq!(rig.app.list.filter, Filter::default());
    rig.press("\x1b");
    assert!(!rig.quit, "Esc never quits");
    rig.press("q");
    assert!(rig.quit);
}

// tmux#1231: Esc waits half a second in tmux.
#[test]
fn esc_is_never_the_only_way_back() {
    let mut rig = Rig::open(&mixed());
    rig.keys(&["\r", "z", "q"]);
    assert!(rig.app.looking.open && !rig.app.looking.zoom);
    rig.press("q");
    assert!(!rig.app.looking.open);
    for (opens, closes) in
        [("?", "q"), ("f", "q"), ("e", "q"), ("/", "\x03"), (":", "\x03"), ("P", "\r")]
    {
        rig.press(opens);
        assert_ne!(rig.app.mode, Mode::Normal, "{opens}");
        rig.press(closes);
        assert_eq!(rig.app.mode, Mode::Normal, "{opens}");
    }
    rig.keys(&[" ", "u"]);
    assert!(rig.app.list.marks.is_empty() && !rig.quit);
}

#[test]
fn a_filter_may_be_words_or_one_word_that_the_engine_gives_its_meaning() {
    let file = mixed();
    let mut rig = Rig::open(&file);
    rig.press("/state:failed age:>40m code:e902\r");
    assert_eq!(guids(&rig), ["F1"]);
    rig.keys(&["\x1b", "/F2\r"]);
    assert_eq!(
        (guids(&rig), rig.app.list.filter.guid.as_deref()),
        (vec!["F2".to_owned()], Some("F2"))
    );
    rig.keys(&["\x1b", "/TRF\r"]);
    assert_eq!(rig.app.list.filter.tx_code.as_deref(), Some("TRF"));
    assert_eq!(guids(&rig).len(), 5);
    rig.keys(&["\x1b", "/timeout\r"]);
    assert_eq!(guids(&rig), ["U1", "U2"]);
    rig.keys(&["\x1b", "/bogus:1\r"]);
    assert!(rig.screen().contains("bogus:1 is no word"), "{}", rig.screen());
}

#[test]
fn states_are_chosen_from_a_menu_and_the_order_is_turned() {
    let file = mixed();
    let mut rig = Rig::open(&file);
    rig.keys(&["f", "j", "j", "\r"]);
    assert_eq!(guids(&rig), ["F1", "F2"]);
    rig.press("S");
    assert_eq!(guids(&rig), ["F2", "F1"]);
    rig.keys(&["f", "6"]);
    assert_eq!(guids(&rig), ["D2", "D1"]);
    rig.keys(&["S", "s"]);
    assert_eq!(guids(&rig), ["D1", "D2"]);
}

#[test]
fn ages_are_chosen_from_the_other_half_of_the_menu_and_states_and_words_stay() {
    let file = mixed();
    let mut rig = Rig::open(&file);
    rig.keys(&["/state:unknown,failed tx:TRF\r", "f"]);
    assert!(rig.screen().contains("States") && rig.screen().contains("Tab Age"));
    rig.press("\t");
    assert!(rig.screen().contains("1 any age") && rig.screen().contains("5 older than 2h"));
    rig.press("5");
    assert_eq!(guids(&rig), ["U1"]);
    assert_eq!(rig.app.list.filter.to_string(), "state:unknown,failed age:>2h tx:TRF");
    // The menu opens on what is chosen now; `f` turns it over as well as Tab.
    rig.keys(&["f", "f", "\r"]);
    assert_eq!(rig.app.list.filter.to_string(), "state:unknown,failed age:>2h tx:TRF");
    rig.keys(&["f", "f", "7"]);
    assert_eq!(guids(&rig), ["F1", "F2", "U2"]);
    rig.keys(&["f", "2"]);
    assert_eq!(rig.app.list.filter.to_string(), "state:unknown age:<1h tx:TRF");
    rig.keys(&["f", "f", "1", "f", "1"]);
    assert_eq!(rig.app.list.filter, Filter::default());
}

// What lies between the ends of a range is known only among the loaded rows.
#[test]
fn a_range_that_began_beyond_the_loaded_rows_is_not_guessed_at() {
    let file = File::new();
    let guids: Vec<String> = (0..1_300).map(|at| format!("U{at:05}")).collect();
    let rows: Vec<_> =
        guids.iter().zip(0..).map(|(guid, at)| put(guid, "UNKNOWN", 9_000 - at)).collect();
    file.put(&rows);
    let mut rig = Rig::open(&file);
    rig.keys(&["v", "G", " "]);
    assert!(rig.app.list.marks.is_empty());
    assert!(rig.screen().contains("the range's beginning is not loaded"), "{}", rig.screen());
    rig.keys(&["k", "k", " "]);
    assert_eq!(rig.app.list.marks.len(), 3, "from there on it is a range as any");
}

#[test]
fn a_range_marks_what_lies_between() {
    let mut rig = Rig::open(&mixed());
    rig.keys(&["v", "j", "j", " "]);
    let marks: Vec<String> = rig.app.list.marks.iter().map(ToString::to_string).collect();
    assert_eq!(marks, ["F1", "F2", "U1"]);
    rig.press("u");
    assert!(rig.app.list.marks.is_empty());
}

#[test]
fn enter_on_a_line_of_the_overview_opens_the_rows_behind_it() {
    let mut rig = Rig::open(&mixed());
    rig.keys(&["1", "j", "j", "j", "\r"]);
    assert_eq!((rig.app.tab, guids(&rig)), (Tab::Ledger, vec!["U1".to_owned(), "U2".to_owned()]));
    rig.keys(&["1", "j", "j", "\r"]);
    assert_eq!(guids(&rig), ["F1", "F2"], "the reason of the FAILED rows, most frequent or first");
}

#[test]
fn tab_goes_from_block_to_block_of_the_overview_and_enter_on_a_run_opens_its_row() {
    let file = mixed();
    let mut rig = Rig::open(&file);
    rig.press("R");
    rig.confirm("morning round");
    rig.press("1");
    assert_eq!(rig.app.overview_place(), (0, 0));
    rig.keys(&["\t"]);
    assert_eq!(rig.app.overview_place(), (1, 0));
    rig.keys(&["\t"]);
    assert_eq!(rig.app.overview_place(), (2, 0));
    rig.press("\r");
    assert!(rig.app.looking.open && rig.screen().contains("Row U1"), "{}", rig.screen());
    rig.keys(&["1", "\t"]);
    assert_eq!(rig.app.overview_place(), (0, 0), "round and round");
    rig.press("\x1b[Z");
    assert_eq!(rig.app.overview_place(), (2, 0));
    // However small the terminal: the block that has the cursor is seen.
    rig.send(Msg::Resized(60, 15));
    assert!(rig.screen().contains("resolve"), "{}", rig.screen());
    rig.press("\x1b[Z");
    assert!(rig.screen().contains("connect refused"), "{}", rig.screen());
}

#[test]
fn notes_go_to_the_history_and_the_history_leads_to_the_row() {
    let file = mixed();
    let mut rig = Rig::open(&file);
    rig.press("aasked the bank, ticket 8812\r");
    assert_eq!(file.history("U1").last().unwrap(), "note - - ops@bank asked the bank, ticket 8812");
    rig.press("5");
    assert!(rig.screen().contains("asked the bank"), "{}", rig.screen());
    rig.press("/cause:note\r");
    assert_eq!(rig.app.trail.lines.len(), 1);
    rig.press("\r");
    assert!(rig.app.looking.open && rig.screen().contains("Row U1"), "{}", rig.screen());
}

#[test]
fn one_cursor_is_in_the_bytes_and_in_the_fields() {
    let mut rig = Rig::open(&mixed());
    rig.keys(&["\r", "\t", "j", "j"]);
    assert_eq!(rig.app.fields()[rig.app.field_at().unwrap()].name, "guid");
    assert_eq!(rig.app.looking.at, 10);
    rig.keys(&["l", "l"]);
    assert_eq!((rig.app.looking.at, rig.app.field_at()), (12, Some(2)));
    assert!(rig.screen().contains(">   10+30 guid"), "{}", rig.screen());
    rig.press("\t");
    assert!(rig.app.looking.response, "the response is the next pane");
}

#[test]
fn a_finished_run_stays_until_it_is_acknowledged() {
    let file = mixed();
    let mut rig = Rig::open(&file);
    rig.press("R");
    rig.confirm("morning round");
    rig.press("3");
    assert!(rig.screen().contains("morning round") && rig.screen().contains("done 1"));
    rig.press("\r");
    assert!(rig.app.runs.is_empty());
}

#[test]
fn commands_complete_and_an_unknown_one_is_said() {
    let mut rig = Rig::open(&mixed());
    rig.press(":rep\t");
    let Mode::Typing(prompt) = &rig.app.mode else { panic!("no command line") };
    assert_eq!(prompt.edit.text(), "reprocess");
    rig.keys(&["\x1b", ":explode\r"]);
    assert!(rig.screen().contains("there is no command explode"), "{}", rig.screen());
    rig.press(":lang ko\r");
    assert!(rig.screen().contains("[2 원장]"), "{}", rig.screen());
    rig.press(":theme light\r");
    assert_eq!(rig.app.look.theme.name(), "light");
}

#[test]
fn paging_reaches_every_row_of_many_windows_and_comes_back() {
    let file = File::new();
    let guids: Vec<String> = (0..1_300).map(|at| format!("U{at:05}")).collect();
    let rows: Vec<_> =
        guids.iter().zip(0..).map(|(guid, at)| put(guid, "UNKNOWN", 90_000 - at / 7)).collect();
    file.put(&rows);
    let mut rig = Rig::open(&file);
    let mut seen = vec![rig.cursor()];
    while seen.last() != guids.last() {
        rig.press("j");
        assert_ne!(seen.last(), Some(&rig.cursor()), "stuck");
        seen.push(rig.cursor());
    }
    assert_eq!(seen, guids);
    rig.press("gg");
    assert_eq!(rig.cursor(), "U00000");
    rig.press("G");
    assert_eq!(rig.cursor(), "U01299");
    assert!(rig.screen().contains("of 1300"), "{}", rig.screen());
    for _ in 0..60 {
        rig.press("\x1b[5~");
    }
    assert_eq!(rig.cursor(), "U00000");
}

#[test]
fn pause_holds_the_rows_until_it_is_over() {
    let file = mixed();
    let mut rig = Rig::open(&file);
    rig.press("p");
    file.put(&[put("U9", "UNKNOWN", 9_000)]);
    rig.send(Msg::Changed);
    assert!(rig.screen().contains("PAUSED") && !guids(&rig).contains(&"U9".to_owned()));
    rig.press("p");
    assert!(guids(&rig).contains(&"U9".to_owned()));
}

#[test]
fn the_rows_of_a_run_are_shown_as_they_are_after_it() {
    let file = mixed();
    let mut rig = Rig::open(&file);
    rig.core.set(Mood::Silent);
    rig.press("/state:failed\r");
    rig.keys(&["*", "P"]);
    rig.confirm("");
    assert_eq!(rig.app.runs[0].sum().left, 2);
    let unknown = State::ALL.iter().position(|state| *state == State::Unknown).unwrap();
    assert_eq!(rig.app.counts.as_ref().unwrap().rows[unknown], 4);
}

/// An outbox with orders that wait, and the receiver on the other side.
struct Post {
    dir: tempfile::TempDir,
    receiver: Receiver,
}

impl Post {
    fn open(orders: usize) -> Post {
        let dir = tempfile::tempdir().unwrap();
        let source = outbox::open_store(&dir.path().join("source.db"), Role::Source).unwrap();
        for number in 1..=orders {
            let event = outbox::Event::new(format!("order-{number}"), 3).unwrap();
            outbox::enqueue(&source, &event, &mut outbox::no_fault).unwrap();
        }
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let receiver = Receiver::start(&dir.path().join("sink.db"), listener).unwrap();
        Post { dir, receiver }
    }

    fn stores(&self) -> Stores {
        Stores {
            source: self.dir.path().join("source.db"),
            sink: Some(self.dir.path().join("sink.db")),
            url: Some(format!("http://{}/events", self.receiver.local_addr())),
        }
    }
}

#[test]
fn a_confirmed_batch_sends_exactly_its_events_in_order() {
    let post = Post::open(10);
    let stores = post.stores();
    let batch = stores.batch().unwrap();
    assert_eq!(batch.len(), outbox::LIMIT_DEFAULT);
    let mut told = Vec::new();
    stores.dispatch(&batch, &mut |event| told.push((event.id, event.became))).unwrap();
    assert_eq!(told.len(), batch.len());
    assert!(told.iter().all(|(_, became)| *became == Became::Done), "{told:?}");
    let now = stores.look().unwrap();
    assert_eq!((now.waiting, now.orders, now.inbox), (2, 10, Some((8, 24))));
    // The same plan once more: what was sent is skipped, what came later does not join.
    told.clear();
    stores.dispatch(&batch, &mut |event| told.push((event.id, event.became))).unwrap();
    assert!(told.iter().all(|(_, became)| *became == Became::Skipped), "{told:?}");
    assert_eq!(stores.look().unwrap().waiting, 2);
}

#[test]
fn a_batch_stops_at_the_first_failure_and_leaves_the_rest_waiting() {
    let post = Post::open(3);
    let stores = Stores { url: Some("http://127.0.0.1:9/events".to_owned()), ..post.stores() };
    let mut told = Vec::new();
    let batch = stores.batch().unwrap();
    stores.dispatch(&batch, &mut |event| told.push(event.became)).unwrap();
    assert_eq!(told, [Became::Left, Became::Skipped, Became::Skipped]);
    assert_eq!(stores.look().unwrap().waiting, 3);
}

#[test]
fn the_outbox_is_sent_from_its_screen_by_plan_and_confirmation_only() {
    let (post, file) = (Post::open(3), mixed());
    let stores = post.stores();
    let mut rig = Rig::open(&file);
    rig.app.facts.outbox = true;
    rig.press("4");
    rig.send(Msg::Answer(Answer::Outbox(Box::new(stores.look().unwrap()))));
    assert!(rig.screen().contains("3 waiting of 3 orders"), "{}", rig.screen());
    rig.press("D");
    let Mode::Planning(plans) = rig.app.mode else { panic!("no plan is made") };
    rig.send(Msg::Answer(Answer::OutboxPlan(plans.serial, stores.batch().unwrap())));
    assert!(rig.screen().contains("( Send 3 events )"), "{}", rig.screen());
    rig.keys(&["D", "\t", "\t", "3", "\t", "\r"]);
    assert_eq!(rig.changes, ["dispatch"]);
    assert_eq!(rig.app.runs[0].planned.len(), 3);
}
