PRAGMA application_id = 1885760612;
PRAGMA user_version = 2;
BEGIN TRANSACTION;
CREATE TABLE counter (changes INTEGER NOT NULL, tokens INTEGER NOT NULL);
INSERT INTO "counter" VALUES(1795865769906006,0);
CREATE TABLE session (
  key TEXT PRIMARY KEY, version INTEGER NOT NULL, data TEXT NOT NULL, intent TEXT,
  token INTEGER NOT NULL DEFAULT 0, until REAL NOT NULL DEFAULT 0,
  kind TEXT NOT NULL, caller TEXT NOT NULL, lifetime REAL NOT NULL, expires REAL NOT NULL, changed INTEGER NOT NULL
) WITHOUT ROWID;
INSERT INTO "session" VALUES('shop/handle/889c82d14b7b1d1e7d496a02d248a7d7',1795865769906006,'{"version":1,"tools":"shop","active":["orders"],"facts":{},"beside":{"start":null,"inherited":[],"owner":null,"pending":[],"notifies":false,"about":null}}',NULL,0,0.0,'shop/handle','',3600.0,9.0e+09,0);
CREATE INDEX session_use ON session (kind, caller, expires);
CREATE INDEX session_due ON session (kind, expires);
CREATE INDEX session_intent ON session (kind, until) WHERE intent IS NOT NULL;
CREATE INDEX session_changed ON session (changed);
COMMIT;
