import sys

from holotron.bench.command import main

if __name__ == "__main__":  # and not where processes that paint screens are started from it
    sys.exit(main(sys.argv[1:]))
