"""A program that hangs: hang.py HOW. Its last rank does something else than the others."""
import ctypes
import os
import socket
import subprocess
import sys
import threading

how = sys.argv[1]


def exchange():
    comm.Barrier()


def wait_for_peer(connection):
    while connection.recv(1):
        pass


def hold_gil():
    ctypes.PyDLL(None).pause()  # PyDLL keeps the lock of the interpreter


if how.startswith("sockets"):  # without MPI: a ring in which each rank waits for the one before
    print("ready", flush=True)
    a, b = socket.socketpair()
    wait_for_peer(a)

from mpi4py import MPI  # noqa: E402

comm = MPI.COMM_WORLD
rank, size = comm.Get_rank(), comm.Get_size()
comm.allreduce(rank)
if rank == 0:
    print("ready", flush=True)
if rank == size - 1:
    if how == "gil":
        threading.Thread(target=hold_gil).start()
    if how == "python-child":
        subprocess.run(["cat", sys.argv[2]])
    if how == "python-skip":
        comm.bcast(None, root=0)
exchange()
