/* reduce N: N allreduces of 8 bytes, in which all ranks wait for each other. reduce Ns: allreduces for N seconds; rank 0
 * prints how many. */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int main(int argc, char **argv)
{
	const char *word = argc > 1 ? argv[1] : "1";
	int timed = strchr(word, 's') != NULL, rank;
	long n = 0, wanted = atol(word);
	double begin, last, ends = 0;

	MPI_Init(&argc, &argv);
	MPI_Comm_rank(MPI_COMM_WORLD, &rank);
	for (begin = MPI_Wtime(); ends == 0; n++) {
		last = timed ? rank == 0 && MPI_Wtime() - begin >= wanted : n + 1 >= wanted;
		MPI_Allreduce(&last, &ends, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
	}
	if (timed && rank == 0)
		printf("%ld\n", n);
	MPI_Finalize();
	return 0;
}
