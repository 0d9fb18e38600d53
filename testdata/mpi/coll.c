/*
 * coll: what a rank is told of its world, and collective operations.
 *
 *	rank 3 of 4, universe 8, appnum 0
 *	allreduce ok
 *	alltoall ok
 *	bcast ok
 *	split ok
 *
 * One line per rank; the verdicts come from rank 0, each after all ranks took part. What
 * the launcher has not told is "?". A wrong result goes to stderr and ends the job with
 * MPI_Abort(2).
 */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { BIG = 1 << 20 }; /* bytes; beyond the eager limit of every transport */

static int rank, size;

static void check(int good, const char *what)
{
	if (good)
		return;
	fprintf(stderr, "coll: rank %d: %s: wrong result\n", rank, what);
	MPI_Abort(MPI_COMM_WORLD, 2);
}

static void verdict(const char *what)
{
	MPI_Barrier(MPI_COMM_WORLD);
	if (rank == 0)
		printf("%s ok\n", what);
}

/* attribute writes an attribute of MPI_COMM_WORLD as text. */
static const char *attribute(int key, char text[16])
{
	int *value, found;

	MPI_Comm_get_attr(MPI_COMM_WORLD, key, &value, &found);
	if (!found)
		return "?";
	snprintf(text, 16, "%d", *value);
	return text;
}

static void introduce(void)
{
	char universe[16], appnum[16];

	printf("rank %d of %d, universe %s, appnum %s\n", rank, size,
	       attribute(MPI_UNIVERSE_SIZE, universe), attribute(MPI_APPNUM, appnum));
	fflush(stdout);
}

static void allreduce(void)
{
	double mine[2] = {rank, 1}, sum[2];

	MPI_Allreduce(mine, sum, 2, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
	check(sum[0] == size * (size - 1) / 2 && sum[1] == size, "allreduce");
	verdict("allreduce");
}

/* Rank r gives rank s the number r*size + s. */
static void alltoall(void)
{
	int *out = malloc(size * sizeof *out), *in = malloc(size * sizeof *in);

	for (int to = 0; to < size; to++)
		out[to] = rank * size + to;
	MPI_Alltoall(out, 1, MPI_INT, in, 1, MPI_INT, MPI_COMM_WORLD);
	for (int from = 0; from < size; from++)
		check(in[from] == from * size + rank, "alltoall");
	free(out);
	free(in);
	verdict("alltoall");
}

static void bcast(void)
{
	char *text = malloc(BIG);

	memset(text, rank == size - 1 ? 'x' : ' ', BIG);
	MPI_Bcast(text, BIG, MPI_CHAR, size - 1, MPI_COMM_WORLD);
	check(text[0] == 'x' && memcmp(text, text + 1, BIG - 1) == 0, "bcast");
	free(text);
	verdict("bcast");
}

/* The nodes' communicators part the world: the first ranks of all of them count the rest. */
static void split(void)
{
	MPI_Comm node, firsts;
	int local, locals, sum = 0;

	MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, rank, MPI_INFO_NULL, &node);
	MPI_Comm_rank(node, &local);
	MPI_Comm_size(node, &locals);
	MPI_Comm_split(MPI_COMM_WORLD, local == 0 ? 0 : MPI_UNDEFINED, rank, &firsts);
	if (firsts != MPI_COMM_NULL) {
		MPI_Allreduce(&locals, &sum, 1, MPI_INT, MPI_SUM, firsts);
		check(sum == size, "split");
		MPI_Comm_free(&firsts);
	}
	MPI_Comm_free(&node);
	verdict("split");
}

int main(int argc, char **argv)
{
	MPI_Init(&argc, &argv);
	MPI_Comm_rank(MPI_COMM_WORLD, &rank);
	MPI_Comm_size(MPI_COMM_WORLD, &size);
	introduce();
	allreduce();
	alltoall();
	bcast();
	split();
	MPI_Finalize();
	return 0;
}
