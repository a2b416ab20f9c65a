"""The machine without tools: feature flags that need or exclude one another (`python -m examples.feature_flags`)."""

from toolfold import Configuration, Forest, ParentInactive, TransitionRequest, plan

FLAGS = Forest.of(
    ["search", "search.fuzzy", "search.semantic", "checkout", "theme_light", "theme_dark"],
    exclusions=[["theme_light", "theme_dark"], ["search.fuzzy", "search.semantic"]],
)


def main() -> None:
    """Turn flags on and off, and print the result of each request."""
    now = Configuration.initial(FLAGS)
    for flags in (["search.fuzzy"], ["search", "search.fuzzy", "theme_dark"], ["search.semantic"], ["theme_light"]):
        try:
            planned = plan(now, TransitionRequest(activate=flags))
        except ParentInactive as error:
            print(error)
            continue
        now = planned.after
        print(f"on: {', '.join(now.paths)}; turned off: {', '.join(planned.paths[1]) or 'none'}")


if __name__ == "__main__":
    main()
