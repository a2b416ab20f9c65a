"""`RedisStore`: records in Redis or Valkey, for processes on any number of machines (SPEC STO-1).

Each operation is one script, which Redis runs whole, by its own clock. The keys of one kind of sessions share a slot,
so a cluster will do. Beside the records, ordered sets have what is asked for by time and caller.
"""

from __future__ import annotations

import logging
import secrets
from collections.abc import AsyncGenerator, Generator, Sequence
from contextlib import contextmanager
from hashlib import sha1, sha256
from typing import Any, Self, cast

from toolfold import ConfigError, Created, Lease, Place, Record, StoreError, StoreUnavailable
from toolfold.spi import extras_named

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

_COMMON = """
local record, uses, intents, op = KEYS[1], KEYS[2], KEYS[3], ARGV[1]
local time = redis.call('TIME')
local now = time[1] + time[2] / 1e6
local function get(...) return redis.call('HMGET', record, ...) end
local function set(...) redis.call('HSET', record, ...) end
local function after(seconds) return string.format('%.6f', now + seconds) end
-- versions and tokens grow also if data were lost
local function later(last) return string.format('%.0f', math.max(last + 1, time[1] * 1e6 + time[2])) end
local function own(caller) return uses .. ':' .. caller end
local function answer(row) return {row[1], row[2], row[3], string.format('%.6f', math.max(0, row[4] - now))} end
local function holds(token)
  local row = get('token', 'until')
  return row[1] == token and tonumber(row[2]) > now
end
local function used(caller, lifetime)
  set('expires', after(lifetime))
  redis.call('ZADD', uses, after(lifetime), record)
  redis.call('ZADD', own(caller), after(lifetime), record)
  for _, key in ipairs({record, uses, own(caller)}) do
    redis.call('PEXPIRE', key, math.ceil((lifetime + $GRACE) * 1000))
  end
end
local function settled()
  redis.call('HDEL', record, 'intent')
  redis.call('ZREM', intents, record)
  set('until', 0)
end
local function pending(until_)
  redis.call('ZADD', intents, until_, record)
  redis.call('PEXPIRE', intents, $GRACE * 1000)
end
"""

