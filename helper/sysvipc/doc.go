/*
Package ipc frees the shared memory that ranks have left which did not end well: segments of System V, and
files in /dev/shm. Who crashes, or is killed, cannot free what it has made, and the kernel does not: it stays
until the next boot.

	a process of the job is reaped ----> Book.Ended ---------.
	the first failure here, the end ---> Book.Look            |
	                                     who holds what       |
	                                                          v
	all processes of the job are gone -> lists of the kernel: what of this was theirs? --> freed
	                                     Book.segments, Book.files (pure)

It frees nothing of which it does not know that a process of the job has made or held it, and nothing that
anybody holds still; never by a pattern of names (PD-20).
*/
package sysvipc
