/*
Package scratch is a feature: on each host it makes a folder for the job, which ranks get as TMPDIR, and removes it at the
end (--scratch).

	--scratch: Folder --Prepare--> helper: chooses a path, sets TMPDIR and MPIEXEC_SCRATCH
	                                 | ranks are about to start: makes the folder, and a record of it
	                               no process is left: removes both
	mpiexec <--- ScratchLeft ------'   only if the folder stays
	   '---> line at the end, or warning

If the helper is killed, its reaper, its guard or the next helper finds the record, and removes the folder.
*/
package scratch