_SCRIPTS = {
    "create": """
local data, caller, lifetime, total, mine = ARGV[2], ARGV[3], tonumber(ARGV[4]), tonumber(ARGV[5]), tonumber(ARGV[6])
if redis.call('EXISTS', record) == 1 then
  local row = get('op', 'version')
  if row[1] == op then return tonumber(row[2]) end
  return 'exists'
end
if mine >= 0 and caller ~= '' and redis.call('ZCARD', own(caller)) >= mine then return 'caller_full' end
if total >= 0 and redis.call('ZCARD', uses) >= total then return 'full' end
local version = later(0)
set('version', version, 'data', data, 'token', 0, 'until', 0, 'caller', caller, 'lifetime', lifetime, 'op', op)
used(caller, lifetime)
return tonumber(version)
""",
    "read": """
local row = get('version', 'data', 'intent', 'until', 'expires', 'caller', 'lifetime')
if not row[1] or tonumber(row[5]) <= now then return false end
used(row[6], row[7])
return answer(row)
""",
    "swap": """
local version, data, token = ARGV[2], ARGV[3], ARGV[4]
local row = get('version', 'data', 'intent', 'until', 'caller', 'lifetime', 'op')
if not row[1] then return false end
if row[7] == op then return tonumber(row[1]) end
if row[1] ~= version then return false end
if token ~= '' then
  if not holds(token) then return false end
elseif tonumber(row[4]) > now or row[3] then return false end
local following = later(row[1])
set('version', following, 'data', data, 'op', op)
settled()
used(row[5], row[6])
if data ~= row[2] then redis.call('PUBLISH', '$CHANNEL', record) end
return tonumber(following)
""",
    "acquire": """
local seconds, version, intent = ARGV[2], ARGV[3], ARGV[4]
local row = get('version', 'data', 'intent', 'until', 'token', 'op', 'intended')
if not row[1] then return false end
local found = answer(row)
if row[6] == op then
  found[4], found[5] = '0', row[5]
  if row[7] == op then found[3] = false end
elseif tonumber(row[4]) > now then
  found[5] = ''
else
  local token = later(tonumber(redis.call('GET', uses .. ':tokens')) or 0)
  redis.call('SET', uses .. ':tokens', token)
  set('token', token, 'until', after(seconds), 'op', op)
  local intends = intent ~= '' and row[1] == version and not row[3]
  if intends then set('intent', intent, 'intended', op) end
  if intends or row[3] then pending(after(seconds)) end
  found[5] = token
end
return found
""",
    "intend": """
local intent, token = ARGV[2], ARGV[3]
local row = get('op', 'until')
if row[1] == op then return (intent == '' or holds(token)) and 1 or 0 end
if not holds(token) then return 0 end
set('op', op)
if intent == '' then settled() else
  set('intent', intent)
  pending(row[2])
end
return 1
""",
    "renew": """
if not holds(ARGV[2]) then return 0 end
local row = get('intent', 'expires', 'caller', 'lifetime')
set('until', after(ARGV[3]))
if row[1] then pending(after(ARGV[3])) end
if tonumber(row[2]) > now then used(row[3], row[4]) end
return 1
""",
    "release": """
if not holds(ARGV[2]) then return 0 end
set('until', 0)
if get('intent')[1] then pending(0) end
return 1
""",
    "delete": """
if not holds(ARGV[2]) then return 0 end
for _, key in ipairs({uses, own(get('caller')[1]), intents}) do redis.call('ZREM', key, record) end
redis.call('DEL', record)
redis.call('PUBLISH', '$CHANNEL', record)
return 1
""",
    "due": """
local found = redis.call('ZRANGEBYSCORE', intents, '-inf', now, 'LIMIT', 0, ARGV[2])
for _, member in ipairs(redis.call('ZRANGEBYSCORE', uses, '-inf', now, 'LIMIT', 0, ARGV[2])) do
  local until_ = redis.call('HGET', member, 'until')
  if not until_ then redis.call('ZREM', uses, member)
  elseif (tonumber(until_) or 0) <= now then table.insert(found, member) end
end
return found
""",
    "idlest": """
for _, member in ipairs(redis.call('ZRANGE', own(ARGV[2]), 0, 99)) do
  local until_ = redis.call('HGET', member, 'until')
  if not until_ then redis.call('ZREM', own(ARGV[2]), member)
  elseif (tonumber(until_) or 0) <= now then return member end
end
return false
""",
    "expiry": """
local of = uses
if ARGV[3] ~= '' then of = own(ARGV[2]) end
local first = redis.call('ZRANGE', of, 0, 0, 'WITHSCORES')
if not first[2] then return false end
return string.format('%.6f', first[2] - now)
""",
}
"""Each is given the keys of `_keys`, and as its first argument what identifies the operation: one that is sent again,
because its answer was lost, is not done again."""


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
        bounds = [-1 if bound is None else bound for bound in (place.total, place.per_caller)]
        return cast(
            "Created", await self._run("create", _keys(key), str(data), _short(place.caller), lifetime, *bounds)
        )

    async def read(self, key: str) -> Record | None:
        """Return a record; see `Store`."""
        row = await self._run("read", _keys(key))
        return None if row is None else _record(row)

    async def swap(self, key: str, version: int, data: object, token: int | None = None) -> int | None:
        """Replace the data; see `Store`."""
        found = await self._run("swap", _keys(key), version, str(data), "" if token is None else token)
        return cast("int | None", found)

    async def acquire(self, key: str, seconds: float, version: int = 0, intent: str | None = None) -> Lease | None:
        """Return the lease of a record; see `Store`."""
        row = await self._run("acquire", _keys(key), seconds, version, intent or "")
        return None if row is None else Lease(int(row[4]) if row[4] else None, _record(row))

    async def intend(self, key: str, intent: str | None, token: int) -> bool:
        """Replace the intent; see `Store`."""
        return bool(await self._run("intend", _keys(key), intent or "", token))

    async def renew(self, key: str, token: int, seconds: float) -> bool:
        """Put off the end of a lease; see `Store`."""
        return bool(await self._run("renew", _keys(key), token, seconds))

    async def release(self, key: str, token: int) -> None:
        """Release a lease; see `Store`."""
        await self._run("release", _keys(key), token)

    async def delete(self, key: str, token: int) -> bool:
        """Delete a record; see `Store`."""
        return bool(await self._run("delete", _keys(key), token))

    async def due(self, kind: str, count: int) -> Sequence[str]:
        """Return keys of records that have expired, or were left in the middle of a transition; see `Store`."""
        found = await self._run("due", _keys(f"{kind}/"), count)
        return [_key(name) for name in dict.fromkeys(found)][:count]

    async def idlest(self, kind: str, caller: str | None) -> str | None:
        """Return the key of the caller's record that was used least recently; see `Store`."""
        found = await self._run("idlest", _keys(f"{kind}/"), _short(caller))
        return None if found is None else _key(found)

    async def expiry(self, kind: str, caller: str | None, *, own: bool) -> float | None:
        """Return the seconds until a record expires; see `Store`."""
        found = await self._run("expiry", _keys(f"{kind}/"), _short(caller), "own" if own else "")
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

    async def _run(self, name: str, keys: list[str], *arguments: Any) -> Any:
        given = [len(keys), *keys, secrets.token_hex(8), *arguments]
        with _errors():
            try:
                return await self._redis.evalsha(self._digests[name], *given)
            except redis.NoScriptError:  # this Redis has not run it yet, or has been restarted
                return await self._redis.eval(self._scripts[name], *given)


def _script(name: str) -> str:
    flags = "" if name == "create" else "#!lua flags=allow-oom\n"  # without it, nothing could end while Redis is full
    return (flags + _COMMON + _SCRIPTS[name]).replace("$GRACE", str(GRACE)).replace("$CHANNEL", CHANNEL)


def _keys(key: str) -> list[str]:
    """Return the keys of a record, of the uses of its kind, and of the intents of its kind."""
    kind, _, name = key.rpartition("/")
    return [f"{PREFIX}:{{{kind}}}:{one}" for one in (f"/{name}", "uses", "intents")]


def _key(name: str) -> str:
    kind, _, rest = name.removeprefix(f"{PREFIX}:{{").rpartition("}:")
    return f"{kind}{rest}"


def _short(caller: str | None) -> str:
    return "" if caller is None else sha256(caller.encode()).hexdigest()[:32]


def _record(row: list[Any]) -> Record:
    with _errors():
        return Record(int(row[0]), row[1], row[2], float(row[3]))


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
