# ruff: noqa: E501 - a program reads best on one line
"""Programs that mean harm. Each is run in the sandbox; what it may say at most is told beside it."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Hostile:
    """A program, and what must come of it."""

    name: str
    script: str
    """Bash; HOST is a folder of the host with canaries, PORT a listener of the host, VICTIM a process of the host."""
    says: tuple[str, ...] = ()
    """Must be in the output."""
    never: tuple[str, ...] = ()
    """Must not be in the output."""
    ended_by: str | None = None
    needs_namespaces: bool = False
    """Says something that only namespaces can make true."""
    timeout_s: float = 10.0
    needs_groups: bool = False
    """Ends as told only where memory and processes can be limited."""


def _python(code: str) -> str:
    return f"python3 - <<'EOF'\n{code}\nEOF\necho done"


REFUSED = "refused: "
_TRY = f"""
import os, socket, sys
def attempt(what, act):
    try:
        print('GOT', what, act())
    except BaseException as error:
        print('{REFUSED}', what, type(error).__name__)
"""
SECRET = "canary-secret-of-the-host"
DAEMON = """
import os, signal, time
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        signal.signal(signal.SIGTERM, signal.SIG_IGN); signal.signal(signal.SIGHUP, signal.SIG_IGN)
        time.sleep(600)
    os._exit(0)
