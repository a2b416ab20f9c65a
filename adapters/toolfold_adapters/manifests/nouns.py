"""The named parts of a server, for those that have no groups of their own (SPEC GWY-2).

A part has a name that a person would give it: a tag that the server gives its tools, the word that their names begin
with, or one noun or known pair of nouns in them. Verbs say nothing on where a tool belongs: `create_issue`, `issueList`
and `issues-close` are of `issue`. A tool goes to the name that most tools of the server share with it. Where names take
less than half of what a server has, it has no parts. All of it is a function of names, tags and sizes, and takes time
in proportion to them.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence

from attrs import frozen

MIN_TOOLS = 3
MOST_PARTS = 100
"""Of more names nobody chooses: what such a server has is found by search."""
LONGEST_TAG = 40
LEVELS = 2
"""How deep parts are in parts: each is one more word in a path."""

_BREAK = re.compile(r"[\W_]+|(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")

_VERBS = """
    abort accept accepts activate add analyze append apply approve archive assign attach authenticate authorize
    begin block bulk calculate call cancel capture change check clear click clone close compare complete compute
    configure confirm connect convert copy count create deactivate decline decode decrease delete deploy
    describe destroy detach detect disable disconnect dismiss do download drag drop edit emulate enable encode
    end enqueue ensure estimate evaluate exec execute expand export extract fetch fill find finish follow force
    forward generate get give grep handle has hide hover import increase index init initialize insert inspect
    install invite invoke is join kill launch leave link list load lock login logout lookup make manage mark
    merge modify move mute navigate open parse patch pause perform pin ping poll post prepare press preview
    process promote publish pull push put query read rebase receive record reduce refresh register reject
    release reload remove rename render reopen reorder replace reply reschedule reset resize resolve respond
    restart restore resume retrieve retry revert revoke rotate run save scale scan schedule scrape scroll search
    select send set share show shutdown sign simulate sleep snooze sort split start stop store submit subscribe
    suggest summarize switch sync tag take test toggle top track transfer transform translate trigger type
    unarchive unassign unblock undo uninstall unlink unlock unmute unpin unregister unsubscribe update upgrade
    upload upsert use validate verify view visit wait watch write
"""
_NOUN_LATER = """
    block call comment export import index link lock merge pin post preview process pull query record release
    reply run schedule scan search share store tag test track transfer trigger type view watch
"""
_EMPTY = """
    a about against all an and any are as at be by can detail details each for from given i id ids if in info
    information into its it me multiple my name names new no not of on or other our out over own per result
    results return returns single specific that the their them then this to tool tools under up user's using
    value values via when where which with within without you your api mcp server or
    active advanced async available batch best big current custom default direct dynamic early empty enhanced existing
    external fast first following full general generic global good high inner internal large last late latest local long
    low main many missing more most native next nearby near old open optional outer own past pending previous private
    public quick random raw recent related remote robust safe same short similar simple single slow small smart static
    structured unsafe unused valid visible
"""

VERBS = frozenset(_VERBS.split())
_PAIRS = """
    access_key access_token ai_config ai_model alert_group api_key app_config audit_log background_job
    blog_post build_artifact business_service change_event code_review code_scanning config_map
    connection_string cost_center credit_note cron_job custom_field custom_object data_model data_set data_source
    data_stream data_type deploy_key design_system draft_note edge_function error_group escalation_policy
    event_orchestration feature_flag feature_view gift_card help_center incident_workflow
    issue_link issue_type job_run key_value knowledge_base line_item load_balancer log_entry log_group machine_type
    maintenance_window managed_cluster material_instance meeting_note merge_request message_queue model_version
    network_policy node_pool object_storage object_type order_item page_template payment_intent payment_link
    payment_method pivot_table price_list price_rule private_key project_member public_key pull_request purchase_order
    quality_gate query_plan read_replica release_note report_template request_type resource_group review_thread
    role_binding route_table sales_order scheduled_job search_index security_group security_hotspot security_policy
    service_account service_desk service_level shipping_label smart_list ssh_key state_machine status_page
    sub_issue subscription_item support_ticket task_list tax_rate test_case test_plan test_run test_suite time_entry
    time_series traffic_split trust_policy user_group user_story variable_set vector_index vector_store
    virtual_machine virtual_network work_item work_order
"""

NOUNS_LATER = frozenset(_NOUN_LATER.split())
"""Verbs where a name begins with them and has no other, as `release_lock`, and nouns elsewhere: `list_releases`."""
EMPTY = frozenset(_EMPTY.split())
"""Words that say nothing on what a tool is about, or that are no nouns."""
_PAIR = {tuple(pair.split("_")) for pair in _PAIRS.split()}
"""Two nouns that people say together."""


@frozen(kw_only=True)
class Sized:
    """A tool as far as parts go: its name, its tags, and the approximate tokens of its definition."""

    name: str
    tags: Sequence[str] = ()
    tokens: int = 0


Parts = Mapping[str, Sequence[Sized]]
"""The tools of each part, by its name; a tool that is in none is the server's own."""


