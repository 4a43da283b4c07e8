"""A process gives up what it does not need: network, processes, files, memory, time.

What confines it is the kernel, so no Python in it gets around that. Three walls, each on its own:

- limits: resource limits on CPU seconds, memory, open files, and no byte written to any file;
- calls: a seccomp filter. Refused, with EPERM, are sockets, new processes and programs, signals
  to other processes, changes to files' owners, modes and times, and what administers a machine;
- files: a Landlock ruleset. Nothing can be written, made, moved or removed anywhere, and nothing
  read but Python, its packages and the system's libraries.

The last two are Linux's. Where one is missing there is an audit hook in its place, which stops
accidents and not intent.
"""

import ctypes
import os
import platform
import struct
import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

SYSTEM_PATHS = (
    "/usr", "/lib", "/lib32", "/lib64", "/bin", "/nix", "/etc/ld.so.cache", "/etc/localtime",
    "/dev/null", "/dev/zero", "/dev/urandom", "/proc/self", "/proc/cpuinfo", "/proc/meminfo",
    "/sys/devices/system/cpu",
)  # fmt: skip
"""What may be read besides Python and its packages; those that exist."""


@dataclass(frozen=True, slots=True)
class Limits:
    """Resource limits of a process."""

    cpu_seconds: int
    """Of user and system time together; then SIGXCPU ends it, and a second later SIGKILL."""
    memory_bytes: int
    """Of address space: more is a MemoryError."""
    open_files: int = 64


@dataclass(frozen=True, slots=True)
class Walls:
    """Which of the kernel's walls stand, besides the limits, which always do."""

    calls: bool
    """Sockets, processes and signals to others are refused."""
    files: bool
    """Nothing is written, and nothing of the user's is read."""

    def lacking(self, standing: "Walls") -> str:
        """Which of these do not stand, in words; empty if all do."""
        names = {
            "seccomp filters": self.calls and not standing.calls,
            "Landlock (Linux 6.2 or newer)": self.files and not standing.files,
        }
        return " and ".join(name for name, is_lacking in names.items() if is_lacking)


EVERY_WALL = Walls(calls=True, files=True)
NO_WALL = Walls(calls=False, files=False)


def confine(limits: Limits, readable: Iterable[str] = ()) -> Walls:
    """Confine the calling process, for good. It should have one thread.

    Args:
        limits: what it may use.
        readable: further files and folders that it may read.
    """
    import resource  # not there on Windows, where nothing is confined

    _lower(resource.RLIMIT_CPU, limits.cpu_seconds, grace=1)
    _lower(resource.RLIMIT_AS, limits.memory_bytes)
    _lower(resource.RLIMIT_FSIZE, 0)
    _lower(resource.RLIMIT_CORE, 0)
    _lower(resource.RLIMIT_NOFILE, limits.open_files)
    if sys.platform != "linux":
        walls = NO_WALL
    else:
        libc = ctypes.CDLL(None, use_errno=True)
        renounced = libc.prctl(_NO_NEW_PRIVILEGES, 1, 0, 0, 0) == 0
        files = renounced and _files_walled(libc, (*SYSTEM_PATHS, *readable))
        walls = Walls(calls=renounced and _calls_walled(libc), files=files)
    if walls != EVERY_WALL:
        sys.addaudithook(_refused_by_hook)
    return walls


def readable_by_python() -> list[str]:
    """Where this interpreter imports from."""
    return [path for path in (sys.prefix, sys.base_prefix, *sys.path) if path and path != "/"]


def _lower(kind: int, most: int, grace: int = 0) -> None:
    """Set a limit, unless a lower one holds already."""
    import resource

    _, hard = resource.getrlimit(kind)
    least, last = (
        value if hard == resource.RLIM_INFINITY else min(value, hard)
        for value in (most, most + grace)
    )
    resource.setrlimit(kind, (least, last))


# Files: Landlock. See linux/landlock.h; its system calls have one number on every architecture.

_NO_NEW_PRIVILEGES = 38
_CREATE_RULESET, _ADD_RULE, _RESTRICT_SELF = 444, 445, 446
_VERSION_FLAG, _PATH_BENEATH = 1, 1
_LEAST_LANDLOCK = 3  # the first that also guards truncation
_EXECUTE, _READ_FILE, _READ_FOLDER = 1 << 0, 1 << 2, 1 << 3
_EVERY_RIGHT = (1 << 15) - 1
_DEVICE_CONTROL, _DEVICE_CONTROL_SINCE = 1 << 15, 5


