"""`ToolSet` and `Session`: what users register, made into a catalog, and what clients do with it.

toolset                `ToolSet`: registration and sessions
registration           the builder of the catalog: names, groups, rules, checked and collected
removal                what closes a group in every session and then removes it
decorators, toolkits   marks on functions and classes, and instances and modules that have them
options                the options of registrations and the settings of a tool set, and what they can be
definitions, handlers  definitions made into components, functions made into handlers and hooks
control, finder        the tools that the library makes itself: activators, loaders, `find_tools`
catalog_tool, prompts  the catalog as a tool, and the groups in a system prompt
programs               `invoke`, for programs that call tools, and stubs as resources
"""
