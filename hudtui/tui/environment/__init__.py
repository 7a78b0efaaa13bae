"""The environment screen: tools, and calls of them."""