def _files_walled(libc: Any, readable: Iterable[str]) -> bool:
    version = libc.syscall(_CREATE_RULESET, None, ctypes.c_size_t(0), _VERSION_FLAG)
    if version < _LEAST_LANDLOCK:
        return False
    handled = _EVERY_RIGHT | (_DEVICE_CONTROL if version >= _DEVICE_CONTROL_SINCE else 0)
    wanted = struct.pack("=Q", handled)
    ruleset = libc.syscall(_CREATE_RULESET, wanted, ctypes.c_size_t(len(wanted)), 0)
    if ruleset < 0:
        return False
    try:
        for path in dict.fromkeys(readable):
            _allow_reading(libc, ruleset, path)
        return libc.syscall(_RESTRICT_SELF, ruleset, 0) == 0
    finally:
        os.close(ruleset)


def _allow_reading(libc: Any, ruleset: int, path: str) -> None:
    try:
        opened = os.open(path, os.O_PATH | os.O_CLOEXEC)
    except OSError:  # not on this machine
        return
    try:
        rights = _READ_FILE | _EXECUTE | (_READ_FOLDER if Path(path).is_dir() else 0)
        rule = struct.pack("=Qi", rights, opened)
        if libc.syscall(_ADD_RULE, ruleset, _PATH_BENEATH, rule, 0) != 0:
            raise OSError(ctypes.get_errno(), f"Landlock refuses a rule for {path}")
    finally:
        os.close(opened)


# Calls: seccomp. See linux/seccomp.h, linux/filter.h and the tables of each architecture.

_SET_SECCOMP, _FILTER_MODE = 22, 2
_LOAD, _IF_EQUAL, _IF_LEAST, _IF_ANY_BIT, _RETURN = 0x20, 0x15, 0x35, 0x45, 0x06
_ALLOW, _REFUSE, _UNKNOWN_CALL = 0x7FFF0000, 0x00050000 | 1, 0x00050000 | 38
_NUMBER, _ARCHITECTURE, _FIRST_ARGUMENT, _SECOND_ARGUMENT = 0, 4, 16, 24
_THREAD_FLAG = 0x00010000
_X32 = 0x40000000

_ARCHITECTURES: Mapping[str, int] = {"x86_64": 0xC000003E, "aarch64": 0xC00000B7}
_COLUMN: Mapping[str, int] = {"x86_64": 0, "aarch64": 1}

_FORBIDDEN: Mapping[str, tuple[int | None, int | None]] = {
    # the network, and the ways around the calls that open it
    "socket": (41, 198), "socketpair": (53, 199), "connect": (42, 203), "bind": (49, 200),
    "listen": (50, 201), "accept": (43, 202), "accept4": (288, 242), "sendto": (44, 206),
    "sendmsg": (46, 211), "sendmmsg": (307, 269), "io_uring_setup": (425, 425),
    "io_uring_enter": (426, 426), "io_uring_register": (427, 427),
    # new processes and programs, and leaving one's session
    "fork": (57, None), "vfork": (58, None), "execve": (59, 221), "execveat": (322, 281),
    "setpgid": (109, 154), "setsid": (112, 157), "unshare": (272, 97), "setns": (308, 268),
    # other processes
    "rt_sigqueueinfo": (129, 138), "rt_tgsigqueueinfo": (297, 240), "tkill": (200, 130),
    "pidfd_open": (434, 434), "pidfd_send_signal": (424, 424), "pidfd_getfd": (438, 438),
    "ptrace": (101, 117), "process_vm_readv": (310, 270), "process_vm_writev": (311, 271),
    "process_madvise": (440, 440), "kcmp": (312, 272), "setpriority": (141, 140),
    "sched_setaffinity": (203, 122), "sched_setscheduler": (144, 119),
    "sched_setparam": (142, 118), "sched_setattr": (314, 274), "ioprio_set": (251, 30),
    # what outlives the process
    "shmget": (29, 194), "semget": (64, 190), "msgget": (68, 186), "mq_open": (240, 180),
    # owners, modes and times of files, which Landlock does not guard
    "chmod": (90, None), "fchmod": (91, 52), "fchmodat": (268, 53), "fchmodat2": (452, 452),
    "chown": (92, None), "lchown": (94, None), "fchown": (93, 55), "fchownat": (260, 54),
    "utime": (132, None), "utimes": (235, None), "futimesat": (261, None),
    "utimensat": (280, 88), "setxattr": (188, 5), "lsetxattr": (189, 6), "fsetxattr": (190, 7),
    "removexattr": (197, 14), "lremovexattr": (198, 15), "fremovexattr": (199, 16),
    "setxattrat": (463, 463), "removexattrat": (466, 466), "file_setattr": (469, 469),
    # administration
    "mount": (165, 40), "umount2": (166, 39), "pivot_root": (155, 41), "chroot": (161, 51),
    "move_mount": (429, 429), "fsopen": (430, 430), "open_tree": (428, 428),
    "mount_setattr": (442, 442), "swapon": (167, 224), "swapoff": (168, 225),
    "bpf": (321, 280), "perf_event_open": (298, 241), "userfaultfd": (323, 282),
    "add_key": (248, 217), "request_key": (249, 218), "keyctl": (250, 219),
    "init_module": (175, 105), "finit_module": (313, 273), "delete_module": (176, 106),
    "kexec_load": (246, 104), "reboot": (169, 142), "acct": (163, 89), "syslog": (103, 116),
    "open_by_handle_at": (304, 265), "fanotify_init": (300, 262), "settimeofday": (164, 170),
    "clock_settime": (227, 112), "adjtimex": (159, 171), "clock_adjtime": (305, 266),
    "sethostname": (170, 161), "setdomainname": (171, 162), "quotactl": (179, 60),
}  # fmt: skip
"""Numbers of system calls on x86_64 and on aarch64; None where there is no such call."""
_CLONE, _CLONE3 = (56, 220), (435, 435)
_OWN_ONLY: Mapping[str, tuple[int, int]] = {"kill": (62, 129), "tgkill": (234, 131)}
"""Calls whose first argument is a process."""
_PRLIMIT = (302, 261)
_FCNTL, _SET_OWNER, _SET_OWNER_TOO = (72, 25), 8, 15
"""`fcntl` can name a process that gets a signal whenever a file is ready."""


