"""`toolfold approve`: the definitions of servers are right as they are now (SPEC GWY-11)."""

from __future__ import annotations

from functools import partial
from typing import Any

import click

from toolfold_adapters.tokens import plural

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
    from toolfold_adapters.gateway.stored import Approvals, stored_folder, words_for

    from .costs import known_definitions

    config = configuration(target, options)
    definitions = await known_definitions(config, start=True)
    approvals = Approvals(stored_folder("approved"), serving=False)
    for server, offered in definitions.items():
        entry = config.entry(server)
        changed = approvals.difference(entry, offered)
        if not dry_run and (why := approvals.approve(entry, offered)):
            folder = stored_folder("approved")
            raise Failed(f"{server}: what is approved can't be stored in {folder}: {why}. Nothing of it is approved.")
        names = f": {', '.join(map(words_for, changed))}" if changed else ""
        what = f"{plural(len(changed), 'change')} since it was approved{names}."
        show(f"{server}: {what}{'' if dry_run else ' All is approved.'}")
        for item, lines in changed.items():
            show("\n".join([f"  {words_for(item)}", *(f"    {line}" for line in lines)]))