os.wait()
"""

PROGRAMS = [
    Hostile("fork bomb", ":(){ :|:& };: ; sleep 1; echo over", timeout_s=4, needs_groups=True),
    Hostile(
        "forks up to the limit",
        _python(
            "import os, time\nn = 0\ntry:\n    while n < 500:\n        if os.fork() == 0:\n            time.sleep(600)\n"
            "        n += 1\nexcept BlockingIOError:\n    print('stopped', n < 128)"
        ),
        says=("stopped True",),
        needs_groups=True,
    ),
    Hostile(
        "memory hog",
        "exec python3 -c 'b=[]\nwhile True: b.append(bytearray(8<<20))'",
        ended_by="memory",
        needs_groups=True,
    ),
    Hostile("memory hog in /dev/shm", "head -c 900M /dev/zero > /dev/shm/fill; echo code $?", never=("code 0",)),
    Hostile("one file too large", "head -c 200M /dev/zero > big; echo code $?; stat -c %s big", says=("code 153", "67108864")),
    Hostile(
        "disk filler",
        "for i in $(seq 100); do head -c 50M /dev/zero > fill$i || exit; done; sleep 5",
        ended_by="disk",
        timeout_s=30,
    ),
    Hostile("sparse file", "truncate -s 1T sparse; echo code $?", says=("code 153",)),
    Hostile(
        "descriptor hog",
        _python(
            "import os\nkept = []\ntry:\n    while True: kept.append(os.open('/dev/null', 0))\nexcept OSError as e: print(len(kept) < 5000)"
        ),
        says=("True",),
    ),
    Hostile("processor hog", "while :; do :; done", ended_by="time", timeout_s=1),
    Hostile("sleeper that ignores SIGTERM", "trap '' TERM HUP INT; sleep 600 & wait; sleep 600", ended_by="time", timeout_s=1),
    Hostile("daemon, double-forked", _python(DAEMON), says=("done",)),
    Hostile("daemon that holds the output open", "setsid bash -c 'trap \"\" TERM; sleep 600' & disown; echo done", says=("done",)),
    Hostile("stopped processes", "sleep 600 & kill -STOP $!; kill -STOP $$", ended_by="time", timeout_s=1),
    Hostile("kill everything", "kill -9 -1; echo survived", says=()),
    Hostile("kill a process of the host", "kill -9 $VICTIM; echo code $?", says=("code 1",)),
    Hostile("kill the parents", "kill -9 $PPID; kill -9 1; echo done", says=()),
    Hostile(
        "write outside",
        "for f in $HOST/canary /usr/canary /etc/canary /canary /root/canary /var/canary /proc/sys/kernel/hostname; do"
        " (echo hacked > $f) 2>/dev/null && echo wrote $f; done; echo done",
        never=("wrote",),
    ),
    Hostile("read the host's secrets", "cat $HOST/canary /etc/shadow /root/.ssh/* 2>&1; ls $HOST", never=(SECRET, "root:")),
    Hostile("look for the host's files", "find / -maxdepth 4 -name canary 2>/dev/null; echo done", never=("/canary",)),
    Hostile("environment of others", "cat /proc/*/environ /proc/*/cmdline 2>/dev/null | tr '\\0' '\\n'; env", never=(SECRET,)),
    Hostile("memory of others", "cat /proc/$VICTIM/maps /proc/1/mem 2>&1; ls -l /proc/1/fd /proc/1/cwd 2>&1", never=("heap",)),
    Hostile(
        "root of others",
        "ls /proc/1/root/$HOST /proc/$VICTIM/root/$HOST /proc/$VICTIM/cwd/; cat /proc/$PPID/root/$HOST/canary",
        never=(SECRET,),
    ),
    Hostile(
        "trace a process",
        _python("import ctypes, os\nprint('traced', ctypes.CDLL(None).ptrace(16, int(os.environ['VICTIM']), 0, 0))"),
        says=("traced -1",),
    ),
    Hostile("mount", "mount -t tmpfs none /usr; mount --bind / /tmp; umount /workspace; echo done", says=("done",)),
    Hostile("chroot", "chroot / true && echo entered; echo done", never=("entered",), needs_namespaces=True),
    Hostile("further namespaces", "unshare -Ur true && echo nested; echo done", never=("nested",), needs_namespaces=True),
    Hostile("devices", "mknod disk b 8 0; cat disk /dev/sda /dev/vda /dev/mem 2>&1 | head -c 99; ls /dev/kmsg /dev/vda", never=("/dev/vda\n",), needs_namespaces=True),
    Hostile("set-uid programs", "sudo -n true && echo root; su -c true && echo root; id -u", never=("root\n",), needs_namespaces=True),
    Hostile("give away files", "touch f; chown 1234 f && echo given; chmod u+s f; echo done", never=("given",)),
    Hostile("symbolic links to the host", "ln -s $HOST/canary link; ln -s / root; cat link root/etc/shadow; echo hacked > link; echo done", never=(SECRET,)),
    Hostile("hard links to the host", "ln $HOST/canary hard && cat hard; echo done", never=(SECRET,)),
    Hostile("other ports of the loopback", _python(_TRY + "attempt('port', lambda: socket.create_connection(('127.0.0.1', int(os.environ['PORT'])), 2))"), says=(REFUSED,), never=("GOT",)),
    Hostile("the loopback by version 6", _python(_TRY + "attempt('port', lambda: socket.create_connection(('::1', int(os.environ['PORT'])), 2))"), says=(REFUSED,), never=("GOT",)),
    Hostile("a datagram to the host", _python(_TRY + "s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)\ns.sendto(b'hacked', ('127.0.0.1', int(os.environ['UDP'])))"), says=()),
    Hostile("the internet", _python(_TRY + "attempt('net', lambda: socket.create_connection(('1.1.1.1', 80), 2))"), says=(REFUSED,), never=("GOT",)),
    Hostile("names", _python(_TRY + "attempt('name', lambda: socket.getaddrinfo('example.com', 80))"), says=(REFUSED,), never=("GOT",)),
    Hostile("abstract unix sockets", _python(_TRY + "attempt('abstract', lambda: socket.socket(socket.AF_UNIX).connect('\\0' + os.environ['ABSTRACT']))"), says=(REFUSED,), never=("GOT",)),
    Hostile("unix sockets of the host", _python(_TRY + "os.chdir('/')\nattempt('unix', lambda: socket.socket(socket.AF_UNIX).connect(os.environ['HOST'] + '/socket'))"), says=(REFUSED,), never=("GOT",)),
    Hostile("attributes of the host's files", _python(_TRY + """
canary = os.environ['HOST'] + '/canary'
attempt('chmod', lambda: os.chmod(canary, 0o777))
attempt('utime', lambda: os.utime(canary, (1, 1)))
attempt('chown', lambda: os.chown(canary, 1000, 1000))
attempt('setxattr', lambda: os.setxattr(canary, 'user.hacked', b'1'))
attempt('chmod of a folder', lambda: os.chmod(os.environ['HOST'], 0o777))"""), says=(REFUSED,), never=("GOT",)),
    Hostile("limits and priorities of the host's processes", _python(_TRY + """
import resource
victim = int(os.environ['VICTIM'])
attempt('prlimit', lambda: resource.prlimit(victim, resource.RLIMIT_CPU, (1, 1)))
attempt('priority', lambda: os.setpriority(os.PRIO_PROCESS, victim, 19))
attempt('affinity', lambda: os.sched_setaffinity(victim, {0}))"""), says=(REFUSED,), never=("GOT",)),
    Hostile("shared memory of the host", _python(_TRY + """
