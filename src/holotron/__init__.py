"""holotron: serve, run, measure and train computer-use policies of the Holotron family."""

__version__ = "0.1.0"
