/* A program that hangs: hang HOW [FILE]. In most cases its last rank does something else than the others, who wait in a collective. */
#include <errno.h>
#include <fcntl.h>
#include <linux/userfaultfd.h>
#include <mpi.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

static volatile int sink;
static int rank, size, n;

static void exchange(void) {
	int sum;
	MPI_Allreduce(&rank, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
}

static void __attribute__((noinline)) compute(void) {
	for (;;)
		sink++;
}

static void read_all(int fd) {
	char byte;
	while (read(fd, &byte, 1) > 0)
		;
}

/* The kernel never brings in this page. */
static void page_out(void) {
	long page = sysconf(_SC_PAGESIZE);
	int fd = syscall(SYS_userfaultfd, O_CLOEXEC);
	struct uffdio_api api = {.api = UFFD_API};
	char *at = mmap(NULL, page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	struct uffdio_register range = {.range = {(unsigned long)at, page}, .mode = UFFDIO_REGISTER_MODE_MISSING};
	if (fd < 0 || ioctl(fd, UFFDIO_API, &api) || ioctl(fd, UFFDIO_REGISTER, &range))
		perror("userfaultfd"), exit(1);
	sink = *(volatile char *)at;
}

static void stop_child(void) {
	pid_t child = fork();
	if (child == 0) {
		setpgid(0, 0); /* or the kernel ignores the signal */
		raise(SIGTTIN);
		_exit(0);
	}
	waitpid(child, NULL, 0);
}

/* The control group in dir lets a process wait that uses more memory. */
static void use_memory(const char *dir) {
	char name[1000];
	snprintf(name, sizeof name, "%s/cgroup.procs", dir);
	FILE *file = fopen(name, "w");
	if (!file || fprintf(file, "%d\n", getpid()) < 0 || fclose(file))
		perror(name), exit(1);
	for (;;)
		memset(malloc(1 << 24), 1, 1 << 24);
}

static void otherwise(const char *how, const char *fifo) {
	static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
	static int big[1 << 20];
	int pair[2];
	if (!strcmp(how, "skip"))
		MPI_Barrier(MPI_COMM_WORLD);
	if (!strcmp(how, "order")) {
		MPI_Gather(&rank, 1, MPI_INT, big, 1, MPI_INT, size - 1, MPI_COMM_WORLD);
		MPI_Barrier(MPI_COMM_WORLD);
	}
	if (!strcmp(how, "receive"))
		MPI_Recv(&n, 1, MPI_INT, 0, 7, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
	if (!strcmp(how, "send"))
		MPI_Send(big, 1 << 20, MPI_INT, 0, 7, MPI_COMM_WORLD);
	if (!strcmp(how, "fifo"))
		read_all(open(fifo, O_RDONLY));
	if (!strcmp(how, "sleep"))
		sleep(1000);
	if (!strcmp(how, "loop"))
		compute();
	if (!strcmp(how, "lock"))
		pthread_mutex_lock(&lock), pthread_mutex_lock(&lock);
	if (!strcmp(how, "stop"))
		raise(SIGSTOP);
	if (!strcmp(how, "ttin"))
		stop_child();
	if (!strcmp(how, "page"))
		page_out();
	if (!strcmp(how, "socket"))
		socketpair(AF_UNIX, SOCK_STREAM, 0, pair), read_all(pair[0]);
	if (!strcmp(how, "child")) {
		char command[1000];
		snprintf(command, sizeof command, "cat %s", fifo);
		n = system(command);
	}
	if (!strcmp(how, "finalize"))
		pause();
	if (!strcmp(how, "memory"))
		use_memory(fifo);
	if (!strcmp(how, "twice"))
		MPI_Barrier(MPI_COMM_WORLD), MPI_Barrier(MPI_COMM_WORLD);
}

/* All ranks are in one call at one line. */
static void together(const char *how) {
	static int big[1 << 20];
	int last = rank == size - 1, one[1000], offset[1000];
	MPI_Comm other;
	MPI_Comm_dup(MPI_COMM_WORLD, &other);
	while (!strcmp(how, "root"))
		MPI_Bcast(big, 1 << 20, MPI_INT, last, MPI_COMM_WORLD);
	while (!strcmp(how, "comm"))
		MPI_Barrier(last ? other : MPI_COMM_WORLD);
	for (int i = 0; i < size; i++)
		one[i] = 1, offset[i] = i;
	int none[1000];
	memcpy(none, one, sizeof one);
	none[0] = 0;
	while (!strcmp(how, "count"))
		MPI_Alltoallv(big, last ? none : one, offset, MPI_INT, big + 1000, one, offset, MPI_INT, MPI_COMM_WORLD);
}

int main(int argc, char **argv) {
	const char *how = argv[1];
	MPI_Init(&argc, &argv);
	MPI_Comm_rank(MPI_COMM_WORLD, &rank);
	MPI_Comm_size(MPI_COMM_WORLD, &size);
	exchange();
	if (rank == 0)
		puts("ready"), fflush(stdout);
	together(how);
	if (rank == size - 1)
		otherwise(how, argv[argc - 1]);
	if (!strcmp(how, "pair") && rank >= size - 2) {
		static int big[1 << 20];
		MPI_Send(big, 1 << 20, MPI_INT, 2 * size - 3 - rank, 7, MPI_COMM_WORLD);
	}
	if (!strcmp(how, "order") && rank < size - 1)
		MPI_Barrier(MPI_COMM_WORLD);
	if (!strcmp(how, "twice") && rank < size - 1)
		MPI_Barrier(MPI_COMM_WORLD);
	if (strcmp(how, "finalize"))
		exchange();
	MPI_Finalize();
	return 0;
}
