"""What is registered, as immutable values: components, visibility rules, and the catalog compiled from them."""
