"""`RedisStore`: records in Redis or Valkey, for processes on any number of machines (SPEC STO-1).

An operation is decided here, on the record as it was last seen here, and by the time of Redis as its last answer told
it. One script compares and sets: it writes if the record is still that one and the time is right, and answers with what
there is otherwise, on which it is decided again. So most operations take one round trip, also where servers share a
session. The keys of one kind of sessions share a slot, so a cluster will do. Beside the records, ordered sets have what
is asked for by time and caller.
"""

from __future__ import annotations

import json
import logging
import secrets
from collections import OrderedDict
from collections.abc import AsyncGenerator, Generator, Sequence
from contextlib import contextmanager
from hashlib import sha1, sha256
from math import ceil
from typing import Any, Self, TypeVar, cast

from attrs import evolve

from toolfold import ConfigError, Created, Lease, Place, Record, StoreError, StoreUnavailable, records
from toolfold.spi import extras_named, frozen

from ..clock import elapsed
from .memory import LEASE

with extras_named():
    import redis.exceptions as redis
    from redis.asyncio import Redis
    from redis.asyncio.retry import Retry
    from redis.backoff import ExponentialBackoff

log = logging.getLogger("toolfold.stores")

PREFIX = "toolfold1"
"""Of all keys, with the version of their form."""
GRACE = 7 * 24 * 3600
"""Seconds after a session has expired at which Redis forgets it, if no server has ended it by then."""
CHANNEL = f"{PREFIX}:changes"
QUIET = 5.0
"""Seconds without a change after which it is checked that Redis still answers where changes are published."""

REMEMBERED = 256
"""How many records, as they were last seen, are kept to decide on: those of the requests that are being answered."""
_FIELDS = ("op", "until", "version", "caller", "lifetime", "expires", "token")
"""Of a record, beside `data` and `intent`; `op` says which operation has written it, so which of its states it is."""

_COMMON = """
local record, uses, own, intents, tokens = unpack(KEYS)
local time = redis.call('TIME')
local now = time[1] + time[2] / 1e6
local function found(verdict)
  local row, texts = redis.call('HMGET', record, $FIELDS), redis.call('HMGET', record, 'data', 'intent')
  local last, total, mine = redis.call('GET', tokens) or '0', redis.call('ZCARD', uses), redis.call('ZCARD', own)
  return {cjson.encode({verdict, string.format('%.6f', now), total, mine, last, unpack(row)}), unpack(texts)}
end
"""

_WRITE = """
local op, seen, until_, number, at, before, total, mine, is_news, change = unpack(cjson.decode(ARGV[1]))
local row = redis.call('HMGET', record, 'op', 'until')
if row[1] == op then return found('repeated') end
local function is_full(key, bound) return bound >= 0 and redis.call('ZCARD', key) >= bound end
if (row[1] or '') ~= seen or (row[2] or '') ~= until_ or now < at or now >= before
  or seen == '' and number <= (tonumber(redis.call('GET', tokens)) or 0)
  or is_full(uses, total) or is_full(own, mine) then return found('changed') end
if not change then
  for _, key in ipairs({uses, own, intents}) do redis.call('ZREM', key, record) end
  redis.call('DEL', record)
  redis.call('SET', tokens, string.format('%.0f', number))
else
  local expires, left, ends, fields = unpack(change)
  redis.call('HSET', record, 'op', op, unpack(fields))
  if #ARGV > 1 then redis.call('HSET', record, unpack(ARGV, 2)) end
  if left > 0 then
    for _, key in ipairs({uses, own}) do redis.call('ZADD', key, expires, record) end
    for _, key in ipairs({record, uses, own}) do redis.call('PEXPIRE', key, left) end
  end
  if ends ~= '' then
    redis.call('ZADD', intents, ends, record)
    redis.call('PEXPIRE', intents, $GRACE * 1000)
  else
    redis.call('HDEL', record, 'intent')
    redis.call('ZREM', intents, record)
  end
end
if is_news then redis.call('PUBLISH', '$CHANNEL', record) end
return string.format('%.6f', now)
"""

_SCRIPTS = {
    "look": "return found('read')",
    "create": _WRITE,
    "write": _WRITE,
    "due": """
local due = redis.call('ZRANGEBYSCORE', intents, '-inf', now, 'LIMIT', 0, ARGV[1])
for _, member in ipairs(redis.call('ZRANGEBYSCORE', uses, '-inf', now, 'LIMIT', 0, ARGV[1])) do
  local until_ = redis.call('HGET', member, 'until')
  if not until_ then redis.call('ZREM', uses, member)
  elseif (tonumber(until_) or 0) <= now then table.insert(due, member) end
end
return due
""",
    "idlest": """
for _, member in ipairs(redis.call('ZRANGE', own, 0, 99)) do
  local until_ = redis.call('HGET', member, 'until')
  if not until_ then redis.call('ZREM', own, member)
  elseif (tonumber(until_) or 0) <= now then return member end
end
return false
""",
    "expiry": """
local first = redis.call('ZRANGE', ARGV[1] ~= '' and own or uses, 0, 0, 'WITHSCORES')
if not first[2] then return false end
return string.format('%.6f', first[2] - now)
""",
}
"""Each is given the keys of `_keys`. `create` is `write`, but is refused while Redis is full."""

