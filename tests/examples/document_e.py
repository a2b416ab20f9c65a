"""The facts of document E: its groups with their tools, and its profiles."""

COUNTS = {
    "filesystem": 17,
    "file_ops": 5,
    "search": 5,
    "text": 8,
    "git": 8,
    "github": 10,
    "gitlab": 5,
    "kubernetes": 8,
    "container": 5,
    "network": 3,
    "system": 6,
    "archive": 3,
    "reference": 3,
    "diff": 2,
    "mcp": 10,
}
"""The numbers in document E's table. They add up to 98, but there are 107 tools, as the document says above it."""

MORE = {"search": 1, "text": 3, "kubernetes": 1, "container": 3, "system": 1}
"""What the tables leave out: so many tools more are in these groups."""

TOOLS = {
    "filesystem": "eza bat fd duf dust trash_put trash_list trash_restore fs_copy fs_move fs_mkdir fs_exists fs_stat "
    "fs_symlink fs_hardlink file_type permissions",
    "file_ops": "file_read file_write file_edit file_append file_patch",
    "search": "rg fzf_filter web_search ast_grep symbols references",
    "text": "jq yq dasel htmlq pup sd hck gron miller xsv sad",
    "git": "git_status git_diff git_log git_add git_commit git_checkout git_branch git_stash",
    "github": "gh_auth_login gh_auth_status gh_repo gh_issue gh_pr gh_search gh_release gh_workflow gh_run gh_api",
    "gitlab": "glab_auth_login glab_auth_status glab_issue glab_mr glab_pipeline",
    "kubernetes": "kubectl_get kubectl_apply kubectl_delete kubectl_describe kubectl_logs kubectl_exec stern helm "
    "kustomize",
    "container": "podman compose buildx buildah skopeo crane dive trivy",
    "network": "http usql dns",
    "system": "shell_exec nix_shell_exec procs hyperfine system_info bats tokei",
    "archive": "ouch_compress ouch_decompress ouch_list",
    "reference": "tldr navi grex",
    "diff": "delta difft",
    "mcp": "mcp_auth_check mcp_task_create mcp_task_list mcp_task_update mcp_task_delete mcp_context_get "
    "mcp_context_set mcp_context_list mcp_cache_get mcp_cache_set",
}

PROFILES = {
    "explore": ("filesystem search git", "file_ops text diff"),
    "architect": ("filesystem search", "git text reference"),
    "review": ("git search diff", "file_ops github"),
    "test": ("file_ops search system", "git text"),
    "generator": (
        "file_ops search git system",
        "filesystem text github gitlab kubernetes container network archive reference diff mcp",
    ),
    "reflector": ("file_ops git", "search"),
    "curator": ("file_ops search", ""),
    "docs": ("file_ops filesystem search", "reference"),
    "lint": ("search system file_ops", "git"),
    "api": ("network text file_ops", "search"),
    "dev-deploy": ("kubernetes container git github", "system file_ops"),
}
"""Document E's table: groups that are pre-expanded, and virtual ones. All others do not exist."""

READING = {
    "filesystem": "eza bat fd duf dust trash_list fs_exists fs_stat file_type permissions",
    "file_ops": "file_read",
    "search": TOOLS["search"],
    "git": "git_status git_diff git_log",
    "text": "jq yq dasel htmlq pup sd hck gron",
    "diff": TOOLS["diff"],
}
"""The tools that only read, which are those of the profiles explore and reflector."""
