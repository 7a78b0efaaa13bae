"""Tools of an editor of gym configurations: completion, preview, sample replies and autosave."""
