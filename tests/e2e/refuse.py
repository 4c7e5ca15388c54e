#!/usr/bin/env python3
"""refuse.py ERRNO CALL[,CALL...] COMMAND...: runs a command for which these system calls fail with this error, as a
container's seccomp profile would have it (x86-64)."""

import ctypes
import errno
import os
import struct
import sys

PR_SET_NO_NEW_PRIVS, PR_SET_SECCOMP, SECCOMP_MODE_FILTER = 38, 22, 2
RET_ERRNO, RET_ALLOW = 0x00050000, 0x7FFF0000
LOAD_WORD, JUMP_IF_EQUAL, RETURN = 0x20, 0x15, 0x06
CALLS = {
    "mbind": 237,
    "set_mempolicy": 238,
    "get_mempolicy": 239,
    "migrate_pages": 256,
    "move_pages": 279,
    "io_uring_setup": 425,
    "cachestat": 451,
}


def refuse(calls, error):
    load = (LOAD_WORD, 0, 0, 0)  # seccomp_data.nr
    compare = [(JUMP_IF_EQUAL, len(calls) - i, 0, CALLS[call]) for i, call in enumerate(calls)]
    end = [(RETURN, 0, 0, RET_ALLOW), (RETURN, 0, 0, RET_ERRNO | error)]
    program = b"".join(struct.pack("<HBBI", *instruction) for instruction in (load, *compare, *end))
    filters = ctypes.create_string_buffer(program)
    header = struct.pack("HxxxxxxP", len(program) // 8, ctypes.addressof(filters))  # struct sock_fprog
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) or libc.prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, header, 0, 0):
        raise OSError(ctypes.get_errno(), "prctl")


if __name__ == "__main__":
    refuse(sys.argv[2].split(","), getattr(errno, sys.argv[1]))
    os.execvp(sys.argv[3], sys.argv[3:])
