"""The runs screens: the runs of this project, and runs that hudtui did not start."""
