# stuck.py HOW: rank 2 keeps the others waiting in MPI_Allreduce. HOW is sleep, loop, lock or barrier.
import array
import sys
import threading
import time

from mpi4py import MPI


class Solver:
    def __init__(self, comm):
        self.comm = comm

    def exchange(self):
        total = array.array("d", [0.0])
        self.comm.Allreduce(array.array("d", [1.0]), total)

    def run(self, how):
        if self.comm.rank == 2:
            write_restart(how)
        self.exchange()


def write_restart(how):
    if how == "sleep":
        time.sleep(1000)
    if how == "lock":
        threading.Event().wait()
    if how == "loop":
        compute()


def compute():
    while True:
        sum(i * i for i in range(1000))


def main():
    comm = MPI.COMM_WORLD
    comm.Barrier()
    if comm.rank == 0:
        print("ready", flush=True)
    if sys.argv[1] == "barrier" and comm.rank == 2:
        comm.Barrier()  # instead of Allreduce
    Solver(comm).run(sys.argv[1])


if __name__ == "__main__":
    main()
