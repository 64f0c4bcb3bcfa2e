#!/usr/bin/env python3
"""A small relay as a user would write it: sqlite3 with WAL and synchronous=FULL, a thread and a ledger connection per channel
connection, http.client to the core. It keeps the rules of the happy path (claim before call, record before answer)."""
import datetime
import http.client
import json
import socket
import socketserver
import sqlite3
import sys
import threading

CORE, DB = sys.argv[1], sys.argv[2]
SCHEMA = """CREATE TABLE IF NOT EXISTS tx (guid TEXT PRIMARY KEY, tx_code TEXT, state TEXT NOT NULL, rsp_code TEXT,
            request BLOB, response BLOB, attempts INTEGER NOT NULL, updated_at TEXT NOT NULL)"""


def ledger():
    con = sqlite3.connect(DB, timeout=30, isolation_level=None)
    con.execute("PRAGMA journal_mode=WAL")
    con.execute("PRAGMA synchronous=FULL")
    con.execute(SCHEMA)
    return con


def call(core, guid, body):
    request = {"guid": guid, "tx_code": "TRF00100", "from_acct": body[0:16].decode("cp949").rstrip(), "to_acct": body[16:32].decode("cp949").rstrip(),
               "amount": int(body[32:45]), "memo": body[45:65].decode("cp949").rstrip()}
    core.request("POST", "/v1/transfers", json.dumps(request), {"Content-Type": "application/json"})
    answer = core.getresponse()
    said = json.loads(answer.read())
    assert answer.status == 200 and said["guid"] == guid, (answer.status, said)
    return said


def reply(head, code, said):
    now = datetime.datetime.now(datetime.timezone.utc).strftime("%Y%m%d%H%M%S%f")[:17].encode()
    body = b"%-14s%-14s%-1s%013d%-1s  " % (said["core_tx_id"].encode(), said["posted_dtm"].encode(), said["bal_sign"].encode(), said["balance"], said["status"].encode())
    return b"00000165" + head[8:40] + b"%02d" % min(int(head[40:42]) + 1, 99) + head[42:50] + b"R" + head[51:72] + now + head[89:92] + code + b"   " + head[99:128] + body


class Channel(socketserver.BaseRequestHandler):
    def handle(self):
        self.request.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        con, stream = ledger(), self.request.makefile("rb")
        core = http.client.HTTPConnection(CORE, timeout=10)
        core.connect()
        core.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        while True:
            length = stream.read(8)
            if len(length) < 8:
                return
            telegram = length + stream.read(int(length))
            guid = telegram[10:40].decode("ascii").rstrip()
            won = con.execute("INSERT INTO tx VALUES (?, 'TRF00100', 'SENT', NULL, ?, NULL, 1, datetime('now')) ON CONFLICT(guid) DO NOTHING", (guid, telegram)).rowcount
            if won == 1:
                got = reply(telegram[:128], b"0000", call(core, guid, telegram[128:]))
                con.execute("UPDATE tx SET state='DONE', rsp_code='0000', response=?, updated_at=datetime('now') WHERE guid=? AND state='SENT'", (got, guid))
            else:
                got = con.execute("SELECT response FROM tx WHERE guid=?", (guid,)).fetchone()[0]
            self.request.sendall(got)


class Server(socketserver.ThreadingTCPServer):
    daemon_threads = True
    request_queue_size = 1024
    allow_reuse_address = True


threading.stack_size(256 * 1024)
ledger().close()
with Server(("127.0.0.1", 0), Channel) as server:
    print("ready tcp=127.0.0.1:%d" % server.server_address[1], flush=True)
    server.serve_forever()
