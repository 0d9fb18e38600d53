/*
Package stage is the feature of mpiexec that copies files to the nodes of a job before its ranks start (--stage;
doc/adr/0009). It removes the files at the end of the job. On the machine of mpiexec it makes links to the files.

When all nodes have claimed their part of the plan, and before a node's first Start:

	mpiexec                                      helper
	   | StageFiles ------------------------------------>  names, sizes, hashes
	   | <---------------------------------- MissingFiles  files that the node does not have
	   | FileChunk, FileChunk, ... --------------------->  file after file, in order
	   | <----------------------------------- FileCredit   allows more bytes
	   | <----------------------------------- StageResult  success, or the error

A sender may have 2 MiB in transit to a node, counted before compression. An empty FileCredit shows that the helper is
still at work. At both ends a goroutine of its own handles the files, so that a slow disk or link stops nothing else.

	stageFiles --starts--> sender: reads a chunk, encodes it once, and sends it to
	   ^                     |     all nodes without the file, once they all have credit
	   |                     | FileChunk
	   '----- node <---------'
	           |
	           '---> receiver: writes a folder ---> ranks: MPIEXEC_STAGE_DIR
*/
package stage
