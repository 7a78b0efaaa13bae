"""What people do with hudtui, once for commands and screens."""