A = TypeVar("A")


@frozen
class _Seen:
    """A record as it was seen: what is held, and the two fields by which it is recognised."""

    entry: records.Entry | None = None
    op: str = ""
    until: str = ""


@frozen
class _Answer:
    """What a script says: what it did, and what there is."""

    verdict: str
    seen: _Seen
    total: int
    own: int
    last: int


_NEVER = 1e300
"""Instead of infinity, which is not in JSON."""
_AWAY: list[Any] = [redis.ConnectionError, redis.TimeoutError, redis.MasterDownError]


_REFUSED = (
    "The Redis store refuses the user or password of this server, so nothing was changed; its operator has to correct "
    "the URL."
)
_OTHER = "The Redis store has something else where this session belongs, so it can't be used. Open a new one."


class RedisStore:
    """A store in Redis 7 or later, or in Valkey.

    Nothing is lost that Redis keeps: set `appendonly yes`, with `appendfsync always` where machines may fail, and
    `maxmemory-policy noeviction`. While Redis is full, sessions go on and end, and new ones are refused.

    Args:
        url: Such as `redis://localhost:6379/0`, `rediss://…` or `unix://…`.
        timeout: Seconds to wait for an answer.
        retries: How often to try again, after growing pauses, if there is none.
        lease: Seconds for which a lease is held unless it is renewed.

    Raises:
        ConfigError: The URL is malformed.
    """

    def __init__(self, url: str, timeout: float = 1.0, retries: int = 2, lease: float = LEASE) -> None:
        self.lease = lease
        try:
            client: Any = Redis
            self._redis = client.from_url(
                url,
                decode_responses=True,
                socket_timeout=timeout,
                socket_connect_timeout=timeout,
                retry=Retry(ExponentialBackoff(cap=0.5, base=0.05), retries),
                retry_on_error=[*_AWAY, redis.ReadOnlyError],  # over a new connection, which may find the new primary
            )
            self._redis.connection_pool.make_connection()  # it connects to nothing, but reads the options of the URL
        except (ValueError, TypeError, redis.RedisError) as error:
            raise ConfigError(
                "The URL of the Redis store is malformed, or has an option that redis-py does not know; use "
                "redis://localhost:6379/0."
            ) from error
        self._seen = OrderedDict[str, _Seen]()
        self._ahead: float | None = None  # of the clock of this process
        self._scripts = {name: _script(name) for name in _SCRIPTS}
        self._digests = {
            name: sha1(script.encode(), usedforsecurity=False).hexdigest() for name, script in self._scripts.items()
        }

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()

    async def create(self, key: str, data: object, place: Place, lifetime: float) -> Created:
        """Create a record; see `Store`."""
        known = evolve(place, caller=_short(place.caller) or None)
        return await self._apply(key, records.create(str(data), known, lifetime), known)

    async def read(self, key: str) -> Record | None:
        """Return a record; see `Store`."""
        self._seen.pop(key, None)  # others may have written since
        return await self._apply(key, records.read)

    async def swap(self, key: str, version: int, data: object, token: int | None = None) -> int | None:
        """Replace the data; see `Store`."""
        return await self._apply(key, records.swap(version, str(data), token))

    async def acquire(self, key: str, seconds: float, version: int = 0, intent: str | None = None) -> Lease | None:
        """Return the lease of a record; see `Store`."""
        return await self._apply(key, records.acquire(seconds, version, intent))

    async def intend(self, key: str, intent: str | None, token: int) -> bool:
        """Replace the intent; see `Store`."""
        return await self._apply(key, records.intend(intent, token))

    async def renew(self, key: str, token: int, seconds: float) -> bool:
        """Put off the end of a lease; see `Store`."""
        return await self._apply(key, records.renew(token, seconds))

    async def release(self, key: str, token: int) -> None:
        """Release a lease; see `Store`."""
        await self._apply(key, records.release(token))

    async def delete(self, key: str, token: int) -> bool:
        """Delete a record; see `Store`."""
        return await self._apply(key, records.delete(token))

    async def due(self, kind: str, count: int) -> Sequence[str]:
        """Return keys of records that have expired, or were left in the middle of a transition; see `Store`."""
        found = await self._run("due", _keys(f"{kind}/", None), count)
        return [_key(name) for name in dict.fromkeys(found)][:count]

    async def idlest(self, kind: str, caller: str | None) -> str | None:
        """Return the key of the caller's record that was used least recently; see `Store`."""
        found = await self._run("idlest", _keys(f"{kind}/", _short(caller)))
        return None if found is None else _key(found)

    async def expiry(self, kind: str, caller: str | None, *, own: bool) -> float | None:
        """Return the seconds until a record expires; see `Store`."""
        found = await self._run("expiry", _keys(f"{kind}/", _short(caller)), "own" if own else "")
        return None if found is None else float(found)

    async def changes(self) -> AsyncGenerator[str | None]:
        """Yield the keys of records whose data changes; see `Store`."""
        async with self._redis.pubsub() as subscription:
            with _errors():
                await subscription.subscribe(CHANNEL)
                asked = False
                while True:
                    message = await subscription.get_message(timeout=QUIET)
                    if message is None and asked:
                        raise redis.TimeoutError("no answer to a ping")  # the connection is open at this end alone
                    if asked := message is None:
                        await subscription.ping()
                    elif message["type"] != "pong":
                        # what was published before a subscription, also before one that was renewed, is unknown
                        yield _key(message["data"]) if message["type"] == "message" else None

    async def aclose(self) -> None:
        """Close the connections."""
        await self._redis.aclose()

    async def _apply(self, key: str, operation: records.Operation[A], place: Place | None = None) -> A:
        """Return the answer to an operation, once it is decided on the record as it is.

        It has a name of its own, so that it is done once if it is sent again because its answer was lost.
        """
        op, answer = secrets.token_hex(8), None
        caller = place.caller if place is not None else None
        seen = _Seen() if place is not None else self._seen.get(key)
        if seen is None or self._ahead is None:
            answer = await self._look(key, caller)
            seen = answer.seen
        while True:
            at = self._moment(seen, answer)
            decision = operation(seen.entry, at)
            if decision.entry is seen.entry or decision.can_wait:
                if answer is not None:
                    return decision.answer
                answer = await self._look(key, caller)
            else:
                answer = await self._write(key, op, seen, at, decision, place)
                if answer.verdict == "written" or (
                    answer.verdict == "repeated" and _stands(decision.entry, answer.seen.entry, self._now())
                ):
                    return decision.answer
            seen = answer.seen

    async def _look(self, key: str, caller: str | None) -> _Answer:
        return self._answer(key, await self._run("look", _keys(key, caller)))

    async def _write(
        self,
        key: str,
        op: str,
        seen: _Seen,
        at: records.Moment,
        decision: records.Decision[Any],
        place: Place | None,
    ) -> _Answer:
        """Write the entry of a decision, if the record is the one that was seen."""
        entry = decision.entry
        caller = (entry or cast("records.Entry", seen.entry)).caller
        bounds = [-1, -1] if place is None else [-1 if bound is None else bound for bound in _bounds(place)]
        guard = [op, seen.op, seen.until, at.number, at.now, min(decision.before, _NEVER), *bounds]
        change, texts = (False, []) if entry is None else _change(seen.entry, entry, is_use=decision.is_use)
        script = "write" if place is None else "create"
        given = json.dumps([*guard, decision.is_news, change])  # one argument, since the client is slow with each
        row = await self._run(script, _keys(key, caller), given, *texts)
        if not isinstance(row, str):
            return self._answer(key, row)
        self._hear(row)
        written = _Seen() if entry is None else _Seen(entry, op, _seconds(entry.until))
        self._remember(key, written)
        return _Answer("written", written, 0, 0, 0)

    def _answer(self, key: str, row: list[Any]) -> _Answer:
        """Return what a script says, and remember it."""
        head, data, intent = row
        with _errors():
            verdict, now, total, own, last, *fields = json.loads(head)
            self._hear(now)
            answer = _Answer(verdict, _seen(key, fields, data, intent), total, own, int(last))
        self._remember(key, answer.seen)
        return answer

    def _remember(self, key: str, seen: _Seen) -> None:
        self._seen.pop(key, None)
        if seen.entry is not None:
            self._seen[key] = seen
            while len(self._seen) > REMEMBERED:
                self._seen.popitem(last=False)

    def _hear(self, now: str) -> None:
        """Take the time from an answer, which is a little earlier than the time that it is now."""
        self._ahead = float(now) - elapsed()

    def _now(self) -> float:
        return (self._ahead or 0.0) + elapsed()

    def _moment(self, seen: _Seen, answer: _Answer | None) -> records.Moment:
        total, own, last = (answer.total, answer.own, answer.last) if answer is not None else (0, 0, 0)
        if seen.entry is not None:
            last = max(last, seen.entry.version, seen.entry.token)
        now = self._now()
        return records.Moment(now, records.following(last, now), total, own)

    async def _run(self, name: str, keys: list[str], *arguments: Any) -> Any:
        given = [len(keys), *keys, *arguments]
        with _errors():
            try:
                return await self._redis.evalsha(self._digests[name], *given)
            except redis.NoScriptError:  # this Redis has not run it yet, or has been restarted
                return await self._redis.eval(self._scripts[name], *given)


