"""What an editor of gym configurations needs: completion, preview, sample replies and autosave."""
