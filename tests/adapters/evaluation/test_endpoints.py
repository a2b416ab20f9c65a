"""A model on a server of one's own: whatever goes wrong is a result of its task, and the run goes on."""

from __future__ import annotations

from typing import Any

import pytest

from tests.adapters.evaluation import endpoint
from tests.adapters.evaluation.endpoint import ANSWERS, Behaviour, model_at, right
from tests.adapters.evaluation.support import played
from toolfold import ConfigError
from toolfold_adapters.evaluation import Record, model, page, read_records, remarks, rows, scores
from toolfold_adapters.evaluation.models import MALFORMED
from toolfold_adapters.evaluation.runs import UNREACHABLE

pytestmark = pytest.mark.spec("EVA-1", "EVA-2")


async def result(behaviour: Behaviour, *tasks: str, arm: str = "native", **asked: Any) -> list[Record]:
    return await played(*(tasks or ("air",)), player=model("mine", 5, given=model_at(behaviour), **asked), arm=arm)


async def test_a_model_is_asked_as_the_options_say_and_each_request_is_recorded() -> None:
    seen: list[Any] = []
    who = model("mine", 5, given=model_at(right(*ANSWERS), seen), max_tokens=90, temperature=0.5)
    (record,) = await played("air", player=who, arm="native")
    assert record.done
    assert [(sent["seed"], sent["max_completion_tokens"], sent["temperature"]) for sent in seen] == [(5, 90, 0.5)] * 3
    assert [read for _, read, _ in record.exchanges] == [endpoint.read_of(sent) for sent in seen]
    assert sum(sent for sent, _, _ in record.exchanges) == record.sent_tokens
    assert record.texts == ("It is done.",)
    assert record.options == {"max_tokens": 90, "temperature": 0.5}
    (score,) = scores([record])
    assert remarks([score]) == []
    assert rows([score])[0][6:8] == ("SENT", "READ")


@pytest.mark.parametrize(
    ("behaviour", "asked", "why", "words"),
    [
        (endpoint.overflowing(10), {}, "context", "HTTP 400: the request exceeds the available context size"),
        (right(), {"context": 200}, "context", "tokens do not fit in 200"),
        (endpoint.slow, {"timeout": 0.01}, "time", "it was not done after 0.01 seconds"),
        (endpoint.filtered, {}, "refusal", "ontent filter"),
        (endpoint.failing, {}, "error", "HTTP 500: the slot is gone"),
        (endpoint.answering(endpoint.without_choices()), {}, "error", "a malformed answer (IndexError: "),
        (endpoint.answering([1]), {}, "error", "nvalid response"),
        (endpoint.answering({"choices": None}), {}, "error", "response"),
        (endpoint.calling_for_ever("find_tools", {"query": "air"}), {}, "requests", "after 30 requests"),
        (endpoint.calling_for_ever("fly", {}), {}, "malformed", "there is no tool 'fly'"),
        (endpoint.calling_for_ever("find_tools", "{query"), {}, "malformed", "no JSON"),
        (endpoint.calling_for_ever("find_tools", "[" * 10_000), {}, "malformed", "no JSON"),
        (endpoint.calling_for_ever("find_tools", "[" * 10_000 + "]" * 10_000), {}, "malformed", "no JSON"),
        (endpoint.calling_for_ever("find_tools", "[1]"), {}, "malformed", "no object"),
    ],
)
async def test_what_goes_wrong_is_a_result_of_its_task(
    behaviour: Behaviour, asked: dict[str, Any], why: str, words: str
) -> None:
    air, taxi = await result(behaviour, "air", "taxi", **asked)
    assert (air.task, air.done, air.why) == ("air", False, why)
    assert air.problems[0].startswith(f"the model stopped ({why}): ")
    assert words in air.problems[0]
    assert (taxi.task, taxi.why) == ("taxi", why)
    (score,) = scores([air, taxi])
    assert remarks([score])[0] == f"native, 100 tools: stopped early: 2 {why}"
    assert f"stopped early: 2 {why}" in page([air, taxi])


