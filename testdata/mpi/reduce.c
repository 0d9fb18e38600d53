/* reduce N: N allreduces of 8 bytes, in which all ranks wait for each other. */
#include <mpi.h>
#include <stdlib.h>

int main(int argc, char **argv)
{
	double mine = 1, sum;
	int n;

	MPI_Init(&argc, &argv);
	for (n = argc > 1 ? atoi(argv[1]) : 1; n > 0; n--)
		MPI_Allreduce(&mine, &sum, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
	MPI_Finalize();
	return 0;
}
