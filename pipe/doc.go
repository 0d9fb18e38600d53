/*
Package pipe moves bytes from a pipe to other pipes without copying them: the kernel hands
over the pages that hold them, also to several pipes (splice(2) and tee(2)).

	from ---SpliceFrom---> SpliceBuffer ---SpliceTo---> to         a SpliceBuffer is a pipe of ours
	                         '---TeeTo---> SpliceBuffer ---SpliceTo---> to

The pages handed over belong to the process that wrote them. If that process lent them to the pipe (vmsplice(2)) and
changes them before they are read, the reader sees the new contents.

Only Linux supports this. On other systems NewSpliceBuffer fails with errors.ErrUnsupported.
*/
package pipe

// DefaultSize is the size of a new pipe, in bytes.
const DefaultSize = 64 << 10