def _calls_walled(libc: Any) -> bool:
    machine = platform.machine()
    if machine not in _ARCHITECTURES or sys.byteorder != "little":
        return False
    code = _filter(machine, os.getpid())

    class Program(ctypes.Structure):
        _fields_ = (("length", ctypes.c_ushort), ("code", ctypes.c_char_p))

    program = Program(len(code) // 8, code)
    return libc.prctl(_SET_SECCOMP, _FILTER_MODE, ctypes.byref(program), 0, 0) == 0


def _filter(machine: str, own: int) -> bytes:
    """The filter as Berkeley packet filter instructions, eight bytes each."""
    column = _COLUMN[machine]
    code = [
        _step(_LOAD, _ARCHITECTURE),
        _step(_IF_EQUAL, _ARCHITECTURES[machine], then=1),
        _step(_RETURN, _REFUSE),  # a 32-bit call has numbers of its own
        _step(_LOAD, _NUMBER),
        _step(_IF_LEAST, _X32, otherwise=1),
        _step(_RETURN, _REFUSE),
    ]
    for number in (numbers[column] for numbers in _FORBIDDEN.values()):
        if number is not None:
            code += [_step(_IF_EQUAL, number, otherwise=1), _step(_RETURN, _REFUSE)]
    # `clone3` keeps its flags where no filter can look; without it, the C library uses `clone`.
    code += [_step(_IF_EQUAL, _CLONE3[column], otherwise=1), _step(_RETURN, _UNKNOWN_CALL)]
    is_thread = _step(_IF_ANY_BIT, _THREAD_FLAG, otherwise=1)
    is_own = _step(_IF_EQUAL, own, otherwise=1)
    is_caller = _step(_IF_EQUAL, 0, then=1)  # what 0 means to prlimit
    is_owner = (_step(_IF_EQUAL, _SET_OWNER, then=2), _step(_IF_EQUAL, _SET_OWNER_TOO, then=1))
    code += _judged(_CLONE[column], _FIRST_ARGUMENT, is_thread)
    for numbers in _OWN_ONLY.values():
        code += _judged(numbers[column], _FIRST_ARGUMENT, is_own)
    code += _judged(_PRLIMIT[column], _FIRST_ARGUMENT, is_caller, is_own)
    code += _judged(_FCNTL[column], _SECOND_ARGUMENT, *is_owner)
    return b"".join((*code, _step(_RETURN, _ALLOW)))


def _judged(number: int, argument: int, *tests: bytes) -> list[bytes]:
    """A call that is allowed where the tests of an argument end up behind the last of them.

    Where they end up one step further on, it is refused.
    """
    return [
        _step(_IF_EQUAL, number, otherwise=len(tests) + 3),
        _step(_LOAD, argument),
        *tests,
        _step(_RETURN, _ALLOW),
        _step(_RETURN, _REFUSE),
    ]


def _step(code: int, value: int, *, then: int = 0, otherwise: int = 0) -> bytes:
    return struct.pack("=HBBI", code, then, otherwise, value)


# Without the kernel's walls.

_REFUSED_EVENTS = (
    "socket.", "subprocess.", "os.system", "os.fork", "os.exec", "os.posix_spawn", "os.spawn",
    "os.kill", "os.remove", "os.rename", "os.rmdir", "os.mkdir", "os.link", "os.symlink",
    "os.truncate", "os.chmod", "os.chown", "os.utime", "shutil.", "ctypes.dlopen",
)  # fmt: skip
_WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND


def _refused_by_hook(event: str, arguments: tuple[Any, ...]) -> None:
    writes = event == "open" and isinstance(arguments[2], int) and arguments[2] & _WRITING
    if writes or event.startswith(_REFUSED_EVENTS):
        raise PermissionError(f"not permitted here: {event}")
