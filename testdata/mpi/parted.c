/*
 * parted early|late FILE: rank 0 spawns one child, and disconnects from it. The child ends within MPI, by _exit(5):
 * at once, and the parent waits for FILE before it disconnects, or late, when FILE is there.
 */
#include <mpi.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static void await(const char *file)
{
	while (access(file, F_OK) != 0)
		usleep(10000);
}

int main(int argc, char **argv)
{
	MPI_Comm parent, child;
	int early;

	MPI_Init(&argc, &argv);
	if (argc < 3)
		MPI_Abort(MPI_COMM_WORLD, 2);
	early = strcmp(argv[1], "early") == 0;
	MPI_Comm_get_parent(&parent);
	if (parent != MPI_COMM_NULL) {
		if (!early)
			await(argv[2]);
		_exit(5);
	}
	MPI_Comm_spawn(argv[0], argv + 1, 1, MPI_INFO_NULL, 0, MPI_COMM_SELF, &child, MPI_ERRCODES_IGNORE);
	MPI_Comm_set_errhandler(child, MPI_ERRORS_RETURN);
	MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
	printf("spawned\n");
	fflush(stdout);
	if (early)
		await(argv[2]);
	MPI_Comm_disconnect(&child);
	printf("disconnected\n");
	fflush(stdout);
	_exit(0);
}
