from mqlab.cli.app import main

main()
