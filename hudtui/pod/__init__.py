"""Programs that travel to the machine of a run. Standard library only, Python 3.8 and newer."""
