/*
 * meet WHAT NAME: ranks of two jobs meet by a name (--names user).
 *
 *	server	publishes NAME, prints "published", accepts a job, and exchanges numbers with it
 *	client	looks NAME up until it is there, connects, and exchanges numbers
 *	hold	publishes NAME, prints "published", and waits to be killed
 *	find	looks NAME up once: prints "found" or "not found"
 *	late	looks NAME up until it is there, prints "found", waits for a byte of its input, and connects
 */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static int rank, size;

static int lookup(const char *name, char *port)
{
	return MPI_Lookup_name(name, MPI_INFO_NULL, port) == MPI_SUCCESS;
}

/* Ranks of both jobs exchange numbers: all with all. */
static void exchange(MPI_Comm other)
{
	int others, i;
	MPI_Comm_remote_size(other, &others);
	for (i = 0; i < others; i++) {
		int mine = 100 * rank + i, theirs = -1;
		MPI_Sendrecv(&mine, 1, MPI_INT, i, 0, &theirs, 1, MPI_INT, i, 0, other, MPI_STATUS_IGNORE);
		if (theirs != 100 * i + rank) {
			printf("rank %d: got %d of %d\n", rank, theirs, i);
			exit(1);
		}
	}
	printf("rank %d of %d exchanged with %d\n", rank, size, others);
}

int main(int argc, char **argv)
{
	char port[MPI_MAX_PORT_NAME] = "";
	MPI_Comm other;
	const char *what = argc > 2 ? argv[1] : "", *name = argc > 2 ? argv[2] : "";

	MPI_Init(&argc, &argv);
	MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
	MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN);
	MPI_Comm_rank(MPI_COMM_WORLD, &rank);
	MPI_Comm_size(MPI_COMM_WORLD, &size);
	setvbuf(stdout, NULL, _IOLBF, 0);

	if (strcmp(what, "server") == 0) {
		if (rank == 0) {
			MPI_Open_port(MPI_INFO_NULL, port);
			if (MPI_Publish_name(name, MPI_INFO_NULL, port) != MPI_SUCCESS) {
				printf("refused\n");
				MPI_Abort(MPI_COMM_WORLD, 1);
			}
			printf("published\n");
		}
		if (MPI_Comm_accept(port, MPI_INFO_NULL, 0, MPI_COMM_WORLD, &other) != MPI_SUCCESS) {
			printf("accept failed\n");
			MPI_Abort(MPI_COMM_WORLD, 1);
		}
		exchange(other);
		MPI_Comm_disconnect(&other);
		if (rank == 0) {
			MPI_Unpublish_name(name, MPI_INFO_NULL, port);
			MPI_Close_port(port);
		}
	} else if (strcmp(what, "client") == 0 || strcmp(what, "late") == 0) {
		char byte;
		while (rank == 0 && !lookup(name, port))
			usleep(50000);
		if (strcmp(what, "late") == 0) {
			printf("found\n");
			if (read(0, &byte, 1) != 1)
				return 1;
		}
		if (MPI_Comm_connect(port, MPI_INFO_NULL, 0, MPI_COMM_WORLD, &other) != MPI_SUCCESS) {
			printf("connect failed\n");
			MPI_Abort(MPI_COMM_WORLD, 1);
		}
		exchange(other);
		MPI_Comm_disconnect(&other);
	} else if (strcmp(what, "find") == 0) {
		if (rank == 0 && lookup(name, port))
			printf("found\n");
		else if (rank == 0)
			printf("not found\n");
	} else if (rank == 0) {
		MPI_Open_port(MPI_INFO_NULL, port);
		printf("%s\n", MPI_Publish_name(name, MPI_INFO_NULL, port) == MPI_SUCCESS ? "published" : "refused");
		for (;;)
			pause();
	}
	MPI_Finalize();
	return 0;
}
