/* sessions: each rank says whether it leads a session, else whose it is in, and whether it has a terminal. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <mpi.h>
#include <stdio.h>
#include <unistd.h>

int main(int argc, char **argv)
{
	int leads = getsid(0) == getpid(), terminal = open("/dev/tty", O_RDWR);

	MPI_Init(&argc, &argv);
	if (leads)
		printf("session own%s\n", terminal < 0 ? "" : ", with a terminal");
	else
		printf("session %d%s\n", (int)getsid(0), terminal < 0 ? "" : ", with a terminal");
	MPI_Finalize();
	return 0;
}