import ctypes
libc = ctypes.CDLL(None, use_errno=True)
print('segment', libc.shmget(int(os.environ['SHARED']), 0, 0))"""), says=("segment -1",)),
    Hostile("keys of the session", _python(_TRY + """
import ctypes, platform
libc = ctypes.CDLL(None, use_errno=True)
print('session', libc.syscall({'x86_64': 250, 'aarch64': 219}[platform.machine()], 0, -3, 0))"""), says=("session -1",)),
    Hostile("keys of the host's servers", "for f in /etc/ssl/private /etc/pki/tls/private; do ls $f && echo LISTED; done; echo done", never=("LISTED",), says=("done",)),
    Hostile("a filler without a name", _python(_TRY + """
import time
kept = []
for n in range(100):
    file = open(f'f{n}', 'wb'); os.unlink(f'f{n}'); kept.append(file)
    for _ in range(50): file.write(bytes(1 << 20))
    file.flush()
time.sleep(10)"""), ended_by="disk", timeout_s=60),
    Hostile("a filler deep down", _python(_TRY + """
import time
for n in range(150):
    os.mkdir('d' * 20); os.chdir('d' * 20)
for n in range(100):
    with open(f'f{n}', 'wb') as file:
        for _ in range(50): file.write(bytes(1 << 20))
time.sleep(10)"""), ended_by="disk", timeout_s=60),
    Hostile("a filler behind a closed door", "mkdir -p closed/in; cd closed/in; chmod 000 ..; for i in $(seq 100); do head -c 50M /dev/zero > fill$i || exit; done; sleep 10", ended_by="disk", timeout_s=60),
    Hostile("raw sockets", _python(_TRY + "attempt('raw', lambda: socket.socket(socket.AF_INET, socket.SOCK_RAW, 1))"), never=("GOT",)),
    Hostile("terminal injection", _python(_TRY + "import fcntl\nfor n in (0, 1, 2):\n    attempt('tty', lambda: fcntl.ioctl(n, 0x5412, b'x'))\nattempt('open', lambda: open('/dev/tty'))"), never=("GOT",)),
    Hostile("control characters", "printf '\\033]0;title\\007\\033[2J\\000\\377\\376'; echo end", says=("end",)),
    Hostile("output flood", "timeout 1 yes; head -c 30M /dev/zero; echo the end", says=("the end", "left out"), timeout_s=20),
    Hostile("the clock", "date -s 2001-01-01 && echo set; hwclock -w && echo set; echo done", never=("set\n",)),
    Hostile("host name and kernel settings", "hostname hacked && echo set; sysctl -w kernel.panic=$(sysctl -n kernel.panic) && echo set; echo done", never=("set\n",), needs_namespaces=True),
    Hostile("settings of the kernel", "find /proc -maxdepth 4 -writable -not -path '/proc/[0-9]*' -not -path '/proc/*self/*' -type f; echo done", never=("/proc/",), needs_namespaces=True),
    Hostile("deep folders", _python("import os\nfor n in range(600):\n    os.mkdir('d' * 50); os.chdir('d' * 50)"), says=("done",)),
    Hostile("strange names", _python("open(b'\\xff\\xfe\\n\\x1b[31m', 'w').write('x\\n'); open('a\\nb', 'w').write('y\\n'); open('-rf', 'w')"), says=("done",)),
    Hostile("many files", _python("import os\nos.mkdir('many')\nfor n in range(5000): os.close(os.open(f'many/{n}', os.O_CREAT))"), says=("done",), timeout_s=30),
    Hostile("folders that resist removal", "mkdir -p a/b/c; touch a/b/c/f; chattr +i a/b/c/f; chmod 000 a/b/c a/b a; chmod 500 .; echo done", says=("done",)),
    Hostile("pipes and sockets", "mkfifo pipe; python3 -c \"import socket; socket.socket(socket.AF_UNIX).bind('sock')\"; echo done", says=("done",)),
    Hostile("the sandbox's own control socket", _python("import os\nfor n in range(3, 64):\n    try: os.write(n, b'\\x01'); print('wrote', n)\n    except OSError: pass"), never=("wrote",)),
]  # fmt: skip
