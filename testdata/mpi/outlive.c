/*
 * outlive exit|kill|two FILE [finalize]: rank 1 ends within MPI, by _exit(5) or SIGKILL; "two": rank 2 does,
 * too. The others wait until FILE is there; rank 0 waits until MPICH knows of the failed. They print that they
 * live, and leave: by MPI_Finalize, or without.
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
	if (rank == 1 || (rank == 2 && strcmp(argv[1], "two") == 0)) {
		if (strcmp(argv[1], "kill") == 0)
			kill(getpid(), SIGKILL);
		_exit(5);
	}
	while (access(argv[2], F_OK) != 0)
		usleep(10000);
#ifdef MPICH
	if (rank == 0) {
		MPI_Group failed;
		int n = 0, want = strcmp(argv[1], "two") == 0 ? 2 : 1;

		MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
		while (n < want) {
			usleep(10000);
			MPIX_Comm_failure_ack(MPI_COMM_WORLD);
			MPIX_Comm_failure_get_acked(MPI_COMM_WORLD, &failed);
			MPI_Group_size(failed, &n);
		}
		printf("%d failed\n", n);
	}
#endif
	printf("rank %d lives\n", rank);
	fflush(stdout);
	if (argc < 4)
		_exit(0);
	MPI_Finalize();
	return 0;
}
