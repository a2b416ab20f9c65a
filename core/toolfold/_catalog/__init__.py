"""What is registered, as immutable values.

rules          visibility rules and what predicates see: values that say when something is available
modes          composite tools: one parameter picks a mode
loader         the names and texts of a tool that opens any group by name
components     tools, prompts, resources and their templates, groups, and profiles
uri_templates  the variables of a URI template, and their values in a URI
quota          limits on active groups and on the list, and which groups make room: a policy outside of the machine
catalog        all of these compiled into one value, and the budget of its list
"""
