/*
Package sysvipc removes shared memory that failed ranks have left behind: segments and semaphore sets of System V,
and files in /dev/shm. A process that crashes or is killed cannot remove what it created. The kernel keeps it
until the next boot.

	a process of the job is reaped ----> Tracker.NoteEnded ---.
	a rank fails, the job ends --------> Tracker.Scan         |
	                                     which files it holds |
	                                                          v
	all processes of the job are gone -> tables of the kernel: which objects are theirs? --> removed
	                                     Tracker.leftSegments, leftFiles, isOfJob (pure)

The package removes an object only if a process of the job is known to have created, held or last used it, and if
no process holds it any more. It never chooses objects by a pattern of names (rule PD-20).
*/
package sysvipc
