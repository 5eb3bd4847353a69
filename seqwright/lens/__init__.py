"""Look inside a model: attention, traces, heads, and the page that shows them."""
