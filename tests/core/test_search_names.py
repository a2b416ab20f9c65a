"""A query that is the name of a tool, or part of one, finds it first, whatever the ranking says (SPEC FND-5)."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from tests.core.searching import answer, fleet, found
from toolfold import Ranking, SearchDocument, ToolSet

NAMES = {
    "atlassian": "jira_delete_issue jira_get_issue jira_search jira_batch_get_changelogs confluence_search",
    "filesystem": "read_file read_multiple_files write_file edit_file create_directory list_directory search_files",
    "git": "git_status git_diff git_diff_staged git_diff_unstaged git_commit git_log git_create_branch git_branch",
    "linear": "list_issues get_issue save_issue list_issue_statuses list_issue_labels list_comments get_user",
    "github": """
        create_or_update_file search_repositories create_repository get_file_contents push_files create_issue
        create_pull_request fork_repository create_branch list_commits list_issues update_issue
        add_issue_comment search_code search_issues search_users get_issue get_pull_request list_pull_requests
        create_pull_request_review merge_pull_request get_pull_request_files get_pull_request_status
        update_pull_request_branch get_pull_request_comments get_pull_request_reviews
    """,
    "kubernetes": """
        configuration_view events_list helm_install helm_list helm_uninstall kcp_workspace_describe
        kcp_workspaces_list kiali_get_logs kiali_get_mesh_status kiali_get_mesh_traffic_graph kiali_get_metrics
        kiali_get_pod_performance kiali_get_resource_details kiali_get_trace_details kiali_list_mesh_clusters
        kiali_list_traces kiali_manage_istio_config kiali_manage_istio_config_read namespaces_list
        netobserv_export_flows netobserv_get_flow_metrics netobserv_list_flows nodes_log nodes_stats_summary
        nodes_top pods_delete pods_exec pods_get pods_list pods_list_in_namespace pods_log pods_run pods_top
        projects_list resources_create_or_update resources_delete resources_get resources_list resources_scale
        tekton_pipeline_start tekton_pipelinerun_lifecycle tekton_pipelinerun_logs tekton_task_start
        tekton_taskrun_logs tekton_taskrun_restart vm_clone vm_create vm_create_from_template vm_guest_info
        vm_lifecycle vm_troubleshoot
    """,
    "playwright": """
        browser_close browser_resize browser_get_config browser_console_messages browser_cookie_list
        browser_cookie_get browser_cookie_set browser_cookie_delete browser_cookie_clear browser_resume
        browser_highlight browser_hide_highlight browser_annotate browser_handle_dialog browser_emulate_media
        browser_evaluate browser_file_upload browser_drop browser_find browser_fill_form browser_press_key
        browser_type browser_mouse_move_xy browser_mouse_click_xy browser_mouse_drag_xy browser_mouse_down
        browser_mouse_up browser_mouse_wheel browser_navigate browser_navigate_back browser_network_requests
        browser_network_request browser_network_state_set browser_pdf_save browser_start_recording
        browser_stop_recording browser_route browser_route_list browser_unroute browser_run_code_unsafe
        browser_take_screenshot browser_snapshot browser_click browser_drag browser_hover browser_select_option
        browser_generate_locator browser_storage_state browser_set_storage_state browser_tabs
        browser_start_tracing browser_stop_tracing browser_verify_element_visible browser_verify_text_visible
        browser_verify_list_visible browser_verify_value browser_start_video browser_stop_video
        browser_video_chapter browser_video_show_actions browser_video_hide_actions browser_wait_for
        browser_localstorage_list browser_localstorage_get browser_localstorage_set browser_localstorage_delete
        browser_localstorage_clear browser_sessionstorage_list browser_sessionstorage_get
        browser_sessionstorage_set browser_sessionstorage_delete browser_sessionstorage_clear
    """,
}
"""Names of tools that real servers have; some are in two of them, and many are made of the words of others."""


def everything(documents: Sequence[SearchDocument]) -> Ranking:
    """Rank as badly as can be: the same for each query."""
    return lambda query: sorted((one.name for one in documents), key=lambda name: name[::-1])


def servers() -> ToolSet:
    tools = ToolSet("servers", control="open_group", search=everything)
    for server, names in NAMES.items():
        tools.register_group(server)
        for name in names.split():
            tools.register(name, answer, group=server)
    return tools


@pytest.mark.spec("FND-5")
@pytest.mark.parametrize("form", ["{1}", "{0}__{1}", "mcp__gateway__{0}__{1}", "`{1}`", "{1} ", "{0}.{1}"])
async def test_every_name_is_found_first_with_any_prefix_or_none(form: str) -> None:
    async with servers().open_session() as session:
        for server, names in NAMES.items():
            for name in names.split()[:: 1 if form == "{1}" else 5]:
                (best,) = await found(session, form.format(server, name), limit=1)
                own = best.partition(".")
                assert own[2] == name
                assert own[0] == server or "{0}" not in form


@pytest.mark.spec("FND-5")
@pytest.mark.parametrize("form", ["{} Do it, as the request asks.", "do it with {}", "mcp__here__{}: do it", "({}) do"])
async def test_a_name_of_several_words_that_stands_in_a_longer_query_is_found_first(form: str) -> None:
    async with servers().open_session() as session:
        for name in ("createPullRequestReview", "tekton_taskrun_logs", "kiali-get-metrics", "mcp__git__git_log"):
            own = name.rpartition("__")[2].replace("-", "_").casefold()
            (best,) = await found(session, form.format(name), limit=1)
            assert best.rpartition(".")[2].replace("_", "") == own.replace("_", "")
        first = await found(session, "log the nodes of a pod", limit=1)
        assert first == await found(session, "unknown words", limit=1), "words apart are no name"


@pytest.mark.spec("FND-5")
async def test_names_with_the_same_words_come_before_those_with_more_and_these_before_all_others() -> None:
    async with servers().open_session() as session:
        same = ["github.list_issues", "linear.list_issues"]
        more = ["linear.list_issue_labels", "linear.list_issue_statuses"]
        for query in ("list issues", "listIssues", "list issue"):
            shown = await found(session, query, limit=4)
            assert [sorted(shown[:2]), sorted(shown[2:])] == [same, more]
        assert await found(session, "linear list issue", limit=1) == ["linear.list_issues"]
        ranked = await found(session, "unknown words")
        for query in ("", "__", "new 新闻 issue"):
            assert await found(session, query) == ranked


@pytest.mark.spec("FND-5")
async def test_the_group_of_the_best_tool_alone_is_opened_and_the_others_are_named() -> None:
    async with servers().open_session() as session:
        result = await session.call("find_tools", {"query": "list issues", "limit": 3, "open": True})
        (opened,) = session.active
        assert result.text.startswith(f"Opened: {opened}.\n")
        other = {"github": "linear", "linear": "github"}[opened]
        assert f'In group {other}, not open; call open_group {{"group": "{other}"}} first: {other}.list_issues' in (
            result.text
        )


@pytest.mark.spec("FND-5")
async def test_where_nothing_fits_the_answer_names_the_groups_without_tools_and_what_to_try() -> None:
    tools = fleet()
    tools.register_group("postgres", "postgres is starting")
    tools.register_group("quiet", "Opened by an event", controls=False)
    tools.register("secret", answer, description="secret", group="postgres", hidden=True)
    async with tools.open_session() as session:
        text = (await session.call("find_tools", {"query": "nothing", "open": True})).text
        assert text == (
            "No tool matches 'nothing'. "
            "Try other words for what it should do, in the language of the tools' own descriptions.\n"
            "Not searched, as no tools of theirs are known:\n"
            "- postgres: postgres is starting"
        )
        assert "postgres" not in (await session.call("find_tools", {"query": "steer"})).text
        assert session.active == ()
