/*
Package pipe moves bytes from a pipe to one or more other pipes without copying them. The kernel passes on the
memory pages that hold the bytes (splice(2) and tee(2)).

	from ---SpliceFrom---> SpliceBuffer ---SpliceTo---> to         a SpliceBuffer is a pipe of this process
	                         '---TeeTo---> SpliceBuffer ---SpliceTo---> to

The pages belong to the process that wrote the bytes. If that process used vmsplice(2) and changes its memory before the
bytes are read, the reader sees the new contents.

Only Linux supports this. On other systems NewSpliceBuffer fails with errors.ErrUnsupported.
*/
package pipe

// DefaultSize is the size in bytes of a pipe that was not enlarged.
const DefaultSize = 64 << 10
