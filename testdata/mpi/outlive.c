/*
 * outlive exit|kill FILE [finalize]: rank 1 ends within MPI, by _exit(5) or SIGKILL. The others wait
 * until FILE is there, say so, and leave: by MPI_Finalize, or without.
 */
#include <mpi.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

int main(int argc, char **argv)
{
	int rank;

	MPI_Init(&argc, &argv);
	MPI_Comm_rank(MPI_COMM_WORLD, &rank);
	if (argc < 3)
		MPI_Abort(MPI_COMM_WORLD, 2);
	if (rank == 1) {
		if (strcmp(argv[1], "exit") == 0)
			_exit(5);
		kill(getpid(), SIGKILL);
	}
	while (access(argv[2], F_OK) != 0)
		usleep(10000);
	printf("rank %d lives\n", rank);
	fflush(stdout);
	if (argc < 4)
		_exit(0);
	MPI_Finalize();
	return 0;
}
