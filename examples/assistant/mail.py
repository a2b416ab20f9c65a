"""The mail of the assistant: messages in a file, and what can be done with them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any

from pydantic import Field

from toolfold import ToolError, group, tool

Id = Annotated[str, Field(description="The message's id, as mail_search gives it")]
DATA = Path(__file__).parent / "data"


@group(description="Mail: search, read, send, draft, label and archive messages")
class Mail:
    """A mailbox of its own, read from the file once; nothing is written back."""

    def __init__(self) -> None:
        self._messages: dict[str, dict[str, Any]] = {
            message["id"]: message for message in json.loads((DATA / "mail.json").read_text(encoding="utf-8"))
        }

    def _found(self, id: str) -> dict[str, Any]:
        if id not in self._messages:
            raise ToolError(f"There is no message {id!r}; look for it with mail_search.")
        return self._messages[id]

    def _add(self, to: str, subject: str, body: str, label: str) -> str:
        id = f"m{len(self._messages) + 1}"
        self._messages[id] = {"id": id, "to": to, "subject": subject, "body": body, "labels": [label]}
        return id

    @tool(flat=True)
    def mail_search(
        self,
        words: Annotated[str, Field(description="Words that sender, subject or text contain; empty for all")] = "",
        label: Annotated[str, Field(description="Only messages with this label, such as unread")] = "",
    ) -> list[dict[str, str]]:
        """Find messages, the newest first, with id, sender and subject of each."""
        found = [
            message
            for message in self._messages.values()
            if words.lower() in " ".join(str(value) for value in message.values()).lower()
            and (not label or label in message["labels"])
        ]
        return [{"id": one["id"], "from": one.get("from", "me"), "subject": one["subject"]} for one in found]

    @tool(flat=True)
    def mail_read(self, id: Id) -> dict[str, Any]:
        """Read a whole message; it is no longer unread then."""
        message = self._found(id)
        message["labels"] = [label for label in message["labels"] if label != "unread"]
        return message

    @tool(flat=True)
    def mail_send(
        self,
        to: Annotated[str, Field(description="Address of the recipient")],
        subject: Annotated[str, Field(description="Subject line")],
        body: Annotated[str, Field(description="Plain text of the message")],
    ) -> str:
        """Send a new message and return its id."""
        return self._add(to, subject, body, "sent")

    @tool(flat=True)
    def mail_draft(
        self,
        to: Annotated[str, Field(description="Address of the recipient")],
        subject: Annotated[str, Field(description="Subject line")],
        body: Annotated[str, Field(description="Plain text of the message")],
    ) -> str:
        """Keep a message as a draft and return its id."""
        return self._add(to, subject, body, "draft")

    @tool(flat=True)
    def mail_send_draft(self, id: Id) -> str:
        """Send a draft."""
        self._found(id)["labels"] = ["sent"]
        return f"{id} is sent."

    @tool(flat=True)
    def mail_label(self, id: Id, label: Annotated[str, Field(description="Label to put on the message")]) -> str:
        """Put a label on a message."""
        self._found(id)["labels"].append(label)
        return f"{id} has the label {label}."

    @tool(flat=True)
    def mail_unlabel(self, id: Id, label: Annotated[str, Field(description="Label to take off")]) -> str:
        """Take a label off a message."""
        message = self._found(id)
        message["labels"] = [one for one in message["labels"] if one != label]
        return f"{id} has no label {label}."

    @tool(flat=True)
    def mail_archive(self, id: Id) -> str:
        """Take a message out of the inbox and keep it."""
        return self.mail_unlabel(id, "inbox")
