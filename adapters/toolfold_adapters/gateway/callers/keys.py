"""The keys that credentials are encrypted with: of the environment, a file or the keyring (SPEC GWY-19, ISO-3).

There may be several, separated by commas or white space. The first one encrypts, and each of them decrypts: to change
the key, put a new one before it, and remove the old one once `toolfold logins` says that nothing needs it.
"""

from __future__ import annotations

import os
import re
import stat
import sys
from collections.abc import Mapping
from contextlib import suppress
from importlib import import_module
from pathlib import Path
from typing import Any, cast

from toolfold import ConfigError
from toolfold.spi import extras_named, frozen

with extras_named():
    from cryptography.fernet import Fernet, InvalidToken, MultiFernet

VARIABLE = "TOOLFOLD_CREDENTIALS_KEY"
FILE, KEYRING = "file:", "keyring"
"""What the variable has instead of keys: `file:` and a path, or the name of the system's keyring."""
OWN_FILE = "key"
"""The file that has the key where nothing else says so, for credentials on this machine alone."""
SERVICE, USER = "toolfold", "credentials"
"""What the keyring has the keys under."""
_OTHERS = stat.S_IRWXG | stat.S_IRWXO


@frozen
class Keys:
    """What encrypts by the newest of some keys, and decrypts by each of them."""

    fernets: tuple[Fernet, ...]

    def encrypted(self, text: str) -> str:
        """Return a text encrypted."""
        return self.fernets[0].encrypt(text.encode()).decode()

    def decrypted(self, text: str) -> str | None:
        """Return what was encrypted, or `None` if that was by none of the keys."""
        try:
            return MultiFernet(self.fernets).decrypt(text.encode()).decode()
        except InvalidToken:
            return None

    def is_newest(self, text: str) -> bool:
        """Return whether a text was encrypted by the newest key."""
        try:
            self.fernets[0].decrypt(text.encode())
        except InvalidToken:
            return False
        return True


def new_key() -> str:
    """Return a new key."""
    return Fernet.generate_key().decode()


def keys_of(environ: Mapping[str, str], folder: Path | None) -> Keys:
    """Return the keys that an environment names.

    Args:
        environ: The environment; `TOOLFOLD_CREDENTIALS_KEY` has the keys, or says where they are.
        folder: Where a key is made if it names none; `None` where other machines need the same one.

    Raises:
        ConfigError: There is no key, or it can't be read; the message has nothing of it.
    """
    said = environ.get(VARIABLE, "").strip()
    if said == KEYRING:
        return _keys(_in_keyring(), "the keyring has")
    if said.startswith(FILE):
        return _keys(_in_file(Path(said.removeprefix(FILE))), f"{said.removeprefix(FILE)} has")
    if said:
        return _keys(said, f"{VARIABLE} has")
    if folder is None:
        raise ConfigError(
            f"credentials in a store that other machines use need a key that these have, too: set {VARIABLE} to one, "
            "which `toolfold logins --new-key` prints"
        )
    path = folder / OWN_FILE
    if not path.exists():
        _make(path)
    return _keys(_in_file(path), f"{path} has")


def _keys(text: str, place: str) -> Keys:
    try:
        found = Keys(tuple(Fernet(key) for key in re.split(r"[\s,]+", text) if key))
    except ValueError:
        found = Keys(())  # the message of the error may have what was given
    if not found.fernets:
        raise ConfigError(f"{place} no key, or one that is malformed: `toolfold logins --new-key` prints one")
    return found


def _in_file(path: Path) -> str:
    try:
        mode = path.stat().st_mode
        if sys.platform != "win32" and mode & _OTHERS:
            raise ConfigError(f"others may read the key in {path}: `chmod 600` it, and take a new one")
        return path.read_text("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        why = error.strerror if isinstance(error, OSError) else "it is no text"
        raise ConfigError(f"the key in {path} can't be read: {why}") from error


def _make(path: Path) -> None:
    """Make a file with a new key, unless another process does so at the same time."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        temporary = path.with_name(f"{path.name}.{os.getpid()}")
        descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        with os.fdopen(descriptor, "w", encoding="utf-8") as file:
            file.write(f"{new_key()}\n")
        try:
            with suppress(FileExistsError):
                os.link(temporary, path)  # all of it or nothing, and never in the place of another one
        finally:
            temporary.unlink()
    except OSError as error:
        raise ConfigError(f"a key can't be stored in {path}: {error.strerror}") from error


def _in_keyring() -> str:
    try:
        ring, errors = (cast("Any", import_module(name)) for name in ("keyring", "keyring.errors"))
    except ImportError as error:
        raise ConfigError(f"{VARIABLE} is {KEYRING}, and the package keyring is not installed") from error
    try:
        found = ring.get_password(SERVICE, USER)
        if found is None:
            found = new_key()
            ring.set_password(SERVICE, USER, found)
    except errors.KeyringError as error:
        raise ConfigError(f"the keyring can't be used: {type(error).__name__}") from error
    return str(found)