async def test_a_context_that_overflows_in_the_middle_keeps_what_was_done_before() -> None:
    big = ("find_tools", {"query": "air weather mail calendar", "limit": 20})
    (record,) = await result(endpoint.overflowing(1_500, *[big] * 20), arm="native")
    assert record.why == "context"
    assert record.calls > 0
    assert record.sent_tokens is not None
    assert record.sent_tokens > sum(sent for sent, _, _ in record.exchanges) > 0
    assert record.transcript[0] == big


async def test_a_malformed_call_does_not_end_a_task() -> None:
    wrong: list[endpoint.Call] = [("open_group", "{"), ("open_group", "{"), ("open_group", "[]"), ("weather", {})]
    (record,) = await result(right(*wrong, *ANSWERS))
    assert record.done
    assert [(tool, given) for tool, given, _ in record.malformed][:3] == [
        ("open_group", "{"),
        ("open_group", "{"),
        ("open_group", "[]"),
    ]
    assert len(record.malformed) == 4 < MALFORMED
    assert record.calls == 2


async def test_a_model_that_writes_without_end_is_cut_and_its_text_is_recorded() -> None:
    (record,) = await result(endpoint.rambling, max_tokens=50)
    assert not record.done
    assert record.texts == ("and " * 50,)


async def test_tokens_that_were_sent_and_not_read_are_warned_of() -> None:
    records = await result(endpoint.dropping_tools, arm="everything")
    (score,) = scores(records)
    assert score.sent_tokens is not None
    assert score.sent_tokens > 4_000 > 60 > score.input_tokens
    (warning,) = remarks([score])
    assert warning.startswith("everything, 100 tools: warning: 1 of 1 requests were read as ")
    assert "Does the model's template have tools" in warning
    assert "Does the model&#x27;s template have tools" in page(records)


async def test_a_provider_that_does_not_say_what_was_read_is_named() -> None:
    (score,) = scores(await result(endpoint.silent_on_usage))
    assert remarks([score]) == ["native, 100 tools: warning: the provider does not say how much was read"]


async def test_an_endpoint_that_is_down_at_the_start_ends_the_run() -> None:
    with pytest.raises(ConfigError, match=r"The model 'mine' can't be used: .*[Cc]onnection"):
        await result(endpoint.down)


async def test_an_endpoint_that_goes_down_is_a_result_and_then_ends_the_run() -> None:
    tasks = [one.task for one in await played(player="perfect", arm="everything", size=20, sample=UNREACHABLE + 2)]
    records: list[Record] = []
    player = model("mine", 0, given=model_at(endpoint.ending(1, right())))
    with pytest.raises(ConfigError, match=r"The model 'mine' can't be used: .*[Cc]onnection"):
        await played(*tasks, player=player, arm="everything", size=20, into=records)
    assert [one.why for one in records] == [None, *["unreachable"] * (UNREACHABLE - 1)]
    again = await played(
        *tasks, player=model("mine", 0, given=model_at(right())), arm="everything", size=20, before=records
    )
    assert again[0] is records[0]
    assert [one.why for one in again] == [None] * len(tasks)


async def test_a_sample_is_the_same_for_a_seed_and_part_of_a_larger_one() -> None:
    few = [one.task for one in await played(player="perfect", arm="everything", size=20, sample=5)]
    same = [one.task for one in await played(player="perfect", arm="everything", size=20, sample=5)]
    more = await played(player="perfect", arm="everything", size=20, sample=9)
    assert few == same
    assert len(few) == 5
    assert set(few) < {one.task for one in more}
    assert len(more) == 9


def test_records_without_what_models_have_are_read(tmp_path: Any) -> None:
    file = tmp_path / "runs.jsonl"
    old = {
        "task": "air", "arm": "groups", "size": 20, "player": "mine", "kind": "model", "host": "everything", "seed": 0,
        "tasks": "0", "versions": {}, "price": None,
    }  # fmt: skip
    import json

    file.write_text(json.dumps(old) + "\n", encoding="utf-8")
    (record,) = read_records(file)
    assert (record.sent_tokens, record.exchanges, record.why) == (None, (), None)
