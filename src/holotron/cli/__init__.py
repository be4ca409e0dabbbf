"""The command line: one file per command. Parse, call the library, show progress, print. Nothing is done here."""
