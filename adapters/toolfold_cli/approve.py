"""`toolfold approve`: the definitions of servers are right as they are now (SPEC GWY-11)."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

import click

from toolfold.spi import enumerated
from toolfold_adapters.tokens import plural

from .credentials import called
from .failures import Failed, run
from .options import chosen_target, target_command
from .printing import show
from .targets import GatewayOptions, Target, configuration


@target_command(
    "approve",
    "toolfold approve gateway.toml",
    "toolfold approve -- npx -y some-mcp-server",
)
@click.option("--dry-run", is_flag=True, help="Show what changed, and approve nothing.")
def approve_command(ctx: click.Context, /, targets: tuple[str, ...], dry_run: bool, **given: Any) -> None:
    """Approve what a TARGET's servers say as it is now, and show what changed in it.

    That is their tools, prompts, resources and resource templates, their titles and their instructions. What changed
    since it was approved is marked, or withheld, where the configuration says on_change = "quarantine". What a server
    says first is approved when it is first seen. A gateway that runs on this machine serves what is approved at once.
    """
    target, options = chosen_target(ctx, targets, **given)
    if not target.is_gateway:
        raise click.UsageError(f"{target.text} has tools of its own; there is nothing to approve.", ctx)
    run(partial(_approve, target, options, dry_run))


async def _approve(target: Target, options: GatewayOptions, dry_run: bool) -> None:
    from toolfold_adapters.gateway.stored import Approvals, stored_folder

    from .costs import known_definitions

    config = configuration(target, options)
    approvals = Approvals(stored_folder("approved"), serving=False)
    waiting = {server: approvals.waiting(config.entry(server)) for server in config.upstreams}
    for server, of_callers in waiting.items():
        if of_callers and not dry_run and (why := approvals.approve_waiting(config.entry(server))):
            raise _not_stored(server, why)
        for whose, changed in of_callers.items():
            _show(f"{server}, as {called(whose)} is listed it", changed, approved=not dry_run)
    asked = {name: one for name, one in config.upstreams.items() if not waiting[name]}
    if not asked:
        return
    definitions = await known_definitions(config.model_copy(update={"upstreams": asked}), start=True)
    for server, offered in definitions.items():
        entry = config.entry(server)
        changed = approvals.difference(entry, offered)
        if not dry_run and (why := approvals.approve(entry, offered)):
            raise _not_stored(server, why)
        _show(server, changed, approved=not dry_run)
    if missing := [name for name in asked if name not in definitions]:
        raise Failed(
            f"{enumerated(missing)} could not be asked, so nothing of that is approved. What a server lists to each "
            "caller alone is compared when a gateway serves it, and what has changed by then stands here."
        )


def _not_stored(server: str, why: str) -> Failed:
    from toolfold_adapters.gateway.stored import stored_folder

    folder = stored_folder("approved")
    return Failed(f"{server}: what is approved can't be stored in {folder}: {why}. Nothing of it is approved.")


def _show(what: str, changed: Mapping[tuple[str, str], list[str]], *, approved: bool) -> None:
    from toolfold_adapters.gateway.stored import words_for

    names = f": {', '.join(map(words_for, changed))}" if changed else ""
    said = f"{plural(len(changed), 'change')} since it was approved{names}."
    show(f"{what}: {said}{' All is approved.' if approved else ''}")
    for item, lines in changed.items():
        show("\n".join([f"  {words_for(item)}", *(f"    {line}" for line in lines)]))
