from holotron.cli.main import main

main()
