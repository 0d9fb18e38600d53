/*
 * hello: who runs where, and do messages arrive?
 *
 *	rank 3 of 4 on n2, local 1 of 2
 *	ring ok
 *	allreduce ok
 *
 * One line per rank; the two verdicts come from rank 0, after all ranks took part.
 * A wrong result goes to stderr and ends the job with MPI_Abort(2).
 */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { BIG = 1 << 18 }; /* bytes; beyond the eager limit of every transport */

static int rank, size;

static void check(int good, const char *what)
{
	if (good)
		return;
	fprintf(stderr, "hello: rank %d: %s: wrong result\n", rank, what);
	MPI_Abort(MPI_COMM_WORLD, 2);
}

static void introduce(void)
{
	char name[MPI_MAX_PROCESSOR_NAME];
	int len, local, locals;
	MPI_Comm node;

	MPI_Get_processor_name(name, &len);
	MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, rank, MPI_INFO_NULL, &node);
	MPI_Comm_rank(node, &local);
	MPI_Comm_size(node, &locals);
	MPI_Comm_free(&node);
	printf("rank %d of %d on %s, local %d of %d\n", rank, size, name, local, locals);
	fflush(stdout);
}

/* A sum travels once around, small, one rank after the other; then each rank hands
 * a big message to its right neighbour at the same time. */
static void ring(void)
{
	int right = (rank + 1) % size, left = (rank + size - 1) % size, sum = rank;
	char *out = malloc(BIG), *in = malloc(BIG);

	if (size > 1 && rank == 0) {
		MPI_Send(&sum, 1, MPI_INT, right, 1, MPI_COMM_WORLD);
		MPI_Recv(&sum, 1, MPI_INT, left, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
		check(sum == size * (size - 1) / 2, "ring");
	} else if (size > 1) {
		MPI_Recv(&sum, 1, MPI_INT, left, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
		sum += rank;
		MPI_Send(&sum, 1, MPI_INT, right, 1, MPI_COMM_WORLD);
	}
	memset(out, 'a' + rank % 26, BIG);
	memset(in, 0, BIG);
	MPI_Sendrecv(out, BIG, MPI_CHAR, right, 2, in, BIG, MPI_CHAR, left, 2,
		     MPI_COMM_WORLD, MPI_STATUS_IGNORE);
	memset(out, 'a' + left % 26, BIG);
	check(memcmp(in, out, BIG) == 0, "ring of big messages");
	free(out);
	free(in);
}

static void allreduce(void)
{
	int sum = 0;

	MPI_Allreduce(&rank, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
	check(sum == size * (size - 1) / 2, "allreduce");
}

int main(int argc, char **argv)
{
	MPI_Init(&argc, &argv);
	MPI_Comm_rank(MPI_COMM_WORLD, &rank);
	MPI_Comm_size(MPI_COMM_WORLD, &size);
	introduce();
	ring();
	MPI_Barrier(MPI_COMM_WORLD);
	if (rank == 0)
		puts("ring ok");
	allreduce();
	if (rank == 0)
		puts("allreduce ok");
	MPI_Finalize();
	return 0;
}