def divide(tools: Sequence[Sized], budget: int, levels: int = LEVELS) -> dict[str, tuple[str, ...]]:
    """Return the names of the tools of each part, by its path, each after the part that it is in.

    There are none where all tools are within the budget, or where their names show no parts.

    Args:
        tools: Tools with different names.
        budget: The most tokens of a part that is not divided itself.
        levels: How deep parts are in parts.
    """
    if not levels or sum(tool.tokens for tool in tools) <= budget:
        return {}
    return divided(named(tools), budget, levels)


def divided(parts: Parts, budget: int, levels: int = LEVELS) -> dict[str, tuple[str, ...]]:
    """Return the names of the tools of parts that are known, and of those in them, as `divide` does."""
    found: dict[str, tuple[str, ...]] = {}
    for name, members in parts.items():
        inner = divide(members, budget, levels - 1)
        deeper = {tool for own in inner.values() for tool in own}
        found[name] = tuple(tool.name for tool in members if tool.name not in deeper)
        found |= {f"{name}.{path}": own for path, own in inner.items()}
    return found


def named(tools: Sequence[Sized]) -> Parts:
    """Return the parts that tags and names show: of three tools or more, two to a hundred, with half of all tokens.

    They come in the order of their names; there are none if names show less, or more.
    """
    homes = _homes(tools)
    parts: defaultdict[str, list[Sized]] = defaultdict(list)
    for tool in tools:
        if (home := homes.get(tool.name)) is not None:
            parts[home].append(tool)
    taken = sum(tool.tokens for members in parts.values() for tool in members)
    shows = 1 < len(parts) <= MOST_PARTS and 2 * taken >= sum(tool.tokens for tool in tools)
    return dict(sorted(parts.items())) if shows else {}


def _homes(tools: Sequence[Sized]) -> dict[str, str]:
    """Return the part that each tool is in, by its name.

    A tool would be in that of its tag, else of the word that its name begins with, else of the noun in it that most
    tools have. Where fewer than three would be, none is, and they are in the next one that there is.
    """
    tags = {tool.name: tuple([tag for one in tool.tags if (tag := _tag(one))]) for tool in tools if tool.tags}
    words = _telling({tool.name: words_of(tool.name) for tool in tools})
    nouns = {name: _nouns(own) for name, own in words.items()}
    first = Counter(own[0] for name, own in words.items() if own and own[0] in nouns[name])
    tagged, shared = _counted(_telling(tags)), _counted(nouns)

    def wishes(name: str) -> list[str]:
        begins = next(iter(words[name]), "")
        given = [tag for tag in tags.get(name, ()) if tagged[tag] >= MIN_TOOLS]
        own = [noun for noun in nouns[name] if shared[noun] >= MIN_TOOLS]
        return [
            *sorted(given, key=lambda tag: -tagged[tag]),
            *sorted(own, key=lambda noun: (noun != begins or first[noun] < MIN_TOOLS, -shared[noun])),
        ]

    wished = {tool.name: wishes(tool.name) for tool in tools}
    sizes = Counter(own[0] for own in wished.values() if own)
    homes = {name: next((one for one in own if sizes[one] >= MIN_TOOLS), None) for name, own in wished.items()}
    return {name: home for name, home in homes.items() if home is not None}


def _counted(words: Mapping[str, Sequence[str]]) -> Counter[str]:
    return Counter(word for own in words.values() for word in set(own))


def _telling(words: Mapping[str, tuple[str, ...]]) -> dict[str, tuple[str, ...]]:
    """Return the words of each tool without those that all have, which distinguish nothing."""
    counts = _counted(words)
    return {name: tuple(word for word in own if counts[word] < len(words)) for name, own in words.items()}


def _tag(given: str) -> str:
    """Return a tag as the name of a part: in lower case and the singular, as nouns are; empty if it can't be one."""
    tag = "_".join(words_of(given))
    return tag if given.isascii() and len(tag) <= LONGEST_TAG else ""


# -- words -----------------------------------------------------------------------------------------------------------


def words_of(text: str) -> tuple[str, ...]:
    """Return the words of a name, in lower case and the singular; a pair that people say together is one."""
    found: list[str] = []
    for word in (_singular(word.lower()) for word in _BREAK.split(text) if word):
        if found and (found[-1], word) in _PAIR:
            word = f"{found.pop()}_{word}"
        found.append(word)
    return tuple(found)


def nouns_of(name: str) -> tuple[str, ...]:
    """Return the words of a name that are nouns, for all that a list of verbs can say; each once."""
    return _nouns(words_of(name))


def _nouns(words: Sequence[str]) -> tuple[str, ...]:
    nouns = [word for word in words if _is_name(word) and word not in EMPTY and word not in VERBS - NOUNS_LATER]
    if nouns and nouns[0] == words[0] and nouns[0] in NOUNS_LATER and len(nouns) == len(words):
        del nouns[0]  # the only word that can be the verb
    return tuple(dict.fromkeys(nouns))


def _is_name(word: str) -> bool:
    """Return whether a word can name a part: it is of ASCII, and begins with a letter."""
    return len(word) > 1 and word.isascii() and word[0].isalpha()


def _singular(word: str) -> str:
    if len(word) > 4 and word.endswith("ies"):
        return word[:-3] + "y"
    if len(word) > 4 and word.endswith(("sses", "xes", "ches", "shes")):
        return word[:-2]
    if len(word) > 3 and word.endswith("s") and not word.endswith(("ss", "us", "is")):
        return word[:-1]
    return word
