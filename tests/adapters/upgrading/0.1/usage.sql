PRAGMA application_id = 1885760612;
PRAGMA user_version = 2;
BEGIN TRANSACTION;
CREATE TABLE counter (changes INTEGER NOT NULL, tokens INTEGER NOT NULL);
INSERT INTO "counter" VALUES(1795865769845013,0);
CREATE TABLE session (
  key TEXT PRIMARY KEY, version INTEGER NOT NULL, data TEXT NOT NULL, intent TEXT,
  token INTEGER NOT NULL DEFAULT 0, until REAL NOT NULL DEFAULT 0,
  kind TEXT NOT NULL, caller TEXT NOT NULL, lifetime REAL NOT NULL, expires REAL NOT NULL, changed INTEGER NOT NULL
) WITHOUT ROWID;
INSERT INTO "session" VALUES('usage/2026-11-28',1795865769845013,'{"name":"shop","calls":[["orders.place","orders","","in process",1,0,1.0,2,{"159":1}]],"groups":{"orders":{"opened":1,"called":1,"closed":1}},"searches":{"asked":0,"empty":0,"called":0},"lists":{"lists":1,"tokens":164,"ungrouped":31},"refused":{},"sessions":1,"tools":{"orders.place":"orders"},"numbers":{"6ca541aab685":1}}',NULL,0,0.0,'usage','',2592000.0,9.0e+09,0);
CREATE INDEX session_use ON session (kind, caller, expires);
CREATE INDEX session_due ON session (kind, expires);
CREATE INDEX session_intent ON session (kind, until) WHERE intent IS NOT NULL;
CREATE INDEX session_changed ON session (changed);
COMMIT;
