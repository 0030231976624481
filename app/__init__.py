"""What a person sees and types: the window, and the command line beside it. A room imports only those below it:

shell, cli > features > host > commands, errors > measured > canvas > session > widgets > jobs > figures > words, theme
A feature is one folder and knows no other; it sees the window as `host.Host`. Its command is found by its folder.
"""
