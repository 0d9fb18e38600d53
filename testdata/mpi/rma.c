/*
 * rma create|allocate: one-sided communication.
 *
 *	put ok
 *
 * Each rank puts a number into the window of its right neighbour, between two fences. The
 * window is memory of the program's (MPI_Win_create) or of the library's (MPI_Win_allocate).
 * The verdict comes from rank 0, after all ranks took part. A wrong result goes to stderr
 * and ends the job with MPI_Abort(2); a wrong call ends with exit code 64 before MPI_Init.
 */
#include <mpi.h>
#include <stdio.h>
#include <string.h>

static int memory; /* behind the window that MPI_Win_create makes */

static int *window(const char *mode, MPI_Win *win)
{
	int *base = &memory;

	if (strcmp(mode, "create") == 0)
		MPI_Win_create(base, sizeof *base, sizeof *base, MPI_INFO_NULL, MPI_COMM_WORLD, win);
	else
		MPI_Win_allocate(sizeof *base, sizeof *base, MPI_INFO_NULL, MPI_COMM_WORLD, &base, win);
	return base;
}

int main(int argc, char **argv)
{
	int rank, size, mine, left, *base;
	MPI_Win win;

	if (argc != 2 || (strcmp(argv[1], "create") != 0 && strcmp(argv[1], "allocate") != 0)) {
		fprintf(stderr, "usage: rma create|allocate\n");
		return 64;
	}
	MPI_Init(&argc, &argv);
	MPI_Comm_rank(MPI_COMM_WORLD, &rank);
	MPI_Comm_size(MPI_COMM_WORLD, &size);
	base = window(argv[1], &win);
	*base = 0;
	mine = rank + 1;
	left = (rank + size - 1) % size;
	MPI_Win_fence(0, win);
	MPI_Put(&mine, 1, MPI_INT, (rank + 1) % size, 0, 1, MPI_INT, win);
	MPI_Win_fence(0, win);
	if (*base != left + 1) {
		fprintf(stderr, "rma: rank %d: %d from rank %d\n", rank, *base, left);
		MPI_Abort(MPI_COMM_WORLD, 2);
	}
	MPI_Win_free(&win);
	MPI_Barrier(MPI_COMM_WORLD);
	if (rank == 0)
		puts("put ok");
	MPI_Finalize();
	return 0;
}
