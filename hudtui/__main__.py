"""`python -m hudtui`: the same as the `hudtui` command."""

from hudtui.cli import main

if __name__ == "__main__":
    main()
