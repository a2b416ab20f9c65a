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

    A server at which each caller has a login of his own is left out, and named: a gateway compares what it lists to
    each when it serves it, and what has changed by then is shown here. The exit status is 0 then, too. It is 1 if
    another server can't be asked, while what the others say is approved all the same, or if nothing can be stored.
    """
    target, options = chosen_target(ctx, targets, **given)
    if not target.is_gateway:
        raise click.UsageError(f"{target.text} has tools of its own; there is nothing to approve.", ctx)
    run(partial(_approve, target, options, dry_run))


async def _approve(target: Target, options: GatewayOptions, dry_run: bool) -> None:
    from toolfold_adapters.gateway.stored import Approvals, stored_folder

    from .costs import offered_now

    config = configuration(target, options)
    approvals = Approvals(stored_folder("approved"), serving=False)
    waiting = {server: approvals.waiting(config.entry(server)) for server in config.upstreams}
    for server, of_callers in waiting.items():
        if of_callers and not dry_run and (why := approvals.approve_waiting(config.entry(server))):
            raise _not_stored(server, why)
        for whose, changed in of_callers.items():
            _show(f"{server}, as {called(whose)} is listed it", changed, approved=not dry_run)
    asked = [name for name in config.upstreams if not waiting[name]]
    if not asked:
        return
    offered = await offered_now(config.alone(asked))
    for server, definitions in offered.definitions.items():
        entry = config.entry(server)
        changed = approvals.difference(entry, definitions)
        if not dry_run and (why := approvals.approve(entry, definitions)):
            raise _not_stored(server, why)
        _show(server, changed, approved=not dry_run)
    for server in offered.logins:
        show(
            f"{server}: left out, since it answers nobody who has not logged in. What it lists to each caller is "
            "compared when a gateway serves it, and what has changed by then is shown here. If you alone use it, log "
            f"in first: `toolfold login FILE --server {server}`."
        )
    if missing := [name for name in asked if name not in offered.definitions and name not in offered.logins]:
        raise Failed(f"{enumerated(missing)} could not be asked, so nothing of that is approved.")


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
