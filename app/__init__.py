"""The window and the command line. A package imports only those to the right of it:

shell, cli > features > host > commands, errors > measured > canvas > session > widgets > jobs > figures > words, theme
A feature is one folder, imports no other feature, and sees the window as `host.Host`. Its commands are the modules of
its folder `commands`.
"""
