#!/usr/bin/env python3
"""A small relay as a careful user would write it: sqlite3 with WAL and synchronous=FULL, autocommit, a thread and a ledger connection per
channel connection, http.client to a core connection that is kept. It keeps the relay's rules: a telegram is checked, a GUID is claimed
before the call and its result is recorded before the answer, a resend is replayed or told what is known, and what may have reached
the core is UNKNOWN."""
import datetime
import http.client
import json
import socket
import socketserver
import sqlite3
import sys
import threading

CORE, DB = sys.argv[1], sys.argv[2]
SCHEMA = """CREATE TABLE IF NOT EXISTS tx (guid TEXT PRIMARY KEY, tx_code TEXT,
            state TEXT NOT NULL CHECK (state IN ('RECEIVED', 'SENT', 'DONE', 'UNKNOWN', 'FAILED')), rsp_code TEXT,
            request BLOB, response BLOB, attempts INTEGER NOT NULL, updated_at TEXT NOT NULL)"""
HEADER = [("tgrm_len", 8, "N"), ("std_ver", 2, "X"), ("guid", 30, "X"), ("guid_hop", 2, "N"), ("tx_code", 8, "X"), ("msg_type", 1, "X"),
          ("send_cnt", 1, "N"), ("channel_id", 3, "X"), ("req_dtm", 17, "X"), ("rsp_dtm", 17, "X"), ("ttl_sec", 3, "N"),
          ("resp_code", 4, "X"), ("err_sys", 3, "X"), ("filler", 29, "F")]
REQUEST = [("from_acct", 16, "X"), ("to_acct", 16, "X"), ("amount", 13, "N"), ("memo", 20, "X"), ("filler", 15, "F")]
RESPONSE = [("core_tx_id", 14, "X"), ("posted_dtm", 14, "X"), ("bal_sign", 1, "X"), ("balance", 13, "N"), ("status", 1, "X"), ("filler", 2, "F")]
TELEGRAM_BYTES_MAX = 65536


def decode(fields, record):
    if len(record) != sum(length for _, length, _ in fields):
        raise ValueError("length %d" % len(record))
    values, at = {}, 0
    for name, length, kind in fields:
        raw, at = record[at:at + length], at + length
        if kind == "N":
            if not raw.isdigit():
                raise ValueError("%s: %r" % (name, raw))
            values[name] = int(raw)
        elif kind == "X":
            values[name] = raw.decode("cp949").rstrip()
        else:
            values[name] = raw
    return values


def encode(fields, values):
    parts = []
    for name, length, kind in fields:
        value = values.get(name, 0 if kind == "N" else "")
        raw = b"%0*d" % (length, value) if kind == "N" else value if kind == "F" and value else value.encode("cp949").ljust(length)
        if len(raw) != length:
            raise ValueError("%s: %r" % (name, value))
        parts.append(raw)
    return b"".join(parts)


def reply(head, code, body=None):
    now = datetime.datetime.now(datetime.timezone.utc).strftime("%Y%m%d%H%M%S%f")[:17]
    said = dict(head, tgrm_len=165, guid_hop=min(head["guid_hop"] + 1, 99), msg_type="R", rsp_dtm=now, resp_code=code,
                err_sys="" if code == "0000" else "RLY" if code.startswith("E9") else "COR")
    return encode(HEADER, said) + encode(RESPONSE, body or {})


class Channel(socketserver.BaseRequestHandler):
    def handle(self):
        self.request.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.ledger, self.core = ledger(), None
        stream = self.request.makefile("rb")
        while True:
            length = stream.read(8)
            if len(length) < 8 or not length.isdigit() or int(length) > TELEGRAM_BYTES_MAX:
                return
            telegram = length + stream.read(int(length))
            try:
                head = decode(HEADER, telegram[:128])
            except ValueError as error:
                print("closed: %s" % error, file=sys.stderr)
                return
            self.request.sendall(self.answer(telegram, head))

    def answer(self, telegram, head):
        guid = head["guid"]
        try:
            body = decode(REQUEST, telegram[128:])
            if not guid or " " in guid or head["tx_code"] != "TRF00100" or head["msg_type"] != "S":
                raise ValueError("header")
        except ValueError:
            return reply(head, "E900")
        won = self.ledger.execute("INSERT INTO tx (guid, tx_code, state, request, attempts, updated_at) VALUES (?, ?, 'SENT', ?, 1, datetime('now'))"
                                  " ON CONFLICT(guid) DO NOTHING", (guid, head["tx_code"], telegram)).rowcount
        if won != 1:
            state, response = self.ledger.execute("SELECT state, response FROM tx WHERE guid = ?", (guid,)).fetchone()
            if state == "DONE":
                return response
            if state != "FAILED":
                return reply(head, "E901" if state == "UNKNOWN" else "E903")
            won = self.ledger.execute("UPDATE tx SET state = 'SENT', attempts = attempts + 1, updated_at = datetime('now')"
                                      " WHERE guid = ? AND state = 'FAILED'", (guid,)).rowcount
            if won != 1:
                return reply(head, "E903")
        state, code, said = self.call(guid, head, body)
        got = reply(head, code, said)
        self.ledger.execute("UPDATE tx SET state = ?, rsp_code = ?, response = ?, updated_at = datetime('now') WHERE guid = ? AND state = 'SENT'",
                            (state, code, got, guid))
        return got

    def call(self, guid, head, body):
        request = {"guid": guid, "tx_code": head["tx_code"], "from_acct": body["from_acct"], "to_acct": body["to_acct"],
                   "amount": body["amount"], "memo": body["memo"]}
        if self.core is None:
            core = http.client.HTTPConnection(CORE, timeout=10)
            try:
                core.connect()
            except OSError:
                return "FAILED", "E902", None
            core.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            core.auto_open = 0
            self.core = core
        try:
            self.core.request("POST", "/v1/transfers", json.dumps(request), {"Content-Type": "application/json"})
            answer = self.core.getresponse()
            said = json.loads(answer.read())
            if answer.status == 200 and said["guid"] == guid:
                encode(RESPONSE, said)
                return "DONE", "0000", said
            if answer.status in (400, 422):
                code = said["code"]
                return "DONE", code if len(code) == 4 and code != "0000" and not code.startswith("E9") else "E905", None
        except (OSError, http.client.HTTPException, ValueError, KeyError, TypeError):
            pass
        # It may have got there.
        self.core.close()
        self.core = None
        return "UNKNOWN", "E901", None


def ledger():
    con = sqlite3.connect(DB, timeout=30, isolation_level=None)
    con.execute("PRAGMA journal_mode=WAL")
    con.execute("PRAGMA synchronous=FULL")
    con.execute(SCHEMA)
    return con


class Server(socketserver.ThreadingTCPServer):
    daemon_threads = True
    request_queue_size = 1024
    allow_reuse_address = True


threading.stack_size(256 * 1024)
ledger().close()
with Server(("127.0.0.1", 0), Channel) as server:
    print("ready tcp=127.0.0.1:%d" % server.server_address[1], flush=True)
    server.serve_forever()