def _script(name: str) -> str:
    flags = "" if name == "create" else "#!lua flags=allow-oom\n"  # without it, nothing could end while Redis is full
    fields = ", ".join(f"'{field}'" for field in _FIELDS)
    script = flags + _COMMON + _SCRIPTS[name]
    return script.replace("$GRACE", str(GRACE)).replace("$CHANNEL", CHANNEL).replace("$FIELDS", fields)


def _keys(key: str, caller: str | None) -> list[str]:
    """Return the keys of a record, the uses of its kind and its caller, the intents, and the last number of the kind.

    The last number is that of the last record that was deleted, or of a lease.
    """
    kind, _, name = key.rpartition("/")
    parts = (f"/{name}", "uses", f"uses:{caller or ''}", "intents", "uses:tokens")
    return [f"{PREFIX}:{{{kind}}}:{part}" for part in parts]


def _key(name: str) -> str:
    kind, _, rest = name.removeprefix(f"{PREFIX}:{{").rpartition("}:")
    return f"{kind}{rest}"


def _short(caller: str | None) -> str:
    return "" if caller is None else sha256(caller.encode()).hexdigest()[:32]


def _bounds(place: Place) -> tuple[int | None, int | None]:
    return place.total, None if place.caller is None else place.per_caller


def _seconds(time: float) -> str:
    return f"{time:.6f}"


