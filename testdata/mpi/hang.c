/* A program whose last rank does something else than the others, who wait in a collective: hang HOW. */
#include <mpi.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static volatile int sink;

static void exchange(int rank) {
	int sum;
	MPI_Allreduce(&rank, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
}

static void __attribute__((noinline)) compute(void) {
	for (;;)
		sink++;
}

static void otherwise(const char *how) {
	int n;
	if (!strcmp(how, "skip"))
		MPI_Barrier(MPI_COMM_WORLD);
	if (!strcmp(how, "loop"))
		compute();
	if (!strcmp(how, "sleep"))
		sleep(1000);
	if (!strcmp(how, "stop"))
		raise(SIGSTOP);
	if (!strcmp(how, "receive"))
		MPI_Recv(&n, 1, MPI_INT, 0, 7, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
}

int main(int argc, char **argv) {
	int rank, size;
	MPI_Init(&argc, &argv);
	MPI_Comm_rank(MPI_COMM_WORLD, &rank);
	MPI_Comm_size(MPI_COMM_WORLD, &size);
	exchange(rank);
	if (rank == 0)
		puts("ready"), fflush(stdout);
	if (rank == size - 1)
		otherwise(argv[1]);
	exchange(rank);
	MPI_Finalize();
	return 0;
}
