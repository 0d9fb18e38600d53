/*
Package scratch is the feature of mpiexec that makes a folder for temporary files of the job on each host
(--scratch). Ranks get its path in TMPDIR. The folder is removed when the job ends.

	--scratch: Folder --Prepare--> helper: chooses a path, sets TMPDIR and MPIEXEC_SCRATCH
	                                 | ranks are about to start: makes the folder, and a record of it
	                               no process is left: removes both
	mpiexec <--- ScratchLeft ------'   only if the folder stays
	   '---> line at the end, or warning

If the helper is killed, its reaper, its guard or the next helper finds the folder through the record and removes it.
*/
package scratch
