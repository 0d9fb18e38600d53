/* sessions: each rank says whether it leads a session, else whose it is in, and whether it has a terminal.
   sessions N: it spawns N such ranks instead. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

int main(int argc, char **argv)
{
	int leads = getsid(0) == getpid(), terminal = open("/dev/tty", O_RDWR);

	MPI_Comm parent, children;

	MPI_Init(&argc, &argv);
	MPI_Comm_get_parent(&parent);
	if (argc > 1 && parent == MPI_COMM_NULL)
		MPI_Comm_spawn(argv[0], argv + 1, atoi(argv[1]), MPI_INFO_NULL, 0, MPI_COMM_WORLD, &children, MPI_ERRCODES_IGNORE);
	else if (leads)
		printf("session own%s\n", terminal < 0 ? "" : ", with a terminal");
	else
		printf("session %d%s\n", (int)getsid(0), terminal < 0 ? "" : ", with a terminal");
	MPI_Finalize();
	return 0;
}
