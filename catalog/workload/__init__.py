"""How a category is launched on given hardware, and which rule set each value."""
