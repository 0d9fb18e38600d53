/*
Package sysvipc removes shared memory that failed ranks have left behind: segments and semaphore sets of System V,
and files in /dev/shm. A process that crashes or is killed cannot remove what it created. The kernel keeps it
until the next boot.

	a process of the job is reaped -----> Tracker.NoteEnded: its PID, start and end
	a rank fails, the job ends ---------> Tracker.Scan: the same, and the files that each process holds
	                                                             |
	                                                             v
	all processes of the job have ended -> Tracker.Free: compares these records with the kernel's tables
	                                       (leftSegments, leftFiles, isOfJob), removes the job's objects

The package removes an object only if a process of the job is known to have created, held or last used it, and if
no process holds it any more. It never chooses objects by a pattern of names (rule PD-20).
*/
package sysvipc
