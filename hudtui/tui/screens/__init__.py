"""One module a station, each a screen."""
