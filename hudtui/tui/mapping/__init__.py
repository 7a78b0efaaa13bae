"""The mapping screen: the configuration of the gym, with a live preview."""
