"""Workspaces: a sandboxed folder to work in, with limits, trusted changes and a check.

A command's way into the sandbox is a chain of programs, each of which does one thing and becomes the next:

    gate.py    only with a gateway: a network of its own, whose two sockets are handed out to us
    keeper.py  stays, and ends every process that the program leaves behind
    bwrap      namespaces and mounts             (or confine.py: Landlock, where namespaces are forbidden)
    sh         inside: says over a socket that the program begins, lets go of it, and becomes the program

Limits are set from outside while bubblewrap waits for our word. No code of ours runs between fork and exec
of this threaded process, and a program that was never begun can be told from one that failed.

A check is run by judge.py: its script in one sandbox, the work it asks for in another.
"""