def _seen(key: str, fields: Sequence[str], data: str | None, intent: str | None) -> _Seen:
    """Return a record by its fields, those that are missing false; raises ValueError if one of them is no number."""
    op, until, version, caller, lifetime, expires, token = fields
    if not version:
        return _Seen()
    kind, _, _ = key.rpartition("/")
    entry = records.Entry(
        int(version),
        data,
        kind,
        caller or None,
        float(lifetime or ""),
        float(expires or ""),
        intent,
        int(token or 0),
        float(until or 0),
    )
    return _Seen(entry, op or "", until or "")


def _change(before: records.Entry | None, entry: records.Entry, *, is_use: bool) -> tuple[list[Any], list[str]]:
    """Return what the script sets, and the texts, of what differs from the record as it was seen.

    The first is when the record ends and its keys do, until when its intent is held, and fields.
    """
    left = ceil((entry.lifetime + GRACE) * 1000) if is_use else 0
    fields = ["until", _seconds(entry.until)]
    texts: list[str] = []
    if before is None:
        fields += ["caller", entry.caller or "", "lifetime", str(entry.lifetime)]
    if before is None or entry.version != before.version:
        fields += ["version", str(entry.version)]
    if before is None or entry.token != before.token:
        fields += ["token", str(entry.token)]
    if before is None or entry.expires != before.expires:
        fields += ["expires", _seconds(entry.expires)]
    if before is None or entry.data != before.data:
        texts += ["data", str(entry.data)]
    if entry.intent is not None and (before is None or entry.intent != before.intent):
        texts += ["intent", entry.intent]
    return [_seconds(entry.expires), left, "" if entry.intent is None else _seconds(entry.until), fields], texts


def _stands(written: records.Entry | None, found: records.Entry | None, now: float) -> bool:
    """Return whether what was written is still there, and its lease, if it has one, has not ended since."""
    if written is None or found is None:
        return False
    return (written.version, written.token, _seconds(written.until)) == (
        found.version,
        found.token,
        _seconds(found.until),
    ) and (not written.until or written.until > now)


@contextmanager
def _errors() -> Generator[None]:
    """Turn the errors of the client into those of stores."""
    try:
        yield
    except (redis.AuthenticationError, redis.NoPermissionError) as error:
        log.warning("the Redis store refuses this server: %s", error)
        raise StoreUnavailable(_REFUSED) from error
    except redis.OutOfMemoryError as error:
        log.warning("the Redis store is full: %s", error)
        raise StoreUnavailable(StoreUnavailable.FULL) from error
    except ValueError as error:  # of a field that is no number, or no text
        raise StoreError(_OTHER) from error
    except (redis.RedisError, OSError) as error:  # away, or read-only while it fails over
        if str(error).startswith(("WRONGTYPE", "user_script:")):  # a script fails where a field is no number
            raise StoreError(_OTHER) from error
        log.warning("the Redis store can't be used now: %s", error)
        raise StoreUnavailable(StoreUnavailable.AWAY) from error
