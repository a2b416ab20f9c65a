"""What is registered, as immutable values.

rules          visibility rules and what predicates see: values that say when something is available
modes          composite tools: one parameter picks a mode
loader         what a tool that opens any group by name is called, takes and answers
components     tools, prompts, resources and their templates, groups, and profiles
uri_templates  which variables a URI template has, and what a URI gives them
catalog        all of these compiled into one value, and the budget of its list
"""
