"""The window and the command line. A package imports only those to the right of it:

shell, cli > features > host > commands, errors > measured > canvas > session > widgets > jobs > figures > words, theme
A feature is one folder with its own commands; it imports no other feature, and sees the window as `host.Host`.
"""
