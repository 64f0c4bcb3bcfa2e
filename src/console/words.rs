//! Everything the console says, in English, Korean and Japanese. `{}` stands for a value.
//!
//! States, codes and the words of the filter stay as they are: they are what the ledger and the command line say.

use crate::engine::desk::{Act, Became};
use crate::state::State;

/// A language.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Lang {
    /// English.
    #[default]
    En,
    /// Korean.
    Ko,
    /// Japanese.
    Ja,
}

impl Lang {
    /// Every language.
    pub const ALL: [Lang; 3] = [Lang::En, Lang::Ko, Lang::Ja];

    /// Its name on the command line.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Lang::En => "en",
            Lang::Ko => "ko",
            Lang::Ja => "ja",
        }
    }

    /// The language of that name.
    #[must_use]
    pub fn named(name: &str) -> Option<Lang> {
        Lang::ALL.into_iter().find(|lang| lang.name() == name)
    }

    /// Its words.
    #[must_use]
    pub const fn words(self) -> &'static Words {
        match self {
            Lang::En => &EN,
            Lang::Ko => &KO,
            Lang::Ja => &JA,
        }
    }
}

macro_rules! words {
    ($($name:ident $en:literal $ko:literal $ja:literal;)*) => {
        /// The words of one language.
        #[derive(Debug)]
        pub struct Words { $(#[doc = $en] pub $name: &'static str),* }
        /// English.
        pub const EN: Words = Words { $($name: $en),* };
        /// Korean.
        pub const KO: Words = Words { $($name: $ko),* };
        /// Japanese.
        pub const JA: Words = Words { $($name: $ja),* };
        #[cfg(test)]
        const EVERY: &[[&str; 3]] = &[$([$en, $ko, $ja]),*];
    };
}

#[rustfmt::skip]
words! {
    tab_overview     "Overview"        "현황"        "概況";
    tab_ledger       "Ledger"          "원장"        "台帳";
    tab_runs         "Runs"            "실행"        "実行";
    tab_outbox       "Outbox"          "발신함"      "送信箱";
    tab_history      "History"         "이력"        "履歴";
    read_only        "READ-ONLY"       "읽기 전용"   "読取専用";
    operate          "OPERATE"         "운영"        "操作可";
    paused           "PAUSED"          "갱신 멈춤"   "更新停止";
    live             "live"            "실시간"      "自動更新";
    mouse_on         "mouse on, m off" "마우스 켬(m: 끔)" "マウス入(mで切)";
    too_small        "needs 60x15, is {}x{}" "최소 60x15 필요, 현재 {}x{}" "60x15以上が必要です(現在 {}x{})";

    state_received   "accepted, not yet sent"          "접수, 미송신"         "受付済・未送信";
    state_sent       "a call is under way"             "처리 중"              "処理中";
    state_done       "the result is known"             "결과 확정"            "結果確定";
    state_unknown    "outcome not known"               "결과 미확정"          "結果未確定";
    state_failed     "certainly not sent"              "미송신 확정"          "未送信確定";
    stuck            "what is stuck: UNKNOWN, FAILED, SENT older than 1m" "미처리: UNKNOWN, FAILED, 1분 지난 SENT" "滞留: UNKNOWN、FAILED、1分を超えたSENT";
    every_state      "every state"                     "모든 상태"            "すべての状態";

    any_age          "any age"                         "경과 시간 무관"       "経過時間を問わない";
    older_than       "older than {}"                   "{} 이상 경과"         "{}以上経過";
    younger_than     "younger than {}"                 "{} 미만 경과"         "{}未満経過";
    menu_states      "States"                          "상태"                 "状態";
    menu_ages        "Age"                             "경과 시간"            "経過時間";
    menu_export      "Export"                          "내보내기"             "出力";
    menu_other       "Tab {}  Esc close"               "Tab {}  Esc 닫기"     "Tab {}  Esc 閉じる";

    col_state        "STATE"     "상태"       "状態";
    col_rows         "ROWS"      "건수"       "件数";
    col_oldest       "OLDEST"    "최장 경과"  "最長経過";
    col_age          "AGE"       "경과"       "経過";
    col_guid         "GUID"      "GUID"       "GUID";
    col_tx           "TX CODE"   "거래코드"   "取引コード";
    col_code         "RSP"       "응답"       "応答";
    col_attempts     "N"         "회"         "回";
    col_amount       "AMOUNT"    "금액"       "金額";
    col_reason       "LAST REASON" "최근 사유" "直近の事由";
    col_when         "WHEN"      "일시"       "日時";
    col_who          "WHO"       "처리자"     "操作者";
    col_cause        "CAUSE"     "구분"       "区分";
    col_change       "FROM -> TO" "변경"      "変化";
    col_why          "REASON"    "사유"       "理由";
    col_seen         "SEEN"      "확인 내용"  "確認内容";
    col_field        "FIELD"     "항목"       "項目";
    col_value        "VALUE"     "값"         "値";
    col_seq          "SEQ"       "순번"       "順番";
    col_qty          "QTY"       "수량"       "数量";
    col_id           "ID"        "ID"         "ID";
    col_run          "RUN"       "실행"       "実行";
    col_action       "ACTION"    "작업"       "処理";
    col_began        "BEGAN"     "시작"       "開始";
    col_result       "RESULT"    "결과"       "結果";

    states           "States"                          "상태별 현황"          "状態別";
    flow_unknown     "UNKNOWN per minute, last 60"     "분당 UNKNOWN, 최근 60분" "毎分UNKNOWN・直近60分";
    flow_failed      "FAILED per minute, last 60"      "분당 FAILED, 최근 60분"  "毎分FAILED・直近60分";
    peak             "peak {}"                         "최대 {}"              "最大 {}";
    reasons          "Why: top reasons of the newest {} changes" "주요 사유(최근 변경 {}건)" "主な事由(直近の変更{}件)";
    last_lines       "Last runs (UTC)"                 "최근 작업(UTC)"       "直近の操作(UTC)";
    as_of            "as of {}, one snapshot"          "{} 기준, 동일 시점"   "{} 時点・同一断面";
    rows             "Rows"                            "거래 목록"            "取引一覧";
    of_rows          "{}-{} of {}"                     "{}-{} / {}건"         "{}-{} / {}件";
    no_rows          "no rows"                         "0건"                  "0件";
    more_lines       "{}-{} of {}, {} scroll"          "{}-{} / {}행, {} 이동" "{}-{} / {}行、{} 移動";
    marked           "marked {}"                       "선택 {}건"            "選択 {}件";
    new_rows         "{} new, r shows them"            "신규 {}건(r: 표시)"   "新着{}件(rで表示)";
    filter           "filter"                          "조건"                 "条件";
    sort             "sort"                            "정렬"                 "並び";
    oldest_first     "oldest first"                    "오래된 순"            "古い順";
    newest_first     "newest first"                    "최신 순"              "新しい順";
    by_guid          "by GUID"                         "GUID 순"              "GUID順";
    by_attempts      "by attempts"                     "시도 횟수 순"         "試行回数順";
    reversed         ", reversed"                      ", 역순"               "・逆順";
    loading          "reading the ledger"              "원장을 읽는 중"       "台帳を読込中";
    nothing_stuck    "Nothing is stuck: no row matches {}" "미처리 건이 없습니다: {}" "滞留はありません: {}";
    nothing_matches  "No row matches {}"               "조건에 맞는 거래가 없습니다: {}" "条件に合う取引はありません: {}";
    counted          "as of {}, over {} rows in all."  "{} 기준, 전체 {}건."  "{} 時点、全{}件。";
    empty_next       "Esc clears the filter, f chooses states, 1 shows the overview." "Esc: 조건 해제, f: 상태 선택, 1: 현황" "Esc: 条件解除、f: 状態選択、1: 概況";
    no_runs          "No run in this console yet."     "이 콘솔에서 실행한 작업이 없습니다." "このコンソールでの実行はまだありません。";
    no_runs_next     "Mark rows in the ledger (2), then R, P or X opens a plan." "원장(2)에서 거래를 선택한 뒤 R, P, X로 계획을 엽니다." "台帳(2)で取引を選び、R・P・Xで計画を開きます。";
    no_history       "No history matches."             "해당하는 이력이 없습니다." "該当する履歴はありません。";
    no_history_next  "Esc clears the filter. Plain first-time successes leave no line." "Esc: 조건 해제. 최초 정상 처리 건은 이력이 없습니다." "Esc: 条件解除。初回の正常処理は履歴に残りません。";
    no_outbox        "no outbox: start with --outbox SOURCE.db" "발신함 없음: --outbox SOURCE.db로 시작하십시오" "送信箱なし: --outbox SOURCE.db で起動してください";
    no_outbox_url    "dispatch is off: start with --outbox-url URL" "발송 불가: --outbox-url URL로 시작하십시오" "送信不可: --outbox-url URL で起動してください";
    no_pending       "Nothing waits: every order was acknowledged." "대기 건 없음: 모든 주문이 수신 확인되었습니다." "待ちはありません: すべて受領確認済みです。";
    outbox_counts    "{} waiting of {} orders"         "주문 {1}건 중 대기 {}건"    "待ち{}件 / 注文{}件";
    inbox_counts     "other side: {} received, stock {}" "수신측: {}건 수신, 재고 {}" "受信側: {}件受信、在庫{}";
    no_age           "no time is kept of an event: SEQ is the order" "이벤트에는 시각이 없습니다: SEQ가 순서입니다" "イベントに時刻はありません: SEQが順序です";

    detail           "Row"                             "거래 상세"            "取引詳細";
    facts            "Facts"                           "개요"                 "概要";
    request          "Request"                         "요청 전문"            "要求電文";
    response         "Response"                        "응답 전문"            "応答電文";
    fields           "Fields"                          "전문 항목"            "電文項目";
    fact_for         "{} for {}"                       "{} {} 경과"           "{} 経過{}";
    fact_unknown     "the core may have done it"       "코어에서 처리되었을 수 있음" "コアで処理済みの可能性あり";
    fact_failed      "it was certainly not sent"       "송신되지 않았음이 확실함"    "未送信であることが確実";
    fact_sent        "a call is under way, or its process died" "호출 중이거나 프로세스가 종료됨" "呼出中、またはプロセス停止";
    fact_received    "another program accepted it; not sent" "타 프로그램이 접수, 미송신" "他プログラムが受付、未送信";
    fact_done        "settled; nothing changes it"     "확정됨, 변경되지 않음" "確定済み・変更なし";
    fact_purged      "purged: a resend gets E906"      "삭제됨: 재전송 시 E906 응답" "削除済み: 再送にはE906を応答";
    fact_nothing     "not in the ledger"               "원장에 없음"          "台帳にありません";
    purged_state     "purged"                          "삭제"                 "削除";
    fact_amount      "amount"                          "금액"                 "金額";
    fact_tx          "tx code"                         "거래코드"             "取引コード";
    fact_attempts    "attempts"                        "시도 횟수"            "試行回数";
    fact_changed     "changed"                         "최종 변경"            "最終変更";
    fact_owner       "claimed by"                      "처리 프로세스"        "処理プロセス";
    fact_code        "reply code"                      "응답 코드"            "応答コード";
    what_can         "What you can do"                 "가능한 조치"          "可能な操作";
    off              "OFF"                             "불가"                 "不可";
    can_resolve      "ask the core; sends nothing"     "코어에 결과 조회, 송신하지 않음" "コアへ照会、送信はしない";
    can_reprocess    "send again under the same GUID"  "동일 GUID로 재송신"   "同一GUIDで再送信";
    can_purge        "delete; its GUID stays known"    "삭제, GUID는 보존"    "削除、GUIDは保持";
    history_of       "History"                         "이력"                 "履歴";
    no_line          "no line: nothing but the plain way" "기록 없음(정상 처리)" "記録なし(通常処理)";
    no_response      "no response in this state"       "이 상태에는 응답 전문이 없음" "この状態に応答電文はありません";
    not_loaded       "the row is not loaded yet"       "아직 읽지 못했습니다" "まだ読み込まれていません";
    masked_field     "(masked)"                        "(마스킹)"             "(マスク)";
    masked           "masked; :reveal shows it"        "마스킹됨(:reveal로 해제)" "マスク中(:revealで解除)";
    byte_at          "byte {} of {}"                   "{}/{} 바이트"         "{}/{}バイト目";
    text_column      "text column: {}"                 "문자열 열: {}"        "文字列欄: {}";

    act_resolve      "resolve"                         "결과 조회"            "結果照会";
    act_reprocess    "reprocess"                       "재처리"               "再処理";
    act_purge        "purge"                           "삭제"                 "削除";
    act_dispatch     "dispatch"                        "일괄 발송"            "一括送信";
    plan_title       "PLAN {}   made {}"               "{} 계획   작성 {}"    "{}計画   作成 {}";
    plan_takes       "{} of {} chosen rows will be taken" "선택 {1}건 중 {}건 처리 예정" "選択{1}件のうち{}件を処理";
    plan_total       "total amount {}"                 "금액 합계 {}"         "金額合計{}";
    plan_no_amount   "({} without an amount)"          "(금액 미상 {}건)"     "(金額不明 {}件)";
    plan_left_out    "left out {}"                     "제외 {}건"            "対象外 {}件";
    plan_resolve     "The core is asked about each row; nothing is sent. What it has becomes DONE, what it does not have becomes FAILED, no answer leaves the row." "각 건의 처리 결과를 코어에 조회하며 송신하지 않습니다. 코어에 있으면 DONE, 없으면 FAILED, 무응답이면 그대로 둡니다." "1件ずつコアへ結果を照会し、送信はしません。コアにあればDONE、なければFAILED、応答がなければそのままです。";
    plan_reprocess   "Each transfer is sent again under its own GUID, one at a time, oldest first; stops after 3 connect failures. This cannot be undone." "각 거래를 동일 GUID로 오래된 순서대로 한 건씩 재송신합니다. 접속 실패 3회 연속 시 중지합니다. 취소할 수 없습니다." "各取引を同一GUIDで古い順に1件ずつ再送信します。接続失敗が3回続くと停止します。取り消せません。";
    plan_purge       "DONE rows older than {} days are deleted. Their GUIDs stay known: a late resend gets E906. This cannot be undone." "{}일이 지난 DONE 거래를 삭제합니다. GUID는 보존되어 늦은 재전송에는 E906으로 응답합니다. 취소할 수 없습니다." "{}日を過ぎたDONEを削除します。GUIDは保持され、遅れた再送にはE906を応答します。取り消せません。";
    plan_dispatch    "The events are sent in order, one by one; the first failure stops the batch and leaves the rest waiting." "이벤트를 순서대로 한 건씩 발송합니다. 첫 실패에서 중지하고 나머지는 대기로 남깁니다." "イベントを順に1件ずつ送信します。最初の失敗で停止し、残りは待ちのままです。";
    plan_checked     "Each row is checked again at its turn; a row that changed is skipped and listed; rows that arrive later do not join." "각 건은 처리 직전에 다시 확인하며, 변경된 건은 건너뛰고 표시합니다. 이후 도착한 건은 포함되지 않습니다." "各件は処理直前に再確認し、変化した件は飛ばして表示します。後から届いた件は含みません。";
    ask_reason       "reason (kept in the history)"    "사유(이력에 기록)"    "理由(履歴に記録)";
    ask_count        "type the number of rows ({})"    "건수 입력({})"        "件数を入力({})";
    cancel           "Cancel"                          "취소"                 "取消";
    do_resolve       "Ask the core about {} transfers" "{}건 결과 조회"       "{}件を照会";
    do_reprocess     "Send {} transfers again"         "{}건 재송신"          "{}件を再送信";
    do_purge         "Delete {} transfers"             "{}건 삭제"            "{}件を削除";
    do_dispatch      "Send {} events"                  "이벤트 {}건 발송"     "イベント{}件を送信";
    do_resolve_one   "Ask the core about 1 transfer"   "1건 결과 조회"        "1件を照会";
    do_reprocess_one "Send 1 transfer again"           "1건 재송신"           "1件を再送信";
    do_purge_one     "Delete 1 transfer"               "1건 삭제"             "1件を削除";
    do_dispatch_one  "Send 1 event"                    "이벤트 1건 발송"      "イベント1件を送信";
    armed            "armed"                           "실행 가능"            "実行可";
    not_yet          "not armed yet"                   "건수 입력 전"         "件数未入力";
    not_armed        "not armed: type the number of rows first" "실행 불가: 먼저 건수를 입력하십시오" "実行できません: 先に件数を入力してください";
    nothing_to_do    "nothing to do: every chosen row is left out" "처리 대상 없음: 선택한 건이 모두 제외됨" "対象なし: 選択した件はすべて対象外";
    confirm_keys     "Esc cancel  Tab next  Enter acts on the focus  ↑↓ scroll" "Esc 취소  Tab 다음  Enter 현재 항목 실행  ↑↓ 이동" "Esc 取消  Tab 次へ  Enter フォーカスを実行  ↑↓ 移動";
    planning         "making the plan; Esc gives it up" "계획 작성 중(Esc: 중단)" "計画を作成中(Escで中止)";
    given_up         "the plan was given up; nothing was done" "계획을 중단했습니다. 아무것도 실행되지 않았습니다." "計画を中止しました。何も実行していません。";
    cancelled        "cancelled; nothing was done"     "취소했습니다. 아무것도 실행되지 않았습니다." "取り消しました。何も実行していません。";
    run_begins       "run {} begins: {} rows; 3 shows it" "실행 {} 시작: {}건(3: 보기)" "実行{}を開始: {}件(3で表示)";
    run_ended        "run {} ended: {} done, {} left, {} skipped, {} failed of {}" "실행 {} 종료: 완료 {}, 미확정 {}, 제외 {}, 실패 {} / 전체 {}" "実行{}終了: 完了{} 未確定{} 対象外{} 失敗{} / 全{}";
    run_sum          "done {} left {} skipped {} failed {} open {} = {}" "완료 {} 미확정 {} 제외 {} 실패 {} 대기 {} = {}" "完了 {} 未確定 {} 対象外 {} 失敗 {} 残り {} = {}";
    run_going        "going, about {} left"            "진행 중, 약 {} 남음"  "実行中、残り約{}";
    run_stopping     "stops after the row in hand"     "현재 건 처리 후 중지" "処理中の1件後に停止";
    run_finished     "finished: Enter acknowledges"    "종료(Enter: 확인)"    "終了(Enterで確認)";
    run_failed       "broke off: {}"                   "중단됨: {}"           "中断: {}";
    run_in_hand      "in hand"                         "처리 중"              "処理中";
    acknowledged     "acknowledged"                    "확인했습니다"         "確認しました";
    stopping         "asked to stop after the row in hand" "현재 건까지만 처리하고 중지합니다" "処理中の1件の後に停止します";
    no_run           "no run is going here"            "진행 중인 실행이 없습니다" "実行中のものはありません";
    too_many_runs    "too many runs are going: wait for one to end" "실행 중인 작업이 많습니다. 종료를 기다리십시오." "実行中が多すぎます。終了を待ってください。";
    became_done      "done"                            "완료"                 "完了";
    became_failed    "not sent"                        "미송신"               "未送信";
    became_left      "outcome open"                    "미확정"               "未確定";
    became_skipped   "skipped"                         "제외"                 "対象外";
    quit_running     "A run is going. Quit? It stops after the row in hand. y quits, any other key stays." "실행 중인 작업이 있습니다. 종료하시겠습니까? 현재 건 처리 후 중지됩니다. y 종료, 그 외 계속." "実行中です。終了しますか? 処理中の1件の後に停止します。yで終了、他のキーで継続。";

    off_read_only    "off: the ledger was opened read-only" "불가: 읽기 전용으로 열었습니다" "不可: 読取専用で開いています";
    off_no_core      "off: no core given; start with --core URL" "불가: 코어 미지정(--core URL로 시작)" "不可: コア未指定(--core URL で起動)";
    off_no_days      "off: purge wants an age; start with --days N" "불가: 보존 기간 미지정(--days N으로 시작)" "不可: 保存日数未指定(--days N で起動)";
    off_broken       "off: a part of the console stopped ({})" "불가: 콘솔 일부가 중단됨({})" "不可: コンソールの一部が停止({})";
    why_unknown      "UNKNOWN: outcome not known, resolve it first" "UNKNOWN: 결과 미확정, 먼저 결과 조회하십시오" "UNKNOWN: 結果未確定、先に結果照会してください";
    why_not_final    "UNKNOWN: outcome not known, it stays" "UNKNOWN: 결과 미확정이므로 보존" "UNKNOWN: 結果未確定のため保持";
    why_not_done     "{}: only DONE is purged"         "{}: DONE만 삭제합니다" "{}: 削除はDONEのみ";
    why_not_unknown  "{}: only UNKNOWN is resolved"    "{}: UNKNOWN만 결과 조회합니다" "{}: 照会はUNKNOWNのみ";
    why_not_failed   "{}: only FAILED is sent again"   "{}: FAILED만 재처리합니다" "{}: 再処理はFAILEDのみ";
    why_young        "{} old, {} waits until {}"       "{} 경과, {}는 {} 이후 가능" "経過{}、{}は{}以降";
    why_code         "its code is {}, not E902"        "응답 코드 {}: E902가 아님" "応答コード{}: E902ではない";
    why_attempts     "tried {} times, at most {}"      "시도 {}회, 최대 {}회"  "試行{}回、上限{}回";
    why_unreadable   "the stored request can't be read" "저장된 요청 전문을 해석할 수 없음" "保存電文を解釈できません";
    why_gone         "not in the ledger any more"      "원장에 더 이상 없음"  "台帳にもうありません";
    why_in_run       "in run {}"                       "실행 {}에서 처리 중"  "実行{}で処理中";

    no_row           "no row under the cursor"         "선택된 거래가 없습니다" "取引が選ばれていません";
    too_many         "more than {} rows match: narrow the filter, or use the command line" "{}건을 초과합니다. 조건을 좁히거나 명령행을 사용하십시오." "{}件を超えます。条件を絞るか、コマンドラインをお使いください。";
    marked_all       "marked all {} matching rows"     "조건에 맞는 {}건을 모두 선택했습니다" "条件に合う{}件をすべて選択しました";
    range_begun      "range: move, then v or Space marks it" "범위 시작: 이동 후 v 또는 Space" "範囲開始: 移動してvかSpace";
    range_too_far    "the range's beginning is not loaded any more: it begins here" "범위의 시작 행을 벗어났습니다. 여기서 다시 시작합니다." "範囲の開始行が読込範囲外です。ここから始めます。";
    noted            "note written for {}"             "{}에 메모를 기록했습니다" "{}にメモを記録しました";
    revealed         "masked fields of {} are shown; the history says so" "{}의 마스킹을 해제했습니다(이력에 기록됨)" "{}のマスクを解除しました(履歴に記録)";
    exported         "{} rows written to {}"           "{}건을 {}에 저장했습니다" "{}件を{}へ出力しました";
    export_csv       "rows as CSV (marked, else all matching)" "목록 CSV(선택 건, 없으면 조건 전체)" "一覧をCSVで(選択分、なければ条件全件)";
    export_json      "rows as JSON lines"              "목록 JSON"            "一覧をJSONで";
    export_bundle    "everything about this row, as JSON" "현재 거래 전체(JSON)" "この取引のすべて(JSON)";
    export_report    "the report of this run, as CSV"  "이 실행의 결과(CSV)"  "この実行の結果(CSV)";
    export_trail     "the lines shown, as CSV"         "표시된 이력(CSV)"     "表示中の履歴(CSV)";
    copied           "copied {} bytes (OSC 52; the terminal does not confirm it)" "{}바이트 복사(OSC 52, 단말은 확인 응답을 하지 않음)" "{}バイトをコピー(OSC 52、端末からの確認はありません)";
    copied_tmux      "; tmux wants: set -g set-clipboard on" "; tmux 설정 필요: set -g set-clipboard on" "; tmux設定が必要: set -g set-clipboard on";
    copy_too_long    "{} bytes are more than terminals take ({}): e exports" "{}바이트는 단말 한도({})를 넘습니다. e로 내보내십시오." "{}バイトは端末の上限({})を超えます。eで出力してください。";
    paste_ignored    "pasted text is ignored here"     "여기서는 붙여넣기를 무시합니다" "ここでは貼り付けを無視します";
    interrupt_again  "C-c again quits"                 "C-c를 한 번 더 누르면 종료" "もう一度C-cで終了";
    cannot_suspend   "there is no shell to return to: not suspended" "돌아갈 셸이 없어 중단하지 않았습니다" "戻るシェルがないため中断しません";
    trouble          "since {}: {}; rows are as of {}" "{}부터: {}. 목록은 {} 기준" "{}から: {}。一覧は{}時点";
    never_read       "never"                           "읽은 적 없음"         "未読込";
    broken           "stopped: {}"                     "중단됨: {}"           "停止: {}";

    reason_done      "done"                            "완료"                 "完了";
    reason_refused   "refused by the core: {}"         "코어에서 거절: {}"    "コアが拒否: {}";
    reason_known     "the core has it"                 "코어에 처리 내역 있음" "コアに処理記録あり";
    reason_absent    "the core does not have it"       "코어에 처리 내역 없음" "コアに処理記録なし";
    reason_deleted   "deleted"                         "삭제됨"               "削除済み";
    reason_not_deleted "not deleted: {}"               "삭제하지 못함: {}"    "削除できません: {}";
    reason_not_asked "not asked: stopped"              "조회하지 않음: 중지됨" "照会せず: 停止";
    reason_not_tried "not tried: stopped"              "처리하지 않음: 중지됨" "処理せず: 停止";
    reason_unreachable "not tried: the core can't be reached" "처리하지 않음: 코어에 접속할 수 없음" "処理せず: コアに接続できません";
    reason_gone      "the row is gone"                 "원장에서 삭제됨"      "台帳から削除されています";
    reason_changed   "changed meanwhile: {}, attempt {}" "그사이 변경됨: {}, 시도 {}회" "その間に変更: {}、試行{}回";
    reason_changed_or_gone "changed or gone meanwhile" "그사이 변경 또는 삭제됨" "その間に変更または削除";
    reason_young     "too young: changed at {} UTC"    "경과 시간 부족: {} UTC에 변경" "経過時間不足: {} UTCに変更";
    reason_unreadable "the stored request can't be read: {}" "저장된 요청 전문을 해석할 수 없음: {}" "保存電文を解釈できません: {}";
    reason_other_guid "the stored request has another GUID" "저장된 요청 전문의 GUID가 다름" "保存電文のGUIDが異なります";
    reason_sent_and_gone "sent, and the row is gone"   "송신했으나 원장에서 삭제됨" "送信済み、台帳から削除されています";
    reason_not_recorded "sent, and the result could not be recorded: {}" "송신했으나 결과를 기록하지 못함: {}" "送信済み、結果を記録できません: {}";
    event_acknowledged "acknowledged and marked"       "수신 확인, 처리 완료" "受領確認・処理済み";
    event_not_next   "not the next to wait any more"   "다음 대기 건이 아님"  "次の待ちではありません";
    event_pending    "{}; it stays pending"            "{}; 대기 유지"        "{}; 待ちのまま";
    event_after_a_failure "not tried: an earlier event failed" "발송하지 않음: 앞 건 실패" "送信せず: 前の件が失敗";
    run_over         "not tried: the run ended"        "처리하지 않음: 실행 종료" "処理せず: 実行終了";
    broke_lock       "can't take an owner's lock beside the ledger, nothing was sent: {}" "원장 옆에 소유자 잠금을 얻지 못해 송신하지 않음: {}" "台帳の所有者ロックを取得できず、送信していません: {}";
    broke_off        "the routine is off: nothing was changed" "사용할 수 없는 작업: 변경 없음" "使えない処理: 変更なし";
    not_written      "nothing was written: {}"         "기록하지 않음: {}"    "書き込みなし: {}";
    ledger_busy      "the ledger is locked by another process" "다른 프로세스가 원장을 잠금" "別プロセスが台帳をロック中";
    ledger_full      "the disk of the ledger is full"  "원장 디스크 공간 부족" "台帳のディスク容量不足";
    ledger_read_only "the ledger can't be written: {}" "원장에 쓸 수 없음: {}" "台帳に書き込めません: {}";
    ledger_moved     "the ledger was moved, deleted or replaced while it was open" "사용 중 원장 파일이 이동·삭제·교체됨" "使用中に台帳ファイルが移動・削除・置換されました";
    ledger_sync_failed "the ledger's disk failed to sync: what is on disk is not known ({})" "원장 디스크 동기화 실패: 기록 상태를 알 수 없음({})" "台帳ディスクの同期に失敗: 記録状態は不明({})";
    ledger_failed    "the ledger failed: {}"           "원장 오류: {}"        "台帳エラー: {}";
    ledger_closed    "the ledger is closed"            "원장이 닫힘"          "台帳は閉じられています";
    field_cut        "{} of its {} bytes are there"    "{1}바이트 중 {}바이트만 있음" "{1}バイト中{}バイトのみ";
    field_filler     "filler, kept as it is"           "필러, 그대로 보존"    "フィラー、そのまま保持";
    field_blank      "blank"                           "공백"                 "空白";
    field_not_digits "not digits"                      "숫자가 아님"          "数字ではありません";
    field_not_text   "no {} text at byte {}"           "{}: {}번째 바이트를 해석할 수 없음" "{}: {}バイト目を解釈できません";
    field_not_the_constant "not the layout's constant" "레이아웃의 고정값과 다름" "レイアウトの固定値と異なります";
    field_not_the_end_mark "not the layout's end mark" "레이아웃의 종료 표시와 다름" "レイアウトの終端と異なります";
    field_none       "no field of this layout"         "레이아웃에 없는 항목" "レイアウトにない項目";

    prompt_filter    "filter"                          "조건"                 "条件";
    prompt_command   ":"                               ":"                    ":";
    prompt_note      "note on {}"                      "{} 메모"              "{}へのメモ";
    bad_word         "{} is no word: state: age: code: guid: tx: reason:" "{}: 알 수 없는 조건(state: age: code: guid: tx: reason:)" "{}: 不明な条件(state: age: code: guid: tx: reason:)";
    bad_state        "{} is no state"                  "{}: 없는 상태"        "{}: 存在しない状態";
    bad_age          "{} is no age: 90s 5m 2h 3d, > or < before it" "{}: 잘못된 경과 시간(90s 5m 2h 3d, 앞에 > 또는 <)" "{}: 経過時間の誤り(90s 5m 2h 3d、前に>か<)";
    two_words        "{} is one bare word too many"    "{}: 단어는 하나만"    "{}: 単語は1つだけ";
    no_command       "there is no command {}"          "{}: 없는 명령"        "{}: 存在しないコマンド";
    not_here         "{} does nothing on this screen"  "{}: 이 화면에서는 사용할 수 없음" "{}: この画面では使えません";

    help             "Keys"                            "키 안내"              "キー一覧";
    help_search      "type to search"                  "입력하면 검색"        "入力で検索";
    help_filter      "filter words: state:unknown,failed  age:>5m age:<1h  code:E902  guid:2026  tx:TRF  reason:\"read timeout\"" "조건: state:unknown,failed  age:>5m age:<1h  code:E902  guid:2026  tx:TRF  reason:\"read timeout\"" "条件: state:unknown,failed  age:>5m age:<1h  code:E902  guid:2026  tx:TRF  reason:\"read timeout\"";
    group_move       "MOVE"      "이동"        "移動";
    group_look       "LOOK"      "보기"        "表示";
    group_find       "FIND"      "검색"        "検索";
    group_mark       "MARK"      "선택"        "選択";
    group_act        "ACT (opens a plan; nothing is done yet)" "조치(계획을 열 뿐 실행하지 않음)" "操作(計画を開くだけで実行しません)";
    group_take       "TAKE AWAY" "내보내기"    "持ち出し";
    group_program    "PROGRAM"   "프로그램"    "プログラム";
    close            "Esc close" "Esc 닫기"    "Esc 閉じる";
}

impl Words {
    /// What a state means.
    #[must_use]
    pub const fn state(&self, state: State) -> &'static str {
        match state {
            State::Received => self.state_received,
            State::Sent => self.state_sent,
            State::Done => self.state_done,
            State::Unknown => self.state_unknown,
            State::Failed => self.state_failed,
        }
    }

    /// What is true of a row in a state.
    #[must_use]
    pub const fn fact(&self, state: State) -> &'static str {
        match state {
            State::Received => self.fact_received,
            State::Sent => self.fact_sent,
            State::Done => self.fact_done,
            State::Unknown => self.fact_unknown,
            State::Failed => self.fact_failed,
        }
    }

    /// A routine's name.
    #[must_use]
    pub const fn act(&self, act: Act) -> &'static str {
        match act {
            Act::Resolve => self.act_resolve,
            Act::Reprocess => self.act_reprocess,
            Act::Purge => self.act_purge,
        }
    }

    /// What a routine does to one row.
    #[must_use]
    pub const fn can(&self, act: Act) -> &'static str {
        match act {
            Act::Resolve => self.can_resolve,
            Act::Reprocess => self.can_reprocess,
            Act::Purge => self.can_purge,
        }
    }

    /// The button: verb and number.
    #[must_use]
    pub fn button(&self, act: Option<Act>, rows: usize) -> String {
        let (one, many) = match act {
            Some(Act::Resolve) => (self.do_resolve_one, self.do_resolve),
            Some(Act::Reprocess) => (self.do_reprocess_one, self.do_reprocess),
            Some(Act::Purge) => (self.do_purge_one, self.do_purge),
            None => (self.do_dispatch_one, self.do_dispatch),
        };
        if rows == 1 { one.to_owned() } else { super::text::fill(many, &[&rows.to_string()]) }
    }

    /// What became of a row.
    #[must_use]
    pub const fn became(&self, became: Became) -> &'static str {
        match became {
            Became::Done => self.became_done,
            Became::Failed => self.became_failed,
            Became::Left => self.became_left,
            Became::Skipped => self.became_skipped,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_language_has_a_place_for_every_value() {
        for texts in EVERY {
            let places = texts.map(|text| text.matches('{').count());
            assert_eq!([places[0]; 3], places, "{texts:?}");
        }
    }
}
