import sys

from holotron.bench.command import main

sys.exit(main(sys.argv[1:]))
