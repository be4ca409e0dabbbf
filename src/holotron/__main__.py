from holotron.cli.overview import main

main()
